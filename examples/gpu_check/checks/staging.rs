//! Whether an upload is copied on its way.
//!
//! CubeCL copies memory that is not page-locked, and below 100 MiB, into a page-locked buffer of its
//! own, on the one thread that also serves the model. Such a copy is processor time of that thread, in
//! proportion to the bytes. So the same batches are sent from ordinary memory and from page-locked
//! memory, and the processor time of that thread is compared. That shows the absence of any copy on
//! that thread, CubeCL's own or one inside the driver's call; that the driver knows the memory as
//! page-locked is asked beside it.

use crate::bench::{Bench, NEEDS_CUDA};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, batch_bytes, loader, ordinary_pool, page_locked_pool};
use crate::planes::{Case, ONE_DEGREE};
use crate::process::runner_seconds;
use anyhow::{Context, Result};
use burn::data::dataloader::DataLoader;
use burn_om4::{HostPool, OceanBatcher, OceanDataset, Order};
use std::time::{Duration, Instant};

/// Of the processor time that staging costs. Launches and waking up cost some of it anyhow.
const MOST: f64 = 1.0 / 3.0;

pub fn run(bench: &Bench) -> Result<Outcome> {
    let Some(cuda) = &bench.cuda else {
        return not_run(NEEDS_CUDA);
    };
    // A read group of 80 MB: below the size from which CubeCL does not stage.
    let batches = bench.pick(100, 40, 40);
    let dataset = Case::new(ONE_DEGREE, 77, batches + 24)
        .stamped()
        .dataset()?;
    let page_locked = page_locked_pool(cuda)?;
    let mut lease = page_locked.lease(1 << 20)?;
    let is_locked = cuda.is_page_locked(lease.as_mut_slice())?;
    drop(lease);
    // A thread that waits for work looks for it now and then.
    let idle = idle_share()?;
    let staged = seconds_per_gb(bench, &dataset, ordinary_pool(), batches, idle)?;
    let direct = seconds_per_gb(bench, &dataset, page_locked, batches, idle)?;
    Finding::new(
        "the driver knows the buffers as page-locked, and CubeCL's thread spends at most a third of \
         the processor time that the same bytes cost it from ordinary memory",
    )
    .number("page-locked", f64::from(u8::from(is_locked)), "")
    .number("from page-locked memory", direct, "s/GB")
    .number("from ordinary memory", staged, "s/GB")
    .number("share", direct / staged, "")
    .must(is_locked && staged > 0.0 && direct <= MOST * staged)
    .found()
}

/// Processor time of the idle runner, as a share of the time that passes.
fn idle_share() -> Result<f64> {
    let started = Instant::now();
    let before = runner_time()?;
    std::thread::sleep(Duration::from_millis(500));
    Ok((runner_time()? - before) / started.elapsed().as_secs_f64())
}

fn runner_time() -> Result<f64> {
    runner_seconds().context("the system does not say what CubeCL's threads spend")
}

fn seconds_per_gb(
    bench: &Bench,
    dataset: &OceanDataset,
    pool: HostPool,
    batches: usize,
    idle: f64,
) -> Result<f64> {
    let batcher = OceanBatcher::new(dataset.clone()).with_host_pool(pool);
    let loader = loader(batcher, Order::Sequential, 1, AHEAD, &bench.device)?;
    let mut passing = loader.iter();
    for _ in 0..12 {
        passing.next().transpose()?;
    }
    let (started, before) = (Instant::now(), runner_time()?);
    for _ in 0..batches {
        passing.next().transpose()?;
    }
    let busy = runner_time()? - before - idle * started.elapsed().as_secs_f64();
    // As many batches have crossed as were taken: the next one is always there.
    Ok(busy.max(0.0) / (batches as f64 * batch_bytes(&loader) / 1e9))
}
