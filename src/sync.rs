//! Locks that a panic elsewhere does not spoil.
//!
//! No section under a lock of this crate leaves its value half changed, so the value behind a
//! poisoned lock is still consistent: poisoning is ignored, here and nowhere else.
//!
//! `host/slots` takes all its threading from here, so that the package in `tests/loom` can build it
//! with loom's types and try the interleavings of threads.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Says to work that is under way that nobody wants its result any more. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Nobody wants it any more, for good.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether that has been said.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Locks a mutex, poisoned or not.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a mutex that nobody shares any more, poisoned or not.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition variable is notified, or wakes by itself.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// As [`wait`], for `timeout` at most.
pub(crate) fn wait_timeout<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    let waited = condvar.wait_timeout(guard, timeout);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
