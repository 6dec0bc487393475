//! The bookkeeping of a pool of buffers: which are leased, which are free, which are too many.
//!
//! ```text
//!            take()                          give_back()
//!   free ─────────────▶ leased (not held here) ─────────────▶ free
//!    │   none that fits:  caller allocates                     │ one more than are kept
//!    └── outgrown: freed by that caller      surplus ◀─────────┴──▶ freed by that caller
//!                                               └── freed by the next caller that allocates
//! ```
//!
//! A buffer is in one of the lists or with a leaseholder, never both: it moves. What a buffer is
//! does not matter here, only its size; memory is touched outside the lock by whoever has the
//! buffer.

use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait, wait_timeout};
use std::time::{Duration, Instant};

/// What is pooled.
pub(crate) trait Pooled {
    /// Size in bytes.
    fn bytes(&self) -> usize;
}

/// Counts of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) leased: usize,
    pub(crate) free: usize,
    pub(crate) bytes: usize,
    pub(crate) peak_bytes: usize,
    pub(crate) allocations: u64,
}

/// How buffers are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotBounds {
    /// Free buffers kept; the largest stay.
    pub(crate) keep: usize,
    /// Buffers leased at the same time.
    pub(crate) limit: Option<usize>,
    /// Whether buffers that are too many wait for the next caller that allocates, because whoever
    /// brings them back must not free them.
    pub(crate) freed_later: bool,
}

/// What [`Slots::take`] found.
pub(crate) enum Taken<S> {
    /// A free buffer that fits.
    Free(S),
    /// None fits: the caller frees these, allocates one and says so if that fails.
    Allocate(Vec<S>),
}

/// The limit stayed reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exhausted(pub(crate) SlotCounts);

/// See the module.
pub(crate) struct Slots<S> {
    bounds: SlotBounds,
    lists: Mutex<Lists<S>>,
    returned: Condvar,
}

struct Lists<S> {
    free: Vec<S>,
    surplus: Vec<S>,
    counts: SlotCounts,
}

impl<S: Pooled> Slots<S> {
    pub(crate) fn new(bounds: SlotBounds) -> Self {
        Self {
            bounds,
            lists: Mutex::new(Lists {
                free: Vec::new(),
                surplus: Vec::new(),
                counts: SlotCounts::default(),
            }),
            returned: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists<S>> {
        lock(&self.lists)
    }

    /// Takes the smallest free buffer of at least `bytes` and at most twice that, or the right to
    /// allocate one. Waits at the limit, up to `timeout`.
    pub(crate) fn take(&self, bytes: usize, timeout: Duration) -> Result<Taken<S>, Exhausted> {
        let mut lists = self.lock();
        // None is later than any clock can tell.
        let mut deadline: Option<Option<Instant>> = None;
        while self
            .bounds
            .limit
            .is_some_and(|limit| lists.counts.leased >= limit)
        {
            let now = Instant::now();
            let deadline = *deadline.get_or_insert_with(|| now.checked_add(timeout));
            let Some(deadline) = deadline else {
                lists = wait(&self.returned, lists);
                continue;
            };
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Err(Exhausted(lists.counts()));
            }
            lists = wait_timeout(&self.returned, lists, left);
        }
        lists.counts.leased += 1;
        let sizes = || lists.free.iter().map(S::bytes).enumerate();
        let twice = bytes.saturating_mul(2);
        let fits = sizes().filter(|&(_, size)| (bytes..=twice).contains(&size));
        let best = fits.min_by_key(|&(_, size)| size).map(|(i, _)| i);
        // A buffer of this kind that became too small makes room, so that they do not pile up.
        let outgrown = sizes().filter(|&(_, size)| size < bytes && size >= bytes / 2);
        let outgrown = outgrown.max_by_key(|&(_, size)| size).map(|(i, _)| i);
        if let Some(index) = best {
            return Ok(Taken::Free(lists.free.swap_remove(index)));
        }
        let mut unwanted = std::mem::take(&mut lists.surplus);
        unwanted.extend(outgrown.map(|i| lists.free.swap_remove(i)));
        let counts = &mut lists.counts;
        counts.bytes -= unwanted.iter().map(S::bytes).sum::<usize>();
        counts.bytes += bytes;
        counts.peak_bytes = counts.peak_bytes.max(counts.bytes);
        counts.allocations += 1;
        Ok(Taken::Allocate(unwanted))
    }

    /// Gives the right to allocate back: there is no memory.
    pub(crate) fn allocation_failed(&self, bytes: usize) {
        let mut lists = self.lock();
        lists.counts.leased -= 1;
        lists.counts.bytes -= bytes;
        drop(lists);
        self.returned.notify_one();
    }

    /// Takes a leased buffer home. A buffer that is returned is for the caller to free.
    #[must_use]
    pub(crate) fn give_back(&self, slot: S) -> Option<S> {
        let mut lists = self.lock();
        lists.counts.leased -= 1;
        lists.free.push(slot);
        let mut surplus = None;
        if lists.free.len() > self.bounds.keep {
            let smallest = lists.free.iter().enumerate().min_by_key(|(_, s)| s.bytes());
            let smallest = smallest.map(|(i, _)| i);
            surplus = smallest.map(|i| lists.free.swap_remove(i));
        }
        if self.bounds.freed_later {
            lists.surplus.extend(surplus.take());
        }
        lists.counts.bytes -= surplus.as_ref().map_or(0, S::bytes);
        drop(lists);
        self.returned.notify_one();
        surplus
    }

    /// The counts now.
    pub(crate) fn counts(&self) -> SlotCounts {
        self.lock().counts()
    }

    /// Every buffer that is not leased, for whoever ends the pool.
    pub(crate) fn drain(&self) -> Vec<S> {
        let mut lists = self.lock();
        let mut slots = std::mem::take(&mut lists.free);
        slots.append(&mut lists.surplus);
        slots
    }
}

impl<S> Lists<S> {
    fn counts(&self) -> SlotCounts {
        SlotCounts {
            free: self.free.len(),
            ..self.counts
        }
    }
}
