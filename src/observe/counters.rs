//! Numbers while it runs: what was read, what was shared, how long the model waited.

use crate::observe::timeline::{Stage, Timeline};
use crate::ocean::plane::ReadCounts;
use crate::prepare::odd_cells::OddCounts;
use crate::sync::lock;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Totals of a loader since it was made; every pass adds to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoaderCounters {
    /// Batches delivered.
    pub batches: u64,
    /// Windows delivered.
    pub windows: u64,
    /// Planes the delivered tensors show, repeats included: what a loader without a plan reads.
    pub planes_shown: u64,
    /// Unique planes of the delivered batches.
    pub unique_planes: u64,
    /// Planes read, for delivered and abandoned batches.
    pub planes_read: u64,
    /// Planes that the batch before had left in memory, for delivered and abandoned batches.
    pub planes_carried: u64,
    /// Chunks read and decoded.
    pub chunks_read: u64,
    /// Chunks that were absent and taken as fill (lenient mode only).
    pub missing_chunks: u64,
    /// Bytes read as stored.
    pub stored_bytes: u64,
    /// NaN in wet cells of the batches' unique planes, set to 0. Which channels and rows they are in is
    /// told by [`OceanDataset::values`](crate::OceanDataset::values).
    pub nan_in_ocean: u64,
    /// Infinities there, set to ±3.4028235e38 (lenient mode only).
    pub infinite_in_ocean: u64,
    /// Finite values there that are too far from the mean to be measurements
    /// ([`EXTREME_DEVIATIONS`](crate::prepare::EXTREME_DEVIATIONS)).
    pub extreme_in_ocean: u64,
    /// Bytes that the device has been given, for delivered and abandoned batches, and for the one
    /// that is ahead.
    pub bytes_uploaded: u64,
    /// Copies to the device that were made of them: one per read group, or per tensor on a CPU
    /// device, where Burn takes the buffer itself and nothing is copied.
    pub uploads: u64,
    /// Seconds the reader spent reading and preparing.
    pub read_seconds: f64,
    /// How long the consumer waited for batches.
    pub wait: Waits,
}

/// Exposed wait: what the consumer spent in `next()`, seconds per batch. First batches of passes,
/// which nothing can hide, are counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Waits for first batches of passes, summed.
    pub first_seconds: f64,
    /// All other waits, summed.
    pub seconds: f64,
    /// Waits in `seconds`.
    pub batches: u64,
    /// Mean of those.
    pub mean: f64,
    /// Half of them are below; within 5 %.
    pub p50: f64,
    /// 99 of 100 are below; within 5 %.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Counts of waits in classes 5 % apart, so that memory does not grow with the run.
#[derive(Debug)]
struct Histogram {
    classes: [u64; CLASSES],
    waits: Waits,
}

/// Class k ends at `SHORTEST * STEP^k`: 1 microsecond to 20 minutes.
const CLASSES: usize = 430;
const SHORTEST: f64 = 1e-6;
const STEP: f64 = 1.05;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            classes: [0; CLASSES],
            waits: Waits::default(),
        }
    }
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        let class = (seconds / SHORTEST).max(1.0).log(STEP).ceil() as usize;
        self.classes[class.min(CLASSES - 1)] += 1;
        self.waits.batches += 1;
        self.waits.seconds += seconds;
        self.waits.max = self.waits.max.max(seconds);
    }

    fn quantile(&self, quantile: f64) -> f64 {
        let wanted = (quantile * self.waits.batches as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let class = self.classes.iter().position(|&n| {
            below += n;
            below >= wanted
        });
        let end = |class: usize| SHORTEST * STEP.powi(class as i32);
        class.map_or(0.0, end).min(self.waits.max)
    }

    fn summary(&self) -> Waits {
        Waits {
            mean: self.waits.seconds / (self.waits.batches.max(1) as f64),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            ..self.waits
        }
    }
}

/// Shared, updated from both sides of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    totals: LoaderCounters,
    waits: Histogram,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> LoaderCounters {
        let inner = lock(&self.0);
        LoaderCounters {
            wait: inner.waits.summary(),
            ..inner.totals
        }
    }

    fn update(&self, f: impl FnOnce(&mut LoaderCounters)) {
        f(&mut lock(&self.0).totals);
    }

    pub(crate) fn read(&self, counts: &ReadCounts, carried: u64, odd: &OddCounts, took: Duration) {
        self.update(|c| {
            c.planes_read += counts.planes;
            c.planes_carried += carried;
            c.chunks_read += counts.chunks;
            c.missing_chunks += counts.missing_chunks;
            c.stored_bytes += counts.stored_bytes;
            c.nan_in_ocean += odd.nan;
            c.infinite_in_ocean += odd.infinite;
            c.extreme_in_ocean += odd.extreme;
            c.read_seconds += took.as_secs_f64();
        });
    }

    pub(crate) fn waited(&self, wait: Duration, first: bool) {
        let mut inner = lock(&self.0);
        if first {
            inner.waits.waits.first_seconds += wait.as_secs_f64();
        } else {
            inner.waits.add(wait.as_secs_f64());
        }
    }

    pub(crate) fn delivered(&self, batch: &Delivered) {
        self.update(|c| {
            c.batches += 1;
            c.windows += batch.windows as u64;
            c.planes_shown += batch.shown_planes as u64;
            c.unique_planes += batch.unique_planes as u64;
        });
    }
}

/// Where the way of one batch to its device is noted.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchLog {
    pub timeline: Timeline,
    pub counters: Counters,
    pub batch: u64,
}

impl BatchLog {
    pub(crate) fn new(timeline: &Timeline, counters: &Counters, batch: u64) -> Self {
        Self {
            timeline: timeline.clone(),
            counters: counters.clone(),
            batch,
        }
    }

    /// Runs `work` and records it as a span of `stage`.
    pub(crate) fn record<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        self.timeline.record(stage, self.batch, work)
    }

    /// Counts the bytes of a copy that is done, or of a tensor that is in place.
    pub(crate) fn uploaded(&self, bytes: usize) {
        // A group without channels: nothing crosses.
        if bytes > 0 {
            self.counters.update(|c| {
                c.bytes_uploaded += bytes as u64;
                c.uploads += 1;
            });
        }
    }
}

/// What one delivered batch adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub windows: usize,
    pub shown_planes: usize,
    pub unique_planes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_class() {
        let counters = Counters::default();
        counters.waited(Duration::from_secs(9), true);
        for millis in 1..=1000 {
            counters.waited(Duration::from_millis(millis), false);
        }
        let wait = counters.snapshot().wait;
        assert_eq!(
            (wait.batches, wait.first_seconds, wait.max),
            (1000, 9.0, 1.0)
        );
        assert!((wait.mean - 0.5005).abs() < 1e-9, "{wait:?}");
        for (found, exact) in [(wait.p50, 0.5), (wait.p99, 0.99)] {
            assert!(
                (exact..=exact * STEP).contains(&found),
                "{found} for {exact}"
            );
        }
    }

    #[test]
    fn extreme_and_no_waits_are_counted() {
        let counters = Counters::default();
        assert_eq!(counters.snapshot().wait, Waits::default());
        counters.waited(Duration::ZERO, false);
        assert_eq!(counters.snapshot().wait.p99, 0.0);
        counters.waited(Duration::from_secs(1_000_000), false);
        assert_eq!(counters.snapshot().wait.max, 1e6);
    }
}
