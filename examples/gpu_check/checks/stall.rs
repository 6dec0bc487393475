//! How long CubeCL's one runner thread stands still while planes cross.
//!
//! A thread of its own asks for the smallest piece of work there is, again and again: an addition and
//! its result. Its stream has nothing to do with the uploads, so what it waits for is the runner.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, in_order, median, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE, TINY};
use anyhow::{Context, Result, anyhow, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::Timeline;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Batches until host buffers and both streams are warm: page-locking stops the driver.
const COLD: usize = 6;
/// A runner that waits for a transfer waits for all of it.
const MOST: f64 = 0.5;

/// Round trips of the smallest piece of work, seconds.
fn round_trips(device: &Device, go_on: &dyn Fn() -> bool) -> Result<Vec<f64>> {
    let one = Tensor::<1>::ones([1], device);
    let ask = || -> Result<()> {
        let two = (one.clone() + 1.0).into_data().try_to_vec::<f32>()?;
        ensure!(two == [2.0], "1 + 1 is {two:?}");
        Ok(())
    };
    for _ in 0..20 {
        ask()?;
    }
    let mut seconds = Vec::new();
    while go_on() {
        let started = Instant::now();
        ask()?;
        seconds.push(started.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(seconds)
}

pub fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let batches = bench.pick(60, 20, 4);
    let shape = bench.pick(QUARTER_DEGREE, QUARTER_DEGREE, TINY);
    let case = Case::new(shape, 77, batches + COLD + 8).stamped();
    let timeline = Timeline::start();
    let loader = in_order(case.dataset()?, AHEAD, bench)?.with_timeline(&timeline);
    let mut passing = loader.iter();
    for _ in 0..COLD {
        passing.next().context("too few batches")??;
    }
    // Nothing crosses: the batch after this one waits on the device.
    std::thread::sleep(Duration::from_millis(300));
    let until = Instant::now() + Duration::from_millis(500);
    let quiet = round_trips(&bench.device, &|| Instant::now() < until)?;

    let crossing = AtomicBool::new(true);
    let busy = std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| round_trips(&bench.device, &|| crossing.load(Ordering::Relaxed)));
        let mut uploads = || -> Result<()> {
            for _ in 0..batches {
                passing.next().context("too few batches")??;
            }
            Ok(())
        };
        let outcome = uploads();
        crossing.store(false, Ordering::Relaxed);
        let busy = asking
            .join()
            .map_err(|_| anyhow!("the asking thread panicked"));
        outcome.and(busy?)
    })?;
    let upload = median(upload_seconds(&timeline).split_off(COLD));
    let longest = |trips: &[f64]| trips.iter().copied().fold(0.0, f64::max);
    ensure!(!busy.is_empty(), "nothing was asked while planes crossed");
    let worst = longest(&busy);
    Finding::new(
        "the longest round trip takes less than half an upload: a runner that waited for a transfer \
         would take all of it",
    )
    .number("round trips", busy.len() as f64, "")
    .number("longest", worst * 1e3, "ms")
    .number("median", median(busy) * 1e3, "ms")
    .number("longest without uploads", longest(&quiet) * 1e3, "ms")
    .number("median without uploads", median(quiet) * 1e3, "ms")
    .number("upload", upload * 1e3, "ms")
    .must_on_cuda(bench, worst < MOST * upload)
    .found()
}
