//! The bookkeeping of a pool of buffers: who may lease, which are leased, which are free, which are too
//! many.
//!
//! ```text
//!  admit(n)         take()                          give_back()
//!  ───▶ promised ─────────────▶ leased (not held here) ─────────────▶ free
//!    ▲               │   none that fits:  caller allocates             │ one more than are kept
//!    │               └── outgrown: freed by that caller    surplus ◀──┴──▶ freed by that caller
//!    └ waits at the limit                              free ─▶ the next take()
//! ```
//!
//! A buffer is free or with a leaseholder, never both: it moves. What a buffer is does not matter here,
//! only its size; memory is touched outside the lock by whoever has the buffer.
//!
//! Whoever needs several buffers is admitted for all of them at once: two that each hold a part of
//! theirs and wait for the rest would wait for each other.

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
    /// Free buffers kept, or more where more are [expected](Slots::expect); the largest stay.
    pub(crate) keep: usize,
    /// Buffers leased or promised at the same time.
    pub(crate) limit: Option<usize>,
}

/// What [`Slots::take`] found.
pub(crate) enum Taken<S> {
    /// A free buffer that fits.
    Free(S),
    /// None fits: the caller frees this one, allocates another and says so if that fails.
    Allocate(Option<S>),
}

/// Why somebody was not admitted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The limit stayed reached, by what is leased and promised.
    Exhausted(SlotCounts),
    /// The limit is lower than what is asked for.
    Never(usize),
    /// Nobody wants the buffers any more.
    Stopped,
}

/// See the module.
pub(crate) struct Slots<S> {
    bounds: SlotBounds,
    lists: Mutex<Lists<S>>,
    returned: Condvar,
}

struct Lists<S> {
    free: Vec<S>,
    keep: usize,
    /// Buffers that the passes of now may have at once.
    expected: usize,
    /// Buffers that may be taken without waiting.
    promised: usize,
    counts: SlotCounts,
}

impl<S: Pooled> Slots<S> {
    pub(crate) fn new(bounds: SlotBounds) -> Self {
        Self {
            bounds,
            lists: Mutex::new(Lists {
                free: Vec::new(),
                keep: bounds.keep,
                expected: 0,
                promised: 0,
                counts: SlotCounts::default(),
            }),
            returned: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists<S>> {
        lock(&self.lists)
    }

    /// Promises `n` buffers. Waits at the limit, up to `timeout`, or until `stop` says so after a
    /// [`wake`](Self::wake).
    pub(crate) fn admit(
        &self,
        n: usize,
        timeout: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Refused> {
        let mut lists = self.lock();
        let Some(limit) = self.bounds.limit else {
            lists.promised += n;
            return Ok(());
        };
        if n > limit {
            return Err(Refused::Never(limit));
        }
        // None is later than any clock can tell.
        let mut deadline: Option<Option<Instant>> = None;
        while lists.counts.leased + lists.promised + n > limit {
            if stop() {
                return Err(Refused::Stopped);
            }
            let now = Instant::now();
            let deadline = *deadline.get_or_insert_with(|| now.checked_add(timeout));
            let Some(deadline) = deadline else {
                lists = wait(&self.returned, lists);
                continue;
            };
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                let mut counts = lists.counts();
                counts.leased += lists.promised;
                return Err(Refused::Exhausted(counts));
            }
            lists = wait_timeout(&self.returned, lists, left);
        }
        lists.promised += n;
        Ok(())
    }

    /// Takes `n` promises back that were not kept.
    pub(crate) fn dismiss(&self, n: usize) {
        self.lock().promised -= n;
        self.wake();
    }

    /// Lets everybody who waits look again whether it still should.
    pub(crate) fn wake(&self) {
        // Whoever has looked and does not wait yet holds the lock.
        drop(self.lock());
        self.returned.notify_all();
    }

    /// Keeps a promise: takes the smallest free buffer of at least `bytes` and at most twice that, or
    /// the right to allocate one.
    pub(crate) fn take(&self, bytes: usize) -> Taken<S> {
        let mut lists = self.lock();
        lists.promised -= 1;
        lists.counts.leased += 1;
        let sizes = || lists.free.iter().map(S::bytes).enumerate();
        let twice = bytes.saturating_mul(2);
        let fits = sizes().filter(|&(_, size)| (bytes..=twice).contains(&size));
        let best = fits.min_by_key(|&(_, size)| size).map(|(i, _)| i);
        // A buffer of this kind that became too small makes room, so that they do not pile up.
        let outgrown = sizes().filter(|&(_, size)| size < bytes && size >= bytes / 2);
        let outgrown = outgrown.max_by_key(|&(_, size)| size).map(|(i, _)| i);
        if let Some(index) = best {
            return Taken::Free(lists.free.swap_remove(index));
        }
        let outgrown = outgrown.map(|i| lists.free.swap_remove(i));
        let counts = &mut lists.counts;
        counts.bytes -= outgrown.as_ref().map_or(0, S::bytes);
        counts.bytes += bytes;
        counts.peak_bytes = counts.peak_bytes.max(counts.bytes);
        counts.allocations += 1;
        Taken::Allocate(outgrown)
    }

    /// More buffers will be in use at once from now on: as many stay free between two uses.
    pub(crate) fn expect(&self, n: usize) {
        let mut lists = self.lock();
        lists.expected += n;
        lists.keep = lists.keep.max(lists.expected);
    }

    /// They will not any more. What is kept stays, for those who come next.
    pub(crate) fn no_longer_expect(&self, n: usize) {
        self.lock().expected -= n;
    }

    /// Gives the right to allocate back: there is no memory.
    pub(crate) fn allocation_failed(&self, bytes: usize) {
        let mut lists = self.lock();
        lists.counts.leased -= 1;
        lists.counts.bytes -= bytes;
        drop(lists);
        self.returned.notify_all();
    }

    /// Takes a leased buffer home. A buffer that is returned is for the caller to free.
    #[must_use]
    pub(crate) fn give_back(&self, slot: S) -> Option<S> {
        let mut lists = self.lock();
        lists.counts.leased -= 1;
        lists.free.push(slot);
        let mut surplus = None;
        if lists.free.len() > lists.keep {
            let smallest = lists.free.iter().enumerate().min_by_key(|(_, s)| s.bytes());
            let smallest = smallest.map(|(i, _)| i);
            surplus = smallest.map(|i| lists.free.swap_remove(i));
        }
        lists.counts.bytes -= surplus.as_ref().map_or(0, S::bytes);
        drop(lists);
        // All: who waits for more buffers than there are must not be the only one to be told.
        self.returned.notify_all();
        surplus
    }

    /// The counts now.
    pub(crate) fn counts(&self) -> SlotCounts {
        self.lock().counts()
    }

    /// Every buffer that is not leased, for whoever ends the pool.
    pub(crate) fn drain(&self) -> Vec<S> {
        std::mem::take(&mut self.lock().free)
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
