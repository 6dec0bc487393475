//! Uploads beside kernels: what is left to wait for.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, in_order, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE, TINY};
use crate::spread::Spread;
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

/// Seconds of each.
fn each(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut seconds = Vec::with_capacity(times);
    for _ in 0..times {
        let started = Instant::now();
        work()?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
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
    let uploads = Spread::of(&upload_seconds(&timeline).split_off(COLD));
    let upload = uploads.median;
    ensure!(upload > 0.0, "no upload was recorded");

    // 256 MiB, or 1 MiB on software devices.
    let mut kernels = Kernels::new(&bench.device, bench.pick(1 << 14, 1 << 14, 64))?;
    let times = (1.5 * upload / kernels.seconds).ceil().max(1.0) as usize;
    let alone = each(batches, || kernels.run(times))?;

    // The upload of the next batch begins when this one is handed out.
    next()?;
    let both = each(batches, || {
        kernels.run(times)?;
        next()
    })?;
    let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / batches as f64;
    let hidden = 1.0 - (mean(&both) - mean(&alone)) / upload;
    Finding::new(format!(
        "kernels of 1.5 times an upload's length hide {LEAST} of it or more"
    ))
    .spread("upload", uploads.times(1e3), "ms")
    .spread("kernels", Spread::of(&alone).times(1e3), "ms")
    .spread("both", Spread::of(&both).times(1e3), "ms")
    .number("hidden, of the mean", hidden, "")
    .must_on_cuda(bench, hidden >= LEAST)
    .found()
}
