//! The default: open, one read, close.
//!
//! Nobody asks for a size that the read itself tells. Files are read by position, which pipes and
//! sockets refuse, and opened without waiting for whoever writes to a pipe: what is no file is found
//! out without a look at each.

use crate::error::{Error, Result};
use crate::zarr::files::back_end::{
    BackEnd, Decode, ReadBuffers, check_encoded, more_than_encoded, read_error,
};
use crate::zarr::files::{faults, kind};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

/// Reads through the page cache.
#[derive(Debug)]
pub(crate) struct Pread;

impl BackEnd for Pread {
    type File = File;

    fn descriptors_per_thread(&self) -> u64 {
        1
    }

    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        _: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        match open(path)? {
            Some(file) => match read_whole(&file, out) {
                Ok(size) => Ok(Some(size)),
                Err(e) => Err(kind::instead_of(&file, e)),
            },
            None => Ok(None),
        }
    }

    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        buffers: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        let Some(file) = open(path).map_err(read_error)? else {
            return Ok(None);
        };
        let failed = |e| read_error(kind::instead_of(&file, e));
        let mut length = more_than_encoded(likely);
        let mut read = 0;
        loop {
            let before = read;
            let buffer = buffers.at_least(length).map_err(read_error)?;
            read = read_on(&file, buffer, read).map_err(failed)?;
            if read == buffer.len() {
                // More than was thought likely, or no file at all.
                let size = size(&file).map_err(read_error)?;
                check_encoded(size, likely)?;
                if size > read as u64 {
                    length = size as usize + 1;
                    continue;
                }
            }
            // A later read that gets nothing proves that the first got all.
            match decode(&buffer[..read]) {
                Err(e) if read == before => return not_a_file(&file, e),
                Err(_) => {}
                Ok(()) => return Ok(Some(read as u64)),
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Option<File>> {
        open(path)
    }
}

/// Opens a file; `None` when there is none.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    kind::found(path, faults::opening(path, || kind::reading(0).open(path)))
}

/// Size in bytes.
pub(super) fn size(file: &File) -> io::Result<u64> {
    faults::sizing()?;
    kind::size_of_file(&file.metadata()?)
}

/// `error`, unless what was read is no file.
fn not_a_file(file: &File, error: Error) -> Result<Option<u64>> {
    size(file).map_err(read_error)?;
    Err(error)
}

/// Fills `out` with the whole file and returns the file's size, which is right only when it is that
/// of `out`: one system call then.
fn read_whole(file: &File, out: &mut [u8]) -> io::Result<u64> {
    let wanted = out.len();
    let mut spare = [0];
    // A byte more than wanted: a file that is too long shows itself.
    let mut read = read_parts_at(
        file,
        &mut [IoSliceMut::new(out), IoSliceMut::new(&mut spare)],
    )?;
    while read < wanted {
        match read_at(file, &mut out[read..], read as u64)? {
            0 => break,
            n => read += n,
        }
    }
    match read {
        n if n < wanted => {
            size(file)?;
            // Whatever its size is, this is all that it gave.
            Ok(n as u64)
        }
        n if n == wanted && SPARE => Ok(n as u64),
        _ => size(file),
    }
}

/// Reads on from `at`, where the last such read ended, to the rest of `buffer`, and returns where
/// the bytes end. The first call gets the whole file where the system does what it promises for
/// files.
fn read_on(file: &File, buffer: &mut [u8], mut at: usize) -> io::Result<usize> {
    while at < buffer.len() {
        let part = &mut buffer[at..];
        let wanted = part.len();
        let n = read_at(file, part, at as u64)?;
        at += n;
        if n < wanted {
            break;
        }
    }
    Ok(at)
}

/// Whether one call fills several parts, so that a file's end is seen.
const SPARE: bool = cfg!(target_os = "linux");

/// Reads from the beginning of a file to `parts`, one after the other.
#[cfg(target_os = "linux")]
pub(super) fn read_parts_at(file: &File, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    uninterrupted(|| faults::reading_parts(parts, |parts| Ok(rustix::io::preadv(file, parts, 0)?)))
}

/// Reads from the beginning of a file to the first of `parts`.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_parts_at(file: &File, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    match parts.first_mut() {
        Some(first) => read_at(file, first, 0),
        None => Ok(0),
    }
}

/// Reads to `buffer` from byte `offset` on, once.
#[cfg(unix)]
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    uninterrupted(|| {
        faults::reading(buffer, |out| {
            std::os::unix::fs::FileExt::read_at(file, out, offset)
        })
    })
}

/// Reads to `buffer` from byte `offset` on, once. The handle is private, so moving its cursor is
/// safe.
#[cfg(not(unix))]
pub(super) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use io::{Read, Seek};
    file.seek(io::SeekFrom::Start(offset))?;
    uninterrupted(|| faults::reading(buffer, |out| file.read(out)))
}

/// Fills `buffer` from byte `offset` on.
pub(super) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match read_at(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Begins again what a signal interrupted.
fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
