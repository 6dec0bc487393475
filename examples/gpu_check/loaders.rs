//! Loaders as the checks want them, and what they say of themselves.

use crate::bench::Bench;
use anyhow::Result;
use burn_om4::host::{HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::testing::PoisonedMemory;
use burn_om4::{
    OceanBatcher, OceanDataset, OceanLoader, Order, PrefetchOptions, PrefetchTo, Schedule,
    ScheduleOptions, Timeline,
};

/// As training runs it: the next batch is on the device, another one is being read.
// Every plane is read anew, so that each batch costs the same.
pub(crate) const AHEAD: PrefetchOptions = PrefetchOptions::new()
    .with_carry(0)
    .with_to(PrefetchTo::Device);

/// Each batch is read and sent when it is asked for.
pub(crate) const ON_DEMAND: PrefetchOptions = AHEAD.with_batches(0).with_to(PrefetchTo::Auto);

/// A loader of `batch_size` windows in the given order.
pub(crate) fn loader(
    batcher: OceanBatcher,
    order: Order,
    batch_size: usize,
    prefetch: PrefetchOptions,
    device: &burn::tensor::Device,
) -> Result<OceanLoader> {
    let spec = ScheduleOptions::default()
        .with_order(order)
        .with_seed(5)
        .with_batch_size(batch_size);
    let schedule = Schedule::new(spec, batcher.dataset().groups())?;
    Ok(OceanLoader::new(batcher, schedule, prefetch, device)?)
}

/// One window per batch, in order, ahead of the consumer.
pub(crate) fn in_order(
    dataset: OceanDataset,
    prefetch: PrefetchOptions,
    bench: &Bench,
) -> Result<OceanLoader> {
    let batcher = OceanBatcher::new(dataset);
    loader(batcher, Order::Sequential, 1, prefetch, &bench.device)
}

/// Bytes of raw planes of a batch, over those that were delivered.
pub(crate) fn batch_bytes(loader: &OceanLoader) -> f64 {
    let counters = loader.counters();
    let plane = loader.batcher().dataset().context(0).shape().cells() * size_of::<f32>();
    counters.unique_planes as f64 / counters.batches.max(1) as f64 * plane as f64
}

/// Seconds of every upload that the timeline has seen, in order.
pub(crate) fn upload_seconds(timeline: &Timeline) -> Vec<f64> {
    let json = timeline.to_json();
    let events = json["traceEvents"].as_array();
    let uploads = events
        .into_iter()
        .flatten()
        .filter(|e| e["cat"] == "upload");
    uploads
        .filter_map(|e| Some(e["dur"].as_f64()? / 1e6))
        .collect()
}

/// Buffers enough for three batches of two read groups.
fn options() -> HostPoolOptions {
    HostPoolOptions::default().with_keep(9)
}

/// Ordinary memory, which CubeCL has to stage.
pub(crate) fn ordinary_pool() -> HostPool {
    HostPool::new(OrdinaryMemory, options())
}

/// Poisoned buffers of the kind of memory that the device copies from.
pub(crate) fn poisoned_pool(bench: &Bench) -> Result<HostPool> {
    #[cfg(feature = "cuda")]
    if let Some(cuda) = &bench.cuda {
        let memory = burn_om4::host::PageLockedMemory::new(cuda.index())?;
        return Ok(HostPool::new(PoisonedMemory(memory), options()));
    }
    let _ = bench;
    Ok(HostPool::new(PoisonedMemory(OrdinaryMemory), options()))
}

/// Page-locked memory of the CUDA device.
#[cfg(feature = "cuda")]
pub(crate) fn page_locked_pool(cuda: &crate::cuda::Cuda) -> Result<HostPool> {
    let memory = burn_om4::host::PageLockedMemory::new(cuda.index())?;
    Ok(HostPool::new(memory, options()))
}

/// No value of [`Cuda`](crate::cuda::Cuda) exists in this build.
#[cfg(not(feature = "cuda"))]
pub(crate) fn page_locked_pool(cuda: &crate::cuda::Cuda) -> Result<HostPool> {
    match *cuda {}
}
