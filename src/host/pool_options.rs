//! Limits of a pool of host buffers, and what it says of itself.

use crate::host::slots::SlotCounts;
use std::time::Duration;

/// Limits of a [`HostPool`](crate::host::HostPool).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HostPoolOptions {
    /// Free buffers kept for reuse, or as many as the passes of loaders have at once, if that is
    /// more; the largest stay. Default 3.
    pub keep: usize,
    /// Buffers leased at the same time; `None` (default) for no limit.
    pub limit: Option<usize>,
    /// How long [`HostPool::lease`](crate::host::HostPool::lease) waits at the limit. Default 60 s.
    pub timeout: Duration,
}

impl Default for HostPoolOptions {
    fn default() -> Self {
        Self {
            keep: 3,
            limit: None,
            timeout: Duration::from_secs(60),
        }
    }
}

impl HostPoolOptions {
    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(mut self, keep: usize) -> Self {
        self.keep = keep;
        self
    }

    /// Sets [`limit`](Self::limit).
    #[must_use]
    pub fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// State of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HostPoolState {
    /// Buffers that somebody holds: the reader, Burn, or the device's copy queue.
    pub leased: usize,
    /// Buffers at rest.
    pub free: usize,
    /// Bytes of all buffers, leased and free.
    pub bytes: usize,
    /// Largest `bytes` so far.
    pub peak_bytes: usize,
    /// Buffers allocated so far; flat once the pool is warm.
    pub allocations: u64,
}

impl From<SlotCounts> for HostPoolState {
    fn from(counts: SlotCounts) -> Self {
        Self {
            leased: counts.leased,
            free: counts.free,
            bytes: counts.bytes,
            peak_bytes: counts.peak_bytes,
            allocations: counts.allocations,
        }
    }
}

impl HostPoolState {
    /// Two pools as one.
    #[cfg(feature = "cuda")]
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self {
            leased: self.leased + other.leased,
            free: self.free + other.free,
            bytes: self.bytes + other.bytes,
            // The peaks need not have been at the same time.
            peak_bytes: self.peak_bytes + other.peak_bytes,
            allocations: self.allocations + other.allocations,
        }
    }
}
