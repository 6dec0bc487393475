//! The readers of this process: one bounded Rayon pool, shared by every store.
//!
//! Its size is set once, before the first read: by [`set_reader_threads`], else by the environment
//! variable `BURN_OM4_READERS`, else it is the number of cores this process may use. More stores,
//! or more loaders, never mean more threads.

use crate::error::{Error, ErrorKind, Result};
use crate::open_files;
use crate::sync::lock;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

/// The environment variable that sets the number of reader threads.
pub const READERS_VARIABLE: &str = "BURN_OM4_READERS";

static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);

/// Starts the reader pool with this many threads.
///
/// Asking again for the same size does nothing.
///
/// # Errors
/// [`ErrorKind::Config`] when the pool already runs with another size: because of an earlier call,
/// or because something was read before; or when the process may not open a file for each of them.
/// [`ErrorKind::Io`] when threads cannot be started.
pub fn set_reader_threads(threads: NonZeroUsize) -> Result<()> {
    let mut slot = lock(&POOL);
    match &*slot {
        Some(pool) if pool.current_num_threads() == threads.get() => Ok(()),
        Some(pool) => Err(Error::config(
            "the reader pool runs already: set its size before the first read",
        )
        .expected(format!("{} threads", pool.current_num_threads()))
        .found(format!("a request for {threads}"))),
        None => {
            // A store that is open already was judged by another number of threads.
            open_files::check(threads.get(), 1)?;
            *slot = Some(start(threads)?);
            Ok(())
        }
    }
}

/// Threads of the reader pool; starts it if need be.
///
/// # Errors
/// `BURN_OM4_READERS` is not a number above zero, or threads cannot be started.
pub fn reader_threads() -> Result<usize> {
    Ok(pool()?.current_num_threads())
}

/// The pool. The lock is held only for the look-up, never while something is read.
pub(crate) fn pool() -> Result<Arc<ThreadPool>> {
    let mut slot = lock(&POOL);
    if let Some(pool) = &*slot {
        return Ok(pool.clone());
    }
    Ok(slot.insert(start(wanted_threads()?)?).clone())
}

/// Threads that the pool has, or will have when something is read; does not start it.
///
/// # Errors
/// `BURN_OM4_READERS` is not a number above zero.
pub(crate) fn planned_threads() -> Result<usize> {
    match &*lock(&POOL) {
        Some(pool) => Ok(pool.current_num_threads()),
        None => wanted_threads().map(NonZeroUsize::get),
    }
}

fn wanted_threads() -> Result<NonZeroUsize> {
    let wanted = std::env::var_os(READERS_VARIABLE);
    match wanted.as_ref().map(|v| v.to_string_lossy()) {
        Some(text) => parse(&text),
        None => Ok(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
    }
}

fn parse(text: &str) -> Result<NonZeroUsize> {
    text.trim().parse().map_err(|e| {
        Error::config(format!("{READERS_VARIABLE} is not a number of threads"))
            .expected("a number above zero")
            .found(format!("`{text}`"))
            .caused_by(e)
    })
}

fn start(threads: NonZeroUsize) -> Result<Arc<ThreadPool>> {
    ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(|i| format!("om4-read-{i}"))
        .build()
        .map(Arc::new)
        .map_err(|e| Error::new(ErrorKind::Io, "cannot start the reader threads").caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_are_positive() {
        assert_eq!(parse(" 3 ").unwrap().get(), 3);
        for bad in ["0", "", "-1", "many", "1.5"] {
            assert!(
                parse(bad)
                    .unwrap_err()
                    .to_string()
                    .contains(READERS_VARIABLE)
            );
        }
    }

    #[test]
    fn a_second_size_is_refused_and_the_same_size_is_not() {
        let now = NonZeroUsize::new(reader_threads().unwrap()).unwrap();
        set_reader_threads(now).unwrap();
        let e = set_reader_threads(now.saturating_add(1)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert_eq!(reader_threads().unwrap(), now.get());
    }
}
