//! Threads, descriptors and memory, the device's too, over 50 passes with an early drop in each. One
//! test in a program of its own, so that nothing else starts threads.
#![cfg(target_os = "linux")]

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::{OceanBatcher, OceanLoader, Order, PrefetchOptions, Schedule, ScheduleOptions};

#[derive(Clone, Copy, Debug)]
struct Usage {
    threads: usize,
    descriptors: usize,
    resident: usize,
    /// Bytes that a CubeCL device has reserved, and how many of them tensors hold.
    reserved: u64,
    held: u64,
}

fn usage(device: &Device) -> Usage {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    let (reserved, held) = on_device(device);
    Usage {
        reserved,
        held,
        threads: om4_test_support::threads().unwrap(),
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        resident: pages * 4096,
    }
}

#[cfg(feature = "vulkan")]
fn on_device(device: &Device) -> (u64, u64) {
    if burn_om4::device::is_cpu(device) {
        return (0, 0);
    }
    device.sync().unwrap();
    let memory = burn_om4::testing::DeviceMemory::of(device).unwrap();
    (memory.reserved, memory.in_use)
}

#[cfg(not(feature = "vulkan"))]
fn on_device(_: &Device) -> (u64, u64) {
    (0, 0)
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
    let dataset =
        om4_test_support::memory::memory_dataset(om4_test_support::memory::memory_source(40), 2);
    let spec = ScheduleOptions::default()
        .with_order(Order::Shuffled)
        .with_batch_size(3);
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let batcher = OceanBatcher::new(dataset);
    let loader = OceanLoader::new(batcher, schedule, PrefetchOptions::default(), device).unwrap();
    // An abandoned reader may still be in its last read when the next pass wants one: up to two more
    // threads are kept in the end, depending on who is quicker.
    passes(&loader, 20);
    assert_eq!(loader.iter().count() as u64, loader.batches());
    let before = usage(device);
    passes(&loader, 50);
    assert_eq!(loader.iter().count() as u64, loader.batches());
    let after = usage(device);
    println!("{device:?}: {before:?}, then {after:?}");
    assert!(
        after.threads <= before.threads + 2,
        "{before:?}, then {after:?}"
    );
    assert!(
        after.descriptors <= before.descriptors + 1,
        "{before:?}, then {after:?}"
    );
    assert!(
        // The planes are tiny: a plane that stays is found by `host_memory`.
        after.resident <= before.resident + (16 << 20),
        "{before:?}, then {after:?}"
    );
    assert!(
        // What is reserved depends on how many abandoned uploads meet; what is held does not.
        after.reserved <= 2 * before.reserved && after.held <= before.held,
        "{before:?}, then {after:?}"
    );
    assert_eq!(loader.batcher().host_pool().leased, 0);
}

#[test]
fn fifty_early_drops_leave_threads_descriptors_and_memory_flat() {
    flat(&Device::flex());
    if let Some(device) = om4_test_support::vulkan() {
        flat(&device);
    }
}
