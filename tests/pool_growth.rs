//! A warm loader allocates no host buffer, however far it reads ahead.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::dataset::OceanPair;
use burn_om4::{
    OceanBatcher, OceanDataset, OceanLoader, Order, PrefetchOptions, Schedule, ScheduleOptions,
};
use om4_test_support::memory::{memory_ocean, memory_options, memory_source};
use std::time::{Duration, Instant};

const ROWS: usize = 50;
const BATCH: usize = 4;

/// Two read groups, or three.
fn dataset(own_labels: bool) -> OceanDataset {
    let ocean = || memory_ocean(memory_source(ROWS), (0..ROWS as i64).collect()).unwrap();
    let pair = OceanPair {
        input: ocean(),
        label: own_labels.then(ocean),
    };
    OceanDataset::from_oceans(vec![pair], &memory_options(1)).unwrap()
}

fn loader(own_labels: bool, batches: usize, device: &Device) -> OceanLoader {
    let dataset = dataset(own_labels);
    // Windows of four rows: 47, so that the last batch is a short one.
    let order = ScheduleOptions::default()
        .with_order(Order::Sequential)
        .with_batch_size(BATCH);
    let schedule = Schedule::new(order, dataset.groups()).unwrap();
    let prefetch = PrefetchOptions::default()
        .with_batches(batches)
        .with_carry(0);
    OceanLoader::new(OceanBatcher::new(dataset), schedule, prefetch, device).unwrap()
}

/// A pass that holds each batch until the next is there, and asks for the next when `ready` says so.
fn pass(loader: &OceanLoader, ready: impl Fn(u64)) {
    let mut held = None;
    for (k, batch) in loader.iter().enumerate() {
        let before = held.replace(batch.unwrap());
        ready(k as u64 + 1);
        drop(before);
    }
}

fn flat(device: &Device) {
    for own_labels in [false, true] {
        let one = loader(own_labels, 0, device);
        one.iter().next().unwrap().unwrap();
        let planes = one.counters().planes_read;
        for batches in 1..=6 {
            let what = format!("{device:?}, own labels: {own_labels}, {batches} batches");
            let loader = loader(own_labels, batches, device);
            // The first pass has everything at once that a pass can have: all that may be read ahead is.
            let total = loader.batches();
            pass(&loader, |delivered| {
                let read = (delivered + batches as u64).min(total - 1) * planes;
                let asked = Instant::now();
                while loader.counters().planes_read < read {
                    assert!(
                        asked.elapsed() < Duration::from_secs(60),
                        "{what}: nothing is read"
                    );
                    std::thread::yield_now();
                }
            });
            let warm = loader.batcher().host_pool();
            for _ in 0..10 {
                pass(&loader, |_| {});
            }
            let after = loader.batcher().host_pool();
            assert!(warm.allocations > 0, "{what}");
            assert_eq!(
                after.allocations, warm.allocations,
                "{what}: {warm:?}, {after:?}"
            );
        }
    }
}

#[test]
fn passes_after_the_first_allocate_nothing_however_far_ahead_they_read() {
    flat(&Device::flex());
    #[cfg(feature = "vulkan")]
    if let Some(device) = om4_test_support::vulkan() {
        flat(&device);
    }
}
