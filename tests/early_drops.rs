//! Threads, descriptors and memory over 50 passes with an early drop in each. One test in a program
//! of its own, so that nothing else starts threads.
#![cfg(target_os = "linux")]

mod common;

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::{OceanBatcher, OceanLoader, Order, Prefetch, Schedule, ScheduleSpec};

#[derive(Clone, Copy, Debug)]
struct Usage {
    threads: usize,
    descriptors: usize,
    resident: usize,
}

fn usage() -> Usage {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    Usage {
        threads: common::threads().unwrap(),
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        resident: pages * 4096,
    }
}

fn passes(loader: &OceanLoader, passes: usize) {
    for taken in 0..passes {
        let mut iter = loader.iter();
        for batch in iter.by_ref().take(taken % 4) {
            batch.unwrap();
        }
        drop(iter);
    }
}

fn flat(device: &Device) {
    let dataset = common::memory::memory_dataset(common::memory::memory_source(40), 2);
    let spec = ScheduleSpec {
        order: Order::Shuffled,
        batch_size: 3,
        ..ScheduleSpec::default()
    };
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let batcher = OceanBatcher::new(dataset);
    let loader = OceanLoader::new(batcher, schedule, Prefetch::default(), device).unwrap();
    // An abandoned reader may still be in its last read when the next pass wants one: a few
    // threads are kept in the end, and no more than that.
    passes(&loader, 20);
    assert_eq!(loader.iter().count() as u64, loader.batches());
    let before = usage();
    passes(&loader, 50);
    assert_eq!(loader.iter().count() as u64, loader.batches());
    let after = usage();
    println!("{device:?}: {before:?}, then {after:?}");
    assert!(
        after.threads <= before.threads + 1,
        "{before:?}, then {after:?}"
    );
    assert!(
        after.descriptors <= before.descriptors + 1,
        "{before:?}, then {after:?}"
    );
    assert!(
        after.resident <= before.resident + (16 << 20),
        "{before:?}, then {after:?}"
    );
    assert_eq!(loader.batcher().host_pool().leased, 0);
}

#[test]
fn fifty_early_drops_leave_threads_descriptors_and_memory_flat() {
    flat(&Device::flex());
    if let Some(device) = common::vulkan() {
        flat(&device);
    }
}
