//! Whether an upload is copied on its way.
//!
//! CubeCL copies memory that is not page-locked, and below 100 MiB, into a page-locked buffer of its
//! own, on the one thread that also serves the model. Such a copy is processor time of that thread, in
//! proportion to the bytes. So the same batches are sent from ordinary memory and from page-locked
//! memory, and the processor time of that thread is compared, less what a batch of next to no bytes
//! costs it: launches, and looking for work before it sleeps. That shows the absence of any copy on
//! that thread, CubeCL's own or one inside the driver's call; that the driver knows the memory as
//! page-locked is asked beside it.

use crate::bench::{Bench, NEEDS_CUDA};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, batch_bytes, loader, ordinary_pool, page_locked_pool};
use crate::planes::{Case, ONE_DEGREE, TINY};
use crate::process::runner_seconds;
use anyhow::{Context, Error, Result};
use burn::data::dataloader::DataLoader;
use burn_om4::host::HostPool;
use burn_om4::{OceanBatcher, OceanDataset, Order};
use std::time::{Duration, Instant};

/// Of the processor time that staging costs.
const MOST: f64 = 1.0 / 3.0;
const NO_TIMES: &str = "the system does not say what CubeCL's threads spend";

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let Some(cuda) = &bench.cuda else {
        return not_run(NEEDS_CUDA);
    };
    // A read group of 80 MB: below the size from which CubeCL does not stage.
    let batches = bench.pick(100, 40, 40);
    let of = |shape| Case::new(shape, 77, batches + 24).stamped().dataset();
    // As many planes of next to no bytes: what any batch costs.
    let (dataset, tiny) = (of(ONE_DEGREE)?, of(TINY)?);
    let page_locked = page_locked_pool(cuda)?;
    let mut lease = page_locked.lease(1 << 20)?;
    let is_locked = cuda.is_page_locked(lease.as_mut_slice())?;
    drop(lease);
    // A thread that waits for work looks for it now and then.
    let Some(idle) = idle_share() else {
        return not_run(NO_TIMES);
    };
    let batches = |dataset, pool| per_batch(bench, dataset, pool, batches, idle);
    let (staged, direct, fixed) = (
        batches(&dataset, ordinary_pool())?,
        batches(&dataset, page_locked)?,
        batches(&tiny, page_locked_pool(cuda)?)?,
    );
    let (Some(staged), Some(direct), Some(fixed)) = (staged, direct, fixed) else {
        return not_run(NO_TIMES);
    };
    let of_bytes = |cost: Cost| (cost.seconds - fixed.seconds).max(0.0) / (cost.bytes / 1e9);
    let share = of_bytes(direct) / of_bytes(staged);
    let finding = Finding::new(
        "the driver knows the buffers as page-locked, and beyond what any batch costs, CubeCL's thread \
         spends at most a third of the processor time that the same bytes cost it from ordinary memory",
    )
    .number("page-locked", f64::from(u8::from(is_locked)), "")
    .number("any batch", fixed.seconds * 1e3, "ms")
    .number("batch from page-locked memory", direct.seconds * 1e3, "ms")
    .number("batch from ordinary memory", staged.seconds * 1e3, "ms")
    .number("bytes of page-locked memory", of_bytes(direct), "s/GB")
    .number("bytes of ordinary memory", of_bytes(staged), "s/GB")
    .number("share", share, "");
    // Copies cost time: without any, it was not counted.
    if is_locked && of_bytes(staged) <= 0.0 {
        return not_run(NO_TIMES);
    }
    finding.must(is_locked && share <= MOST).found()
}

/// Processor time of the runner, and the bytes that it was spent on.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    bytes: f64,
}

/// Processor time of the idle runner, as a share of the time that passes; `None` where the system does
/// not say.
fn idle_share() -> Option<f64> {
    let started = Instant::now();
    let before = runner_seconds()?;
    std::thread::sleep(Duration::from_millis(500));
    Some((runner_seconds()? - before) / started.elapsed().as_secs_f64())
}

/// What a batch costs; `None` where the system does not say.
fn per_batch(
    bench: &Bench,
    dataset: &OceanDataset,
    pool: HostPool,
    batches: usize,
    idle: f64,
) -> Result<Option<Cost>> {
    let batcher = OceanBatcher::new(dataset.clone()).with_host_pool(pool);
    let loader = loader(batcher, Order::Sequential, 1, AHEAD, &bench.device)?;
    let mut passing = loader.iter();
    let mut next = || {
        passing
            .next()
            .context("too few batches")?
            .map_err(Error::from)
    };
    for _ in 0..12 {
        next()?;
    }
    let (started, before) = (Instant::now(), runner_seconds());
    for _ in 0..batches {
        next()?;
    }
    let (Some(before), Some(after)) = (before, runner_seconds()) else {
        return Ok(None);
    };
    let busy = after - before - idle * started.elapsed().as_secs_f64();
    // As many batches have crossed as were taken: the next one is always there.
    Ok(Some(Cost {
        seconds: busy.max(0.0) / batches as f64,
        bytes: batch_bytes(&loader),
    }))
}
