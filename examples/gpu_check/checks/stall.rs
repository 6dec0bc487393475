//! How long CubeCL's one runner thread stands still while planes cross.
//!
//! A thread of its own asks for the smallest piece of work there is, again and again: an addition and
//! its result. Its stream has nothing to do with the uploads, so what it waits for is the runner.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::guard::Lower;
use crate::loaders::{AHEAD, in_order, median, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE, TINY};
use anyhow::{Context, Result, anyhow, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::Timeline;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Batches until host buffers and both streams are warm: page-locking stops the driver.
const COLD: usize = 6;
/// A runner that waits for a transfer waits for all of it.
const MOST: f64 = 0.5;

/// Asks for the smallest piece of work, and waits for the answer.
struct Asking {
    one: Tensor<1>,
}

impl Asking {
    /// On the stream of this thread; warm when it returns.
    fn new(device: &Device) -> Result<Self> {
        let asking = Self {
            one: Tensor::ones([1], device),
        };
        for _ in 0..20 {
            asking.round_trip()?;
        }
        Ok(asking)
    }

    /// Seconds.
    fn round_trip(&self) -> Result<f64> {
        let started = Instant::now();
        let two = (self.one.clone() + 1.0)
            .try_into_data()?
            .try_to_vec::<f32>()?;
        ensure!(two == [2.0], "1 + 1 is {two:?}");
        Ok(started.elapsed().as_secs_f64())
    }

    /// One and more, as long as it is told to go on.
    fn round_trips(&self, go_on: &dyn Fn() -> bool) -> Result<Vec<f64>> {
        let mut seconds = vec![self.round_trip()?];
        while go_on() {
            seconds.push(self.round_trip()?);
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(seconds)
    }
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
    let crossing = AtomicBool::new(false);
    let (tell, told) = channel();
    let [quiet, busy] = std::thread::scope(|scope| {
        // A panic of this thread ends the other one too.
        let until_done = Lower(&crossing);
        let asking = scope.spawn(|| -> Result<[Vec<f64>; 2]> {
            // Its own: when it ends early, nobody waits for the word.
            let tell = tell;
            let asking = Asking::new(&bench.device)?;
            // Nothing crosses yet: the batch after this one waits on the device.
            let until = Instant::now() + Duration::from_millis(500);
            let quiet = asking.round_trips(&|| Instant::now() < until)?;
            crossing.store(true, Ordering::Relaxed);
            tell.send(())?;
            let busy = asking.round_trips(&|| crossing.load(Ordering::Relaxed))?;
            Ok([quiet, busy])
        });
        let mut uploads = || -> Result<()> {
            // The asking thread may have failed: then it says so itself.
            if told.recv().is_ok() {
                for _ in 0..batches {
                    passing.next().context("too few batches")??;
                }
            }
            Ok(())
        };
        let outcome = uploads();
        drop(until_done);
        let asked = asking
            .join()
            .map_err(|_| anyhow!("the asking thread panicked"))?;
        outcome.and(asked)
    })?;
    let upload = median(upload_seconds(&timeline).split_off(COLD));
    let longest = |trips: &[f64]| trips.iter().copied().fold(0.0, f64::max);
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
