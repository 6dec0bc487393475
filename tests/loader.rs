//! The loader: order, failures in their place, clean early drops, bounded prefetch.

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::tensor::Device;
use burn_om4::host::{HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::ocean::PlaneSource;
use burn_om4::order::Groups;
use burn_om4::testing::{Fault, FaultySource, MemorySource};
use burn_om4::{
    ErrorKind, ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Order, PrefetchOptions,
    Schedule, ScheduleOptions, Window,
};
use om4_test_support::memory::{memory_dataset, memory_source, try_memory_dataset};
use om4_test_support::own_error;
use std::process::Command;
use std::time::Duration;

const ROWS: usize = 20;

fn loader_over(
    dataset: OceanDataset,
    order: Order,
    prefetch: usize,
    device: &Device,
) -> OceanLoader {
    let spec = ScheduleOptions::default()
        .with_order(order)
        .with_seed(5)
        .with_batch_size(3);
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let prefetch = PrefetchOptions::default().with_batches(prefetch);
    OceanLoader::new(OceanBatcher::new(dataset), schedule, prefetch, device).unwrap()
}

fn loader(order: Order, prefetch: usize) -> OceanLoader {
    loader_over(
        memory_dataset(memory_source(ROWS), 2),
        order,
        prefetch,
        &Device::flex(),
    )
}

fn faulty(fault: Fault, prefetch: usize) -> OceanLoader {
    let source = FaultySource::new(memory_source(ROWS), fault);
    loader_over(
        memory_dataset(source, 2),
        Order::Sequential,
        prefetch,
        &Device::flex(),
    )
}

fn windows(batch: &ModelBatch) -> Vec<Window> {
    batch.windows().to_vec()
}

fn pass(loader: &OceanLoader) -> Vec<Vec<Window>> {
    loader.iter().map(|b| windows(&b.unwrap())).collect()
}

fn assert_clean(loader: &OceanLoader) {
    // The reader may still be in the read that was in flight: microseconds. A minute is a leak.
    let asked = std::time::Instant::now();
    while loader.batcher().host_pool().leased > 0 {
        assert!(
            asked.elapsed() < Duration::from_secs(60),
            "buffers never came home"
        );
        std::thread::yield_now();
    }
}

#[test]
fn the_values_are_those_of_the_windows() {
    let loader = loader(Order::Sequential, 2);
    let batch = loader.iter().next().unwrap().unwrap();
    // MemorySource holds row * 100 + channel * 10 + cell; mean 0, deviation 1, all wet.
    let [n, c, ny, nx] = batch.input(0).unwrap().dims();
    assert_eq!([n, c, ny, nx], [3, 4, 2, 3]);
    let value = |row: usize, channel: usize, cell: usize| (row * 100 + channel * 10 + cell) as f32;
    let check = |tensor: burn::Tensor<4>, first_row: usize, channels: &[usize]| {
        let found: Vec<f32> = tensor.into_data().try_to_vec().unwrap();
        let mut expected = Vec::new();
        for sample in 0..3 {
            for time in 0..2 {
                for &channel in channels {
                    for cell in 0..6 {
                        expected.push(value(sample + first_row + time, channel, cell));
                    }
                }
            }
        }
        assert_eq!(found, expected);
    };
    check(batch.input(0).unwrap(), 0, &[0, 1]);
    check(batch.input(1).unwrap(), 2, &[0, 1]);
    check(batch.label(0), 2, &[0, 1]);
    check(batch.label(1), 4, &[0, 1]);
    check(batch.boundary(0), 0, &[2]);
    check(batch.boundary(1), 2, &[2]);
    assert!(batch.input(2).is_err());
}

#[test]
fn order_is_the_schedules_for_any_prefetch_depth_and_pass() {
    let expected: Vec<Vec<Vec<Window>>> = {
        let loader = loader(Order::Shuffled, 0);
        (0..3).map(|_| pass(&loader)).collect()
    };
    assert_ne!(expected[0], expected[1], "epochs are shuffled anew");
    for prefetch in [1, 2, 8] {
        let loader = loader(Order::Shuffled, prefetch);
        for epoch in &expected {
            assert_eq!(&pass(&loader), epoch, "prefetch {prefetch}");
        }
    }
    // Resuming after k passes continues with pass k.
    let resumed = loader(Order::Shuffled, 2).starting_at(2);
    assert_eq!(pass(&resumed), expected[2]);
}

#[test]
fn a_failed_read_arrives_once_in_its_place() {
    for prefetch in [0, 1, 4] {
        // Windows of 6 rows, 3 to a batch: row 13 is first touched by batch 2 (windows 6, 7, 8).
        for (fault, kind) in [
            (Fault::ErrorAt(13), ErrorKind::Corrupt),
            (Fault::PanicAt(13), ErrorKind::Interrupted),
        ] {
            let loader = faulty(fault, prefetch);
            let results: Vec<_> = loader.iter().collect();
            assert_eq!(
                results.len(),
                3,
                "two good batches, then the failure, then the end"
            );
            assert!(results[..2].iter().all(Result::is_ok));
            let error = results[2].as_ref().err().unwrap();
            assert_eq!(own_error(error).kind(), kind, "{error}");
            assert!(error.to_string().contains("13"), "{error}");
            drop(results);
            assert_clean(&loader);
        }
    }
}

#[test]
fn a_pool_that_runs_dry_says_which_batch_has_the_buffers() {
    // A batch of two steps is five tensors on a CPU; the second batch finds all buffers in use.
    let options = HostPoolOptions::default()
        .with_limit(Some(5))
        .with_timeout(Duration::ZERO);
    let dataset = memory_dataset(memory_source(ROWS), 2);
    let schedule = Schedule::new(ScheduleOptions::default(), dataset.groups()).unwrap();
    let batcher = OceanBatcher::new(dataset);
    let batcher = batcher.with_host_pool(HostPool::new(OrdinaryMemory, options));
    let prefetch = PrefetchOptions::default().with_batches(0);
    let loader = OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap();
    let mut iter = loader.iter();
    let held = iter.next().unwrap().unwrap();
    let error = iter.next().unwrap().err().unwrap();
    let error = own_error(&error);
    assert_eq!(error.kind(), ErrorKind::Device);
    let holders = "all of 5 still held: input 0 of batch 0 (handed to Burn), \
                   boundary 0 of batch 0 (handed to Burn), boundary 1 of batch 0 (handed to Burn), \
                   label 0 of batch 0 (handed to Burn), label 1 of batch 0 (handed to Burn)";
    assert!(error.to_string().ends_with(holders), "{error}");
    drop(held);
    assert_clean(&loader);
}

#[test]
fn early_drops_leave_nothing_behind() {
    let loader = loader(Order::Shuffled, 2);
    let full = pass(&loader).len();
    let threads = om4_test_support::threads();
    for taken in (0..50).map(|k| k % full) {
        let mut iter = loader.iter();
        for _ in 0..taken {
            iter.next().unwrap().unwrap();
        }
        drop(iter);
        assert_clean(&loader);
    }
    assert_eq!(pass(&loader).len(), full);
    assert_clean(&loader);
    // Other tests start threads too; 50 would be a leak.
    if let (Some(before), Some(after)) = (threads, om4_test_support::threads()) {
        assert!(after < before + 25, "threads grew from {before} to {after}");
    }
    // Five tensors a batch: two that wait, one being read, and one in use, of three passes at most.
    let pool = loader.batcher().host_pool();
    assert!(pool.free <= 60, "{} buffers are kept", pool.free);
}

#[test]
fn iterators_are_independent() {
    let loader = loader(Order::Sequential, 1);
    let (mut a, mut b) = (loader.iter(), loader.iter());
    let first = windows(&a.next().unwrap().unwrap());
    // `a` is held with its queue full while `b` runs to its end.
    let all: Vec<_> = b.by_ref().map(|x| windows(&x.unwrap())).collect();
    assert_eq!(all[0], first);
    assert_eq!(
        a.map(|x| windows(&x.unwrap())).collect::<Vec<_>>(),
        all[1..]
    );
}

#[test]
fn progress_counts_windows() {
    let loader = loader(Order::Sequential, 2);
    let mut iter = loader.iter();
    assert_eq!(iter.progress().items_processed, 0);
    while iter.next().is_some() {}
    let progress = iter.progress();
    assert_eq!(progress.items_processed, progress.items_total);
    assert_eq!(progress.items_total, 15);
}

#[test]
fn planes_are_read_once_per_sequential_pass() {
    let loader = loader(Order::Sequential, 2);
    let batches = pass(&loader).len() as u64;
    let counters = loader.counters();
    assert_eq!((counters.batches, counters.windows), (batches, 15));
    // Windows i, i+1, i+2: rows i..i+8 of two channels, and boundary rows i..i+6 of one.
    assert_eq!(counters.unique_planes, batches * (8 * 2 + 6));
    // Consecutive windows: over the pass, rows 0..20 of two channels and 0..18 of one.
    assert_eq!(counters.planes_read, 20 * 2 + 18);
    let carried = counters.unique_planes - counters.planes_read;
    assert_eq!(counters.planes_carried, carried);
    // Naively: input 2 times * 2, two boundaries of 2 * 1, two labels of 2 * 2, for 3 samples.
    assert_eq!(counters.planes_shown, batches * 3 * (4 + 4 + 8));
}

#[test]
fn a_slow_source_only_delays_the_first_batch() {
    // Counted, not timed: with the consumer slower than the source, prefetching reads ahead.
    let loader = faulty(Fault::Delay(Duration::from_millis(1)), 4);
    let mut iter = loader.iter();
    iter.next().unwrap().unwrap();
    let reached = || {
        let counters = loader.counters();
        counters.planes_read + counters.planes_carried
    };
    while reached() < 4 * 22 {
        std::thread::yield_now();
    }
    assert_eq!(loader.counters().batches, 1);
    assert_eq!(iter.count(), 4);
}

#[test]
fn burns_own_loader_takes_the_dataset_and_the_batcher() {
    let dataset = memory_dataset(memory_source(ROWS), 2);
    let stock = DataLoaderBuilder::new(OceanBatcher::new(dataset.clone()))
        .batch_size(3)
        .set_device(Device::flex())
        .build(dataset);
    let batches: Vec<_> = stock.iter().map(|b| windows(&b.unwrap())).collect();
    assert_eq!(batches, pass(&loader(Order::Sequential, 2)));
}

#[test]
fn impossible_data_sets_and_schedules_are_refused() {
    let source: MemorySource = memory_source(3);
    assert_eq!(source.rows(), 3);
    let error = try_memory_dataset(source, 2).err().unwrap();
    assert!(error.to_string().contains("no window fits"), "{error}");

    let dataset = memory_dataset(memory_source(ROWS), 2);
    let groups = Groups::single(99).unwrap();
    let schedule = Schedule::new(ScheduleOptions::default(), groups).unwrap();
    let batcher = OceanBatcher::new(dataset);
    let error = OceanLoader::new(
        batcher,
        schedule,
        PrefetchOptions::default(),
        &Device::flex(),
    );
    assert!(error.err().unwrap().to_string().contains("99"));
}

/// Warnings of a loader in a process of its own, whose reader pool has so many threads: the pool is
/// one for the whole process.
fn starved_with(readers: usize, settings: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_prints_warnings", "--ignored"])
        .arg("--nocapture")
        .env("STARVED_SETTINGS", settings)
        .env("BURN_OM4_READERS", readers.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{settings}: {text}");
    text
}

#[test]
fn settings_that_starve_the_readers_are_warned_of() {
    let cores = std::thread::available_parallelism().unwrap().get();
    // A batch of 3 neighbours: 8 rows of 2 channels and 6 of one.
    let good = starved_with(2, "");
    assert!(good.contains("warnings: 0"), "{good}");
    assert!(starved_with(22, "").contains("warnings: 0"));
    let idle = starved_with(23, "");
    assert!(idle.contains("warnings: 1"), "{idle}");
    assert!(
        idle.contains("22 planes in 22 chunks, fewer than the 23 reader threads"),
        "{idle}"
    );
    for (settings, words) in [
        ("no prefetch", "nothing is read ahead"),
        ("no workers", "nothing is read ahead"),
        ("small bound", "exceeds the prefetch bound of 100 bytes"),
    ] {
        let text = starved_with(2, settings);
        assert!(
            text.contains("warnings: 1") && text.contains(words),
            "{settings}: {text}"
        );
    }
    let one = starved_with(1, "");
    let expected = usize::from(cores > 1);
    assert!(one.contains(&format!("warnings: {expected}")), "{one}");
    assert_eq!(one.contains("1 reader thread"), cores > 1, "{one}");
}

#[test]
#[ignore = "run by settings_that_starve_the_readers_are_warned_of"]
fn child_that_prints_warnings() {
    let Ok(settings) = std::env::var("STARVED_SETTINGS") else {
        return;
    };
    let before = om4_test_support::threads();
    let prefetch = PrefetchOptions::default();
    let builder = OceanLoader::builder(memory_dataset(memory_source(ROWS), 2)).batch_size(3);
    let builder = match &*settings {
        "no prefetch" => builder.prefetch(prefetch.with_batches(0)),
        "no workers" => builder.num_workers(0),
        "small bound" => builder.prefetch(prefetch.with_bytes(100)),
        _ => builder,
    };
    let loader = builder.build(&Device::flex()).unwrap();
    let warnings = loader.warnings().unwrap();
    println!("warnings: {}", warnings.len());
    for warning in warnings {
        println!("{warning}");
    }
    // Neither the pool that reads nor another one is started for an answer.
    assert_eq!(om4_test_support::threads(), before);
}
