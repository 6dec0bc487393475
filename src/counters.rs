//! Numbers while it runs: what was read, what was shared, how long the model waited.

use crate::read::ReadCounts;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// NaN in ocean cells of unique planes, set to 0 (counted on CPU devices).
    pub nan_in_ocean: u64,
    /// Bytes handed to the device.
    pub bytes_uploaded: u64,
    /// Seconds the reader spent reading and preparing.
    pub read_seconds: f64,
    /// Seconds the consumer waited in `next()`, first batches of passes included.
    pub wait_seconds: f64,
    /// Longest single wait after the first batch of its pass, seconds.
    pub longest_wait_seconds: f64,
}

/// Shared, updated from both sides of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Arc<Mutex<LoaderCounters>>);

impl Counters {
    pub fn snapshot(&self) -> LoaderCounters {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, f: impl FnOnce(&mut LoaderCounters)) {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn read(&self, counts: &ReadCounts, carried: u64, nan_in_ocean: u64, took: Duration) {
        self.update(|c| {
            c.planes_read += counts.planes;
            c.planes_carried += carried;
            c.chunks_read += counts.chunks;
            c.missing_chunks += counts.missing_chunks;
            c.stored_bytes += counts.stored_bytes;
            c.nan_in_ocean += nan_in_ocean;
            c.read_seconds += took.as_secs_f64();
        });
    }

    pub fn waited(&self, wait: Duration, first: bool) {
        self.update(|c| {
            c.wait_seconds += wait.as_secs_f64();
            if !first {
                c.longest_wait_seconds = c.longest_wait_seconds.max(wait.as_secs_f64());
            }
        });
    }

    pub fn delivered(&self, windows: usize, shown: usize, unique: usize, bytes: u64) {
        self.update(|c| {
            c.batches += 1;
            c.windows += windows as u64;
            c.planes_shown += shown as u64;
            c.unique_planes += unique as u64;
            c.bytes_uploaded += bytes;
        });
    }
}
