//! The default: open, one read, close.
//!
//! Nobody asks for a size that the read itself tells.

use crate::error::Result;
use crate::zarr::files::back_end::{BackEnd, Decode, ReadBuffers, more_than_encoded, read_error};
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
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
            Some(file) => read_whole(&file, out).map(Some),
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
        let buffer = buffers.at_least(more_than_encoded(likely));
        let mut read = read_on(&file, buffer, 0).map_err(read_error)?;
        while let Err(e) = decode(&buffer[..read]) {
            let before = read;
            read = read_on(&file, buffer, read).map_err(read_error)?;
            if read == before {
                return Err(e);
            }
        }
        Ok(Some(read as u64))
    }

    fn open(&self, path: &Path) -> io::Result<Option<File>> {
        open(path)
    }
}

/// Opens a file; `None` when there is none.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    found(File::open(path))
}

/// Tells "not there" apart from every other failure.
pub(super) fn found<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Size in bytes.
pub(super) fn size(file: &File) -> io::Result<u64> {
    size_of_file(&file.metadata()?)
}

pub(super) fn size_of_file(metadata: &std::fs::Metadata) -> io::Result<u64> {
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "a directory lies where a value should be",
        ));
    }
    Ok(metadata.len())
}

/// Fills `out` with the whole file and returns the file's size, which is right only when it is that
/// of `out`: one system call then.
fn read_whole(mut file: &File, out: &mut [u8]) -> io::Result<u64> {
    let wanted = out.len();
    let mut spare = [0];
    let mut read = if cfg!(unix) {
        // A byte more than wanted: a file that is too long shows itself.
        let parts = &mut [IoSliceMut::new(out), IoSliceMut::new(&mut spare)];
        uninterrupted(|| file.read_vectored(parts))?
    } else {
        uninterrupted(|| file.read(out))?
    };
    while read < wanted {
        match uninterrupted(|| file.read(&mut out[read..]))? {
            0 => break,
            n => read += n,
        }
    }
    match read {
        n if n > wanted || !cfg!(unix) => size(file),
        n => Ok(n as u64),
    }
}

/// Reads on from where the last such read ended, to `buffer[at..]`, which grows as needed, and
/// returns where the bytes end. The first call gets the whole file where the system does what it
/// promises for files; a later one that gets nothing proves it.
fn read_on(mut file: &File, buffer: &mut Vec<u8>, mut at: usize) -> io::Result<usize> {
    loop {
        if at == buffer.len() {
            buffer.resize((at * 2).max(4096), 0);
        }
        let n = uninterrupted(|| file.read(&mut buffer[at..]))?;
        at += n;
        if n == 0 || at < buffer.len() {
            return Ok(at);
        }
    }
}

/// Fills `buffer` from byte `offset` on.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Fills `buffer` from byte `offset` on. The handle is private, so moving its cursor is safe.
#[cfg(not(unix))]
pub(super) fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    use io::Seek;
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

/// Begins again what a signal interrupted.
pub(super) fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
