//! io_uring: open, read and close of a whole chunk as one chain of requests, in one system call.
//!
//! Every reader thread has a ring of its own. A chain is waited for before anything else happens,
//! so at most one file per thread is being read, and memory is lent to the kernel only during a
//! call. Files that are read in parts gain nothing from a ring: they are read as by the default.

use crate::error::Result;
use crate::options::ReadMethod;
use crate::zarr::files::back_end::{BackEnd, Decode, ReadBuffers, more_than_encoded};
use crate::zarr::files::back_end::{read_error, tried};
use crate::zarr::files::pread::Pread;
use crate::zarr::files::ring::Ring;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Reads through a ring per thread.
#[derive(Debug)]
pub(crate) struct Rings;

impl Rings {
    /// Makes a ring and reads every sample through it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): the kernel has none of it, is too old, or
    /// does not let this process use it, as the defaults of container runtimes do not.
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): a sample is not there or cannot be read.
    pub(super) fn probe(samples: &mut dyn Iterator<Item = PathBuf>) -> Result<Self> {
        let mut buffers = ReadBuffers::default();
        for sample in samples {
            let read = read(&sample, &mut [IoSliceMut::new(&mut [0; 64])], &mut buffers);
            let read = read.and_then(|n| n.ok_or_else(|| io::ErrorKind::NotFound.into()));
            read.map_err(|e| tried(ReadMethod::IoUring, &sample, e))?;
        }
        Ok(Self)
    }
}

impl BackEnd for Rings {
    type File = File;

    fn descriptors_per_thread(&self) -> u64 {
        // The ring, and a file. The chain's own file is in the ring's table and needs none.
        2
    }

    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        buffers: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        // A byte more than wanted: a file that is too long shows itself.
        let mut spare = [0];
        let parts = &mut [IoSliceMut::new(out), IoSliceMut::new(&mut spare)];
        match read(path, parts, buffers) {
            Ok(Some(n)) if n == out.len() => Ok(Some(n as u64)),
            Err(e) if !again(&e) => Err(e),
            // Not there, or damage most of the time: ordinary calls find out what it is.
            _ => Pread.read_whole(path, out, buffers),
        }
    }

    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        buffers: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        // Taken out, because the ring is in the buffers too.
        let length = more_than_encoded(likely);
        let mut bytes = std::mem::take(buffers.at_least(length).map_err(read_error)?);
        let read = read(path, &mut [IoSliceMut::new(&mut bytes)], buffers);
        let decoded = match read {
            Ok(Some(n)) if n < bytes.len() => decode(&bytes[..n]).is_ok(),
            _ => false,
        };
        *buffers.at_least(0).map_err(read_error)? = bytes;
        match read {
            Ok(Some(n)) if decoded => Ok(Some(n as u64)),
            Err(e) if !again(&e) => Err(read_error(e)),
            // Rare: ordinary calls find out whether that was all of the file, and a file.
            _ => Pread.decode_whole(path, likely, buffers, decode),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Option<File>> {
        Pread.open(path)
    }
}

/// Whether a request only has to be made again, as by a signal on a network file system.
fn again(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Reads the beginning of a file to `parts`, through the thread's ring; `None` when there is no
/// file.
fn read(
    path: &Path,
    parts: &mut [IoSliceMut<'_>],
    buffers: &mut ReadBuffers,
) -> io::Result<Option<usize>> {
    buffers.path.clear();
    buffers.path.extend_from_slice(path.as_os_str().as_bytes());
    buffers.path.push(0);
    let path = CStr::from_bytes_with_nul(&buffers.path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ring = match &mut buffers.ring {
        Some(ring) => ring,
        none => none.insert(Ring::new()?),
    };
    let outcome = ring.read(path, parts);
    if ring.spoilt {
        buffers.ring = None;
    }
    outcome
}
