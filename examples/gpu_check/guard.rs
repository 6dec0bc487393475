//! Flags that threads look at.

use std::sync::atomic::{AtomicBool, Ordering};

/// Lowers a flag when it is dropped, also by a panic: a thread that goes on while it is up would be
/// waited for otherwise, for ever.
pub(crate) struct Lower<'a>(pub &'a AtomicBool);

impl Drop for Lower<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
