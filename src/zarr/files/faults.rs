//! The calls of the default back end to the operating system, and what a test may have happen in them.
//!
//! In a build without the feature `testing` each function here is the call that it is given.

#[cfg(any(test, feature = "testing"))]
use crate::zarr::files::injected;
use std::io::{self, IoSliceMut};
use std::path::Path;

/// Opens a file.
#[inline]
pub(super) fn opening<T>(path: &Path, open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(any(test, feature = "testing"))]
    injected::open(path)?;
    let _ = path;
    open()
}

/// Before a file is asked for its size.
#[inline]
pub(super) fn sizing() -> io::Result<()> {
    #[cfg(any(test, feature = "testing"))]
    injected::size()?;
    Ok(())
}

/// Reads from the file that this thread opened last.
#[inline]
pub(super) fn reading(
    out: &mut [u8],
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    #[cfg(any(test, feature = "testing"))]
    if let Some(effect) = injected::read()? {
        return effect.apply(out, read);
    }
    read(out)
}

/// The same, to one part after the other.
#[inline]
pub(super) fn reading_parts(
    parts: &mut [IoSliceMut<'_>],
    read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
) -> io::Result<usize> {
    #[cfg(any(test, feature = "testing"))]
    if let (Some(effect), Some(first)) = (injected::read()?, parts.first_mut()) {
        return effect.apply(first, |out| read(&mut [IoSliceMut::new(out)]));
    }
    read(parts)
}
