//! Locks, condition variables and what shares them, as the state machines of this crate use them.
//!
//! `slots` takes its threading from here, so that the package in `tests/loom` can put loom's
//! types in its place and try the interleavings of threads.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
