//! io_uring: open, read and close of a whole chunk as one chain of requests, in one system call.
//!
//! Every reader thread has a ring of its own. A chain is waited for before anything else happens, so
//! at most one file per thread is being read, and memory is lent to the kernel only during a call.
//! Files that are read in parts gain nothing from a ring: they are read as by the default.

use crate::error::Result;
use crate::options::ReadMethod;
use crate::zarr::files::open_file::{ChunkFiles, Decode, OpenFile, ReadBuffers, more_than_encoded};
use crate::zarr::files::open_file::{read_error, tried};
use crate::zarr::files::pread::Pread;
use io_uring::squeue::Flags;
use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, opcode};
use std::ffi::CStr;
use std::fmt;
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
        let mut room = ReadBuffers::default();
        for sample in samples {
            let read = read(&sample, &mut [IoSliceMut::new(&mut [0; 64])], &mut room);
            let read = read.and_then(|n| n.ok_or_else(|| io::ErrorKind::NotFound.into()));
            read.map_err(|e| tried(ReadMethod::IoUring, &sample, e))?;
        }
        Ok(Self)
    }
}

impl ChunkFiles for Rings {
    fn descriptors_per_thread(&self) -> u64 {
        // The ring, and a file. The chain's own file is in the ring's table and needs none.
        2
    }

    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        room: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        // A byte more than wanted: a file that is too long shows itself.
        let mut spare = [0];
        let parts = &mut [IoSliceMut::new(out), IoSliceMut::new(&mut spare)];
        match read(path, parts, room) {
            Ok(None) => Ok(None),
            Ok(Some(n)) if n == out.len() => Ok(Some(n as u64)),
            Err(e) if !again(&e) => Err(e),
            // Rare, and damage most of the time: ordinary reads find out what it is.
            _ => Pread.read_whole(path, out, room),
        }
    }

    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        room: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        // Out of the room, because the ring is in it too.
        let mut bytes = std::mem::take(room.at_least(more_than_encoded(likely)));
        let read = read(path, &mut [IoSliceMut::new(&mut bytes)], room);
        let decoded = match read {
            Ok(Some(n)) if n < bytes.len() => decode(&bytes[..n]).is_ok(),
            _ => false,
        };
        *room.at_least(0) = bytes;
        match read {
            Ok(None) => Ok(None),
            Ok(Some(n)) if decoded => Ok(Some(n as u64)),
            Err(e) if !again(&e) => Err(read_error(e)),
            // Rare: ordinary reads find out whether that was all of the file.
            _ => Pread.decode_whole(path, likely, room, decode),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Option<OpenFile>> {
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
    room: &mut ReadBuffers,
) -> io::Result<Option<usize>> {
    room.path.clear();
    room.path.extend_from_slice(path.as_os_str().as_bytes());
    room.path.push(0);
    let path = CStr::from_bytes_with_nul(&room.path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ring = match &mut room.ring {
        Some(ring) => ring,
        none => none.insert(Ring::new()?),
    };
    let outcome = ring.read(path, parts);
    if ring.spoilt {
        room.ring = None;
    }
    outcome
}

/// Requests of a chain, numbered as they run.
const OPEN: usize = 0;
const READ: usize = 1;
const CLOSE: usize = 2;
const CHAIN: usize = 3;

/// The only place in the ring's table of files.
const SLOT: u32 = 0;

/// A ring of one thread, with nothing in flight between calls.
pub(crate) struct Ring {
    ring: IoUring,
    /// It holds requests that were never handed over, and must not be used again.
    spoilt: bool,
}

impl Ring {
    fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .build(CHAIN as u32 + 1)?;
        // A chain reads from the file that it opened itself.
        if !ring.params().is_feature_linked_file() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter().register_files_sparse(SLOT + 1)?;
        Ok(Self {
            ring,
            spoilt: false,
        })
    }

    /// Opens a file, reads once from its beginning, and closes it: one system call.
    fn read(&mut self, path: &CStr, parts: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        let slot =
            DestinationSlot::try_from_slot_target(SLOT).map_err(|_| io::ErrorKind::InvalidInput)?;
        let count = u32::try_from(parts.len()).map_err(io::Error::other)?;
        // `IoSliceMut` is promised to be an `iovec`.
        let vectors = parts.as_mut_ptr().cast::<libc::iovec>();
        let chain = [
            opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr())
                .file_index(Some(slot))
                .flags(libc::O_RDONLY)
                .build()
                .flags(Flags::IO_LINK)
                .user_data(OPEN as u64),
            // A hard link: the file is closed however much was read.
            opcode::Readv::new(Fixed(SLOT), vectors, count)
                .build()
                .flags(Flags::IO_HARDLINK)
                .user_data(READ as u64),
            opcode::Close::new(Fixed(SLOT))
                .build()
                .user_data(CLOSE as u64),
        ];
        // SAFETY: path, vectors and the memory they point to are borrowed until this function
        // returns, and it returns only when all requests have completed (`finish`), or when none was
        // handed to the kernel and the ring is never used again. Nothing between panics.
        unsafe { self.ring.submission().push_multiple(&chain) }.map_err(io::Error::other)?;
        let results = self.finish()?;
        let outcome = |result: i32| match result {
            0.. => Ok(result as usize),
            code => Err(io::Error::from_raw_os_error(-code)),
        };
        match outcome(results[OPEN]) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        outcome(results[READ]).map(Some)
    }

    /// Hands the chain over and waits until every request has completed: whatever happens, the kernel
    /// may write to the caller's memory until then.
    fn finish(&mut self) -> io::Result<[i32; CHAIN]> {
        let mut results = [-libc::ECANCELED; CHAIN];
        let mut left = CHAIN;
        loop {
            for done in self.ring.completion() {
                if let Some(result) = results.get_mut(done.user_data() as usize) {
                    *result = done.result();
                }
                left = left.saturating_sub(1);
            }
            if left == 0 {
                return Ok(results);
            }
            if let Err(e) = self.ring.submitter().submit_and_wait(left) {
                let untouched = self.ring.submission().len() == CHAIN;
                if untouched && e.kind() != io::ErrorKind::Interrupted {
                    self.spoilt = true;
                    return Err(e);
                }
                std::thread::yield_now();
            }
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
