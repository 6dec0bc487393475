//! What every back end is: a way of reading chunk files. What a thread keeps for it, and its
//! errors.
//!
//! A chunk that is wanted whole is opened, read and closed by one call of its back end, so that a
//! back end may make one system call of it, and none holds a descriptor longer than it must. A file
//! that is read in parts is opened once.

use crate::error::{Error, ErrorKind, Result};
use crate::options::ReadMethod;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
use crate::zarr::files::ring::Ring;

/// What is done with the bytes of a whole file.
pub(crate) type Decode<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// A way of reading chunk files. "No such file" is `None`, and nothing else is.
///
/// Every back end gives the same bytes, and for the same damage an error of the same kind.
pub(crate) trait BackEnd {
    /// A file that it has opened.
    type File;

    /// Descriptors that a thread may hold at once.
    fn descriptors_per_thread(&self) -> u64;

    /// Fills `out` with a whole file and returns the file's size. Only when that is the size of
    /// `out` does `out` hold the file.
    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        buffers: &mut ReadBuffers,
    ) -> io::Result<Option<u64>>;

    /// Hands the bytes of a whole file to `decode`, and returns how many they are. `likely` is the
    /// size that they decode to. Where a read may have stopped early, bytes that do not decode are
    /// looked at again.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; what `decode` returned.
    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        buffers: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>>;

    /// Opens a file to read parts of it.
    fn open(&self, path: &Path) -> io::Result<Option<Self::File>>;
}

/// Why a way of reading did not read a sample: it is not to be had here, or the file is at fault.
pub(super) fn tried(method: ReadMethod, sample: &Path, cause: io::Error) -> Error {
    if !refuses(&cause) {
        return read_error(cause).chunk(sample.display().to_string());
    }
    Error::config(format!(
        "chunks cannot be read by {method} here: choose another method"
    ))
    .expected(format!("a system and a file system that allow {method}"))
    .found(format!("{}: {cause}", sample.display()))
    .caused_by(cause)
}

/// Whether a system that does not have, or does not allow, a way of reading says so like this.
fn refuses(error: &io::Error) -> bool {
    #[cfg(unix)]
    if let Some(code) = error.raw_os_error() {
        let codes = [
            libc::EINVAL,
            libc::EOPNOTSUPP,
            libc::ENOSYS,
            libc::ENODEV,
            libc::EPERM,
        ];
        return codes.contains(&code);
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// What a thread keeps from file to file: bounded by the largest chunk.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers {
    bytes: Vec<u8>,
    /// Made by the first read through it, gone with its thread.
    #[cfg(target_os = "linux")]
    pub(super) ring: Option<Ring>,
    /// A path with its NUL.
    #[cfg(target_os = "linux")]
    pub(super) path: Vec<u8>,
}

impl ReadBuffers {
    /// At least `length` bytes that hold anything. Only what a reused buffer lacks is zeroed.
    ///
    /// # Errors
    /// The system has no such memory.
    pub(super) fn at_least(&mut self, length: usize) -> io::Result<&mut Vec<u8>> {
        let lacking = length.saturating_sub(self.bytes.len());
        if lacking > 0 {
            self.bytes.try_reserve_exact(lacking)?;
            self.bytes.resize(length, 0);
        }
        Ok(&mut self.bytes)
    }

    /// Exactly `length` bytes at an address that is a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// The system has no such memory.
    #[cfg(target_os = "linux")]
    pub(super) fn aligned(&mut self, align: usize, length: usize) -> io::Result<&mut [u8]> {
        let bytes = self.at_least(length.saturating_add(align))?;
        let at = bytes.as_ptr().align_offset(align);
        Ok(&mut bytes[at..at + length])
    }
}

/// More than anything takes that decodes to `size` bytes: what does not compress grows a little.
pub(super) fn more_than_encoded(size: usize) -> usize {
    size.saturating_add(size / 128).saturating_add(4096)
}

/// Room for whatever else a file may hold that decodes to its size: comments, empty frames.
const ODDITIES: u64 = 16 << 20;

/// Sees that a file of `size` bytes can be an encoded chunk of `decoded` bytes, so that no memory is
/// asked for because a file is long.
///
/// # Errors
/// [`ErrorKind::Corrupt`], with both sizes.
pub(crate) fn check_encoded(size: u64, decoded: usize) -> Result<()> {
    let most = (more_than_encoded(decoded) as u64).saturating_add(ODDITIES);
    if size <= most && usize::try_from(size).is_ok() {
        return Ok(());
    }
    Err(
        Error::new(ErrorKind::Corrupt, "a chunk takes more bytes than it can")
            .expected(format!("at most {most} bytes for {decoded} decoded ones"))
            .found(format!("{size} bytes")),
    )
}

/// A failed read as an error of the right kind: a file that ends early is damage.
pub(crate) fn read_error(e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Corrupt, "a chunk ended while it was read").caused_by(e)
        }
        _ => Error::new(ErrorKind::Io, "cannot read a chunk").caused_by(e),
    }
}
