//! Uploads beside kernels: what is left to wait for.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, in_order, median, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE, TINY};
use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::Timeline;
use std::time::Instant;

/// Of the upload, hidden behind kernels that take longer than it.
const LEAST: f64 = 0.8;
/// Batches until host buffers and both streams are warm.
const COLD: usize = 5;

/// Kernels that fill a GPU for a while and touch no link.
struct Kernels {
    values: Tensor<2>,
    device: Device,
    seconds: f64,
}

impl Kernels {
    fn new(device: &Device, rows: usize) -> Result<Self> {
        let mut kernels = Self {
            values: Tensor::ones([rows, 4096], device),
            device: device.clone(),
            seconds: 0.0,
        };
        // The first ones are compiled.
        kernels.run(3)?;
        let started = Instant::now();
        kernels.run(10)?;
        kernels.seconds = started.elapsed().as_secs_f64() / 10.0;
        Ok(kernels)
    }

    /// Each is waited for, as a training loop waits for its loss: launches do not pile up, and
    /// fusion makes no single kernel of them.
    fn run(&mut self, times: usize) -> Result<()> {
        for _ in 0..times {
            self.values = self.values.clone() * 0.999 + 0.001;
            self.device.sync().context("waiting for the device")?;
        }
        Ok(())
    }
}

pub fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let batches = bench.pick(20, 8, 3);
    let shape = bench.pick(QUARTER_DEGREE, QUARTER_DEGREE, TINY);
    let case = Case::new(shape, 77, 2 * (batches + COLD) + 8).stamped();
    let timeline = Timeline::start();
    let loader = in_order(case.dataset()?, AHEAD, bench)?.with_timeline(&timeline);
    let mut passing = loader.iter();
    let mut next = || -> Result<()> {
        passing.next().context("too few batches")??;
        Ok(())
    };
    for _ in 0..COLD + batches {
        next()?;
    }
    let upload = median(upload_seconds(&timeline).split_off(COLD));
    ensure!(upload > 0.0, "no upload was recorded");

    // 256 MiB, or 1 MiB on software devices.
    let mut kernels = Kernels::new(&bench.device, bench.pick(1 << 14, 1 << 14, 64))?;
    let times = (1.5 * upload / kernels.seconds).ceil().max(1.0) as usize;
    let started = Instant::now();
    for _ in 0..batches {
        kernels.run(times)?;
    }
    let alone = started.elapsed().as_secs_f64() / batches as f64;

    // The upload of the next batch begins when this one is handed out.
    next()?;
    let started = Instant::now();
    for _ in 0..batches {
        kernels.run(times)?;
        next()?;
    }
    let both = started.elapsed().as_secs_f64() / batches as f64;
    let hidden = 1.0 - (both - alone) / upload;
    Finding::new(format!(
        "kernels of 1.5 times an upload's length hide {LEAST} of it or more"
    ))
    .number("upload", upload * 1e3, "ms")
    .number("kernels", alone * 1e3, "ms")
    .number("both", both * 1e3, "ms")
    .number("hidden", hidden, "")
    .must_on_cuda(bench, hidden >= LEAST)
    .found()
}
