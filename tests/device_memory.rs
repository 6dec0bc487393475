//! What a batch holds on its device. One test in a program of its own, because a device counts for all
//! threads of a process.
#![cfg(feature = "vulkan")]

use burn::data::dataloader::DataLoader;
use burn_om4::ocean::PlaneShape;
use burn_om4::testing::{DeviceMemory, MemorySource};
use burn_om4::{
    OceanBatcher, OceanLoader, Order, PrefetchOptions, PrefetchTo, Schedule, ScheduleOptions,
};

#[test]
fn a_batch_of_overlapping_rollouts_holds_its_unique_planes_once() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    // Planes of 32 KiB, so that alignment does not count.
    let shape = PlaneShape { ny: 64, nx: 128 };
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let source = MemorySource::new(channels.into(), 20, shape, |row, _, cell| {
        (row + cell) as f32
    });
    let dataset = om4_test_support::memory::memory_dataset(source, 4);
    let spec = ScheduleOptions::default()
        .with_order(Order::Sequential)
        .with_batch_size(4);
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    // Nothing is ahead: what the device holds is the batch in use.
    let prefetch = PrefetchOptions::default()
        .with_batches(0)
        .with_to(PrefetchTo::Host);
    let batcher = OceanBatcher::new(dataset);
    let loader = OceanLoader::new(batcher, schedule, prefetch, &device).unwrap();
    let held = || {
        device.sync().unwrap();
        DeviceMemory::of(&device).unwrap().in_use
    };

    // The first batch also brings constants, which stay.
    let mut iter = loader.iter();
    drop(iter.next().unwrap().unwrap());
    let (before, counted) = (held(), loader.counters());
    let batch = iter.next().unwrap().unwrap();
    let (after, counters) = (held(), loader.counters());
    let bytes = |planes: u64| 4 * shape.cells() as u64 * planes;
    let unique = bytes(counters.unique_planes - counted.unique_planes);
    let shown = bytes(counters.planes_shown - counted.planes_shown);
    println!("{before} before, {after} after; unique {unique}, shown {shown}");
    assert!(shown > 2 * unique, "the windows overlap");
    let added = after - before;
    assert!(
        (unique..unique + unique / 10).contains(&added),
        "{added} bytes for {unique}"
    );
    // Clones share them.
    let clone = batch.clone();
    assert_eq!(held(), after);
    drop((batch, clone));
    assert_eq!(held(), before);
}
