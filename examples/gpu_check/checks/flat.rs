//! Memory over epochs, and over passes that are given up early.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, batch_bytes, in_order};
use crate::planes::{Case, ONE_DEGREE, TINY};
use crate::process::resident_bytes;
use anyhow::Result;
use burn::data::dataloader::DataLoader;
use burn_om4::OceanLoader;
use std::time::{Duration, Instant};

/// Memory that is taken, bytes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    host: u64,
    /// Page-locked buffers need not count as resident.
    pool: u64,
    /// Of the whole device, where its driver is asked.
    device: u64,
}

fn memory(bench: &Bench, loader: &OceanLoader) -> Result<Memory> {
    bench.device.sync()?;
    let device = bench.cuda.as_ref().map(|cuda| cuda.memory_in_use());
    Ok(Memory {
        host: resident_bytes(),
        pool: loader.batcher().host_pool().bytes as u64,
        device: device.transpose()?.unwrap_or(0),
    })
}

fn epochs(loader: &OceanLoader, epochs: usize) -> Result<usize> {
    let mut batches = 0;
    for _ in 0..epochs {
        for batch in loader.iter() {
            batches += batch?.len();
        }
    }
    Ok(batches)
}

/// Passes that end after none, one, two or three batches.
fn early_drops(loader: &OceanLoader, drops: usize) -> Result<()> {
    for drop in 0..drops {
        for batch in loader.iter().take(drop % 4) {
            batch?;
        }
    }
    Ok(())
}

/// Buffers that are out once the read or the upload in flight had time to end.
fn out(loader: &OceanLoader) -> usize {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let leased = loader.batcher().host_pool().leased;
        if leased == 0 || Instant::now() > until {
            return leased;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let (shape, rows) = bench.pick((ONE_DEGREE, 40), (ONE_DEGREE, 16), (TINY, 7));
    let channels = bench.pick(77, 77, 5);
    let dataset = Case::new(shape, channels, rows).dataset()?;
    let loader = in_order(dataset, AHEAD, bench)?;
    epochs(&loader, 3)?;
    early_drops(&loader, 40)?;
    out(&loader);
    let before = memory(bench, &loader)?;

    let passed = epochs(&loader, 20)?;
    early_drops(&loader, 200)?;
    let lost = out(&loader);
    let after = memory(bench, &loader)?;

    let batch = batch_bytes(&loader);
    // A batch that leaks in every pass would be 220 of them. The allocators of host and device may
    // round up now and then; software devices keep everything in host memory.
    let allowed = (4.0 * batch).max(64e6);
    let grown = |after: u64, before: u64| after as f64 - before as f64;
    let host = grown(after.host, before.host);
    let pool = grown(after.pool, before.pool);
    let device = grown(after.device, before.device);
    let finding = Finding::new(
        "after 20 epochs and 200 early drops, memory has grown by less than four batches (or 64 MB), \
         and no host buffer is out",
    )
    .number("batches", passed as f64, "")
    .number("batch", batch / 1e6, "MB")
    .number("host", before.host as f64 / 1e6, "MB")
    .number("host, grown by", host / 1e6, "MB")
    .number("host buffers, grown by", pool / 1e6, "MB")
    .number("buffers out", lost as f64, "")
    .must(host <= allowed && pool <= allowed && lost == 0);
    match bench.cuda {
        Some(_) => finding
            .number("device", before.device as f64 / 1e6, "MB")
            .number("device, grown by", device / 1e6, "MB")
            .must(device <= allowed),
        None => finding,
    }
    .found()
}
