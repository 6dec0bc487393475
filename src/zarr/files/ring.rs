//! One io_uring of one thread, and the chain of requests that reads a file. Unsafe: memory is lent
//! to the kernel, and only while a call lasts.

use io_uring::squeue::Flags;
use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, opcode};
use std::ffi::CStr;
use std::fmt;
use std::io::{self, IoSliceMut};

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
    pub(super) spoilt: bool,
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
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
    pub(super) fn read(
        &mut self,
        path: &CStr,
        parts: &mut [IoSliceMut<'_>],
    ) -> io::Result<Option<usize>> {
        let slot =
            DestinationSlot::try_from_slot_target(SLOT).map_err(|_| io::ErrorKind::InvalidInput)?;
        let count = u32::try_from(parts.len()).map_err(io::Error::other)?;
        // `IoSliceMut` is promised to be an `iovec`.
        let vectors = parts.as_mut_ptr().cast::<libc::iovec>();
        let chain = [
            opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr())
                .file_index(Some(slot))
                // Of a pipe: not to wait for somebody who writes to it.
                .flags(libc::O_RDONLY | libc::O_NONBLOCK)
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
        // returns, and it returns only when all requests have completed (`finish`), or when none
        // was handed to the kernel and the ring is never used again. Nothing between panics.
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

    /// Hands the chain over and waits until every request has completed: whatever happens, the
    /// kernel may write to the caller's memory until then.
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
