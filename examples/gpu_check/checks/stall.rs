//! How long CubeCL's one runner thread stands still while planes cross.
//!
//! A thread of its own asks for the smallest piece of work there is, again and again: an addition and
//! its result. Its stream has nothing to do with the uploads, so what it waits for is the runner.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::guard::Lower;
use crate::loaders::{AHEAD, in_order, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE, TINY};
use crate::spread::Spread;
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
/// Round trips that may take longer, among thousands: the system has other threads too.
const LONG: usize = 2;

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

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
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
    let upload = Spread::of(&upload_seconds(&timeline).split_off(COLD)).times(1e3);
    let long = busy
        .iter()
        .filter(|trip| **trip * 1e3 >= MOST * upload.median);
    let long = long.count();
    let (busy, quiet) = (Spread::of(&busy).times(1e3), Spread::of(&quiet).times(1e3));
    Finding::new(format!(
        "at most {LONG} round trips take half an upload or longer: a runner that waited for transfers \
         would take all of each"
    ))
    .spread("round trip", busy, "ms")
    .number("round trip, 99th percentile", busy.p99, "ms")
    .number("half an upload or longer", long as f64, "")
    .spread("without uploads", quiet, "ms")
    .number("without uploads, 99th percentile", quiet.p99, "ms")
    .spread("upload", upload, "ms")
    .must_on_cuda(bench, upload.median > 0.0 && long <= LONG)
    .found()
}
