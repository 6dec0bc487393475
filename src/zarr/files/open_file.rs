//! How the bytes of chunk files are had: one trait, and a back end for each way.
//!
//! A chunk that is wanted whole is opened, read and closed by one call of its back end, so that a back
//! end may make one system call of it, and none holds a descriptor longer than it must. A file that is
//! read in parts is opened once.

use crate::error::{Error, ErrorKind, Result};
use crate::options::ReadMethod;
use crate::zarr::files::mmap::{Mapped, Mapping};
use crate::zarr::files::pread::{self, Pread};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::zarr::files::direct::{Direct, DirectFile};
#[cfg(target_os = "linux")]
use crate::zarr::files::io_uring::{Ring, Rings};

/// What is done with the bytes of a whole file.
pub(crate) type Decode<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// A way of reading chunk files. "No such file" is `None`, and nothing else is.
///
/// Every back end gives the same bytes, and for the same damage an error of the same kind.
pub(crate) trait ChunkFiles: fmt::Debug + Send + Sync {
    /// Descriptors that a thread may hold at once.
    fn descriptors_per_thread(&self) -> u64;

    /// Fills `out` with a whole file and returns the file's size. Only when that is the size of
    /// `out` does `out` hold the file.
    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        room: &mut ReadBuffers,
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
        room: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>>;

    /// Opens a file to read parts of it.
    fn open(&self, path: &Path) -> io::Result<Option<OpenFile>>;
}

impl ReadMethod {
    /// Starts this way of reading. It is tried on every one of `samples`, files of the store; the
    /// default needs no trial.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: the system or the file system refuses it. [`ErrorKind::Io`]: a sample
    /// cannot be read.
    pub(crate) fn start(
        self,
        samples: &mut dyn Iterator<Item = PathBuf>,
    ) -> Result<Box<dyn ChunkFiles>> {
        match self {
            Self::Pread => Ok(Box::new(Pread)),
            Self::Mmap => Ok(Box::new(Mapped::probe(samples)?)),
            #[cfg(target_os = "linux")]
            Self::Direct => Ok(Box::new(Direct::probe(samples)?)),
            #[cfg(target_os = "linux")]
            Self::IoUring => Ok(Box::new(Rings::probe(samples)?)),
            #[cfg(not(target_os = "linux"))]
            Self::Direct | Self::IoUring => {
                let sample = samples.next().unwrap_or_default();
                Err(tried(self, &sample, io::ErrorKind::Unsupported.into()))
            }
        }
    }
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

/// What a thread keeps from file to file: bounded by the largest file.
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
    pub(super) fn at_least(&mut self, length: usize) -> &mut Vec<u8> {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        &mut self.bytes
    }

    /// Exactly `length` bytes at an address that is a multiple of `align`, a power of two.
    #[cfg(target_os = "linux")]
    pub(super) fn aligned(&mut self, align: usize, length: usize) -> &mut [u8] {
        let bytes = self.at_least(length + align);
        let at = bytes.as_ptr().align_offset(align);
        &mut bytes[at..at + length]
    }
}

/// More than anything takes that decodes to `size` bytes: what does not compress grows a little.
pub(super) fn more_than_encoded(size: usize) -> usize {
    size + size / 128 + 4096
}

/// A file that is read in parts.
#[derive(Debug)]
pub(crate) enum OpenFile {
    Plain(File),
    Mapped(Mapping),
    #[cfg(target_os = "linux")]
    Direct(DirectFile),
}

impl OpenFile {
    /// Size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => pread::size(file),
            Self::Mapped(mapping) => Ok(mapping.size()),
            #[cfg(target_os = "linux")]
            Self::Direct(file) => file.size(),
        }
    }

    /// Fills `out` from byte `offset` on.
    pub(crate) fn read_at(
        &self,
        out: &mut [u8],
        offset: u64,
        room: &mut ReadBuffers,
    ) -> io::Result<()> {
        match self {
            Self::Plain(file) => pread::read_exact_at(file, out, offset),
            _ => {
                let bytes = self.bytes_at(offset, out.len(), room)?;
                out.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// `length` bytes from `offset` on, where they lie or in `room`.
    pub(crate) fn bytes_at<'a>(
        &'a self,
        offset: u64,
        length: usize,
        room: &'a mut ReadBuffers,
    ) -> io::Result<&'a [u8]> {
        match self {
            Self::Plain(file) => {
                let bytes = &mut room.at_least(length)[..length];
                pread::read_exact_at(file, bytes, offset)?;
                Ok(bytes)
            }
            Self::Mapped(mapping) => mapping.bytes_at(offset, length),
            #[cfg(target_os = "linux")]
            Self::Direct(file) => file.bytes_at(offset, length, room),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sample: &Path) -> Vec<(ReadMethod, Box<dyn ChunkFiles>)> {
        let mut files: Vec<(ReadMethod, Box<dyn ChunkFiles>)> = Vec::new();
        for method in ReadMethod::ALL {
            match method.start(&mut std::iter::once(sample.to_owned())) {
                Ok(started) => files.push((method, started)),
                Err(e) => eprintln!("skipped: {e}"),
            }
        }
        files
    }

    /// Files of sizes around a block and a page, with bytes that tell where they are.
    fn folder() -> (tempfile::TempDir, Vec<(PathBuf, Vec<u8>)>) {
        let dir = tempfile::tempdir().unwrap();
        let files = [0, 1, 10, 511, 512, 513, 4095, 4096, 4097, 20_000, 300_001]
            .map(|size| {
                let path = dir.path().join(size.to_string());
                let bytes: Vec<u8> = (0..size).map(|i: usize| (i * 31 % 251) as u8).collect();
                std::fs::write(&path, &bytes).unwrap();
                (path, bytes)
            })
            .into();
        (dir, files)
    }

    #[test]
    fn whole_files_are_their_bytes_and_sizes() {
        let (_dir, files) = folder();
        for (method, reader) in all(&files[2].0) {
            let mut room = ReadBuffers::default();
            // Memory that is aligned for direct reads and memory that is not.
            let mut memory = vec![0u8; 400_000];
            let aligned = memory.as_ptr().align_offset(4096);
            for (path, bytes) in &files {
                for at in [aligned, aligned + 4, aligned + 1] {
                    let n = bytes.len();
                    let mut out = &mut memory[at..at + n + 2];
                    out.fill(7);
                    let read = reader.read_whole(path, &mut out[..n], &mut room).unwrap();
                    assert_eq!(read, Some(n as u64), "{method} {n}");
                    assert!(out[..n] == bytes[..] && out[n..] == [7, 7], "{method} {n}");
                    // Memory for another size: too long, too short.
                    for wanted in [n + 1, n.saturating_sub(1), n / 2, n + 5000] {
                        out = &mut memory[at..at + wanted];
                        let read = reader.read_whole(path, out, &mut room).unwrap();
                        assert_eq!(read, Some(n as u64), "{method} {n} for {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn whole_files_are_handed_over_whatever_size_was_thought_likely() {
        let (_dir, files) = folder();
        for (method, reader) in all(&files[2].0) {
            for (path, bytes) in &files {
                for likely in [0, 100, 4096, bytes.len(), 1_000_000] {
                    let mut room = ReadBuffers::default();
                    let mut seen = Vec::new();
                    let mut decode = |encoded: &[u8]| {
                        seen = encoded.to_vec();
                        match encoded.len() == bytes.len() {
                            true => Ok(()),
                            false => Err(Error::new(ErrorKind::Corrupt, "not all of it")),
                        }
                    };
                    let read = reader.decode_whole(path, likely, &mut room, &mut decode);
                    assert_eq!(read.unwrap(), Some(bytes.len() as u64), "{method}");
                    assert!(seen == *bytes, "{method}");
                }
                let mut refuse = |_: &[u8]| Err(Error::new(ErrorKind::Corrupt, "nonsense"));
                let e = reader.decode_whole(path, 100, &mut ReadBuffers::default(), &mut refuse);
                assert_eq!(e.unwrap_err().kind(), ErrorKind::Corrupt, "{method}");
            }
        }
    }

    #[test]
    fn parts_are_the_bytes_there_and_end_where_the_file_does() {
        let (_dir, files) = folder();
        for (method, reader) in all(&files[2].0) {
            let mut room = ReadBuffers::default();
            for (path, bytes) in &files {
                let file = reader.open(path).unwrap().unwrap();
                let n = bytes.len();
                assert_eq!(file.size().unwrap(), n as u64);
                for (at, length) in [(0, n), (n / 2, n - n / 2), (n / 3, n / 3), (n, 0)] {
                    let found = file.bytes_at(at as u64, length, &mut room).unwrap();
                    assert!(found == &bytes[at..at + length], "{method} {n} {at}");
                    let mut out = vec![7; length];
                    file.read_at(&mut out, at as u64, &mut room).unwrap();
                    assert!(out == bytes[at..at + length], "{method} {n} {at}");
                    let beyond = file.bytes_at(at as u64, length + 1, &mut room);
                    if at + length == n {
                        let kind = beyond.unwrap_err().kind();
                        assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{method} {n} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_sample_at_fault_is_no_refusal() {
        let (dir, files) = folder();
        for (method, _) in all(&files[2].0) {
            let missing = &mut std::iter::once(dir.path().join("none"));
            match method {
                ReadMethod::Pread => drop(method.start(missing).unwrap()),
                _ => {
                    let kind = method.start(missing).map(drop).unwrap_err().kind();
                    assert_eq!(kind, ErrorKind::Io, "{method}");
                }
            }
        }
        let refused = tried(
            ReadMethod::Direct,
            &files[2].0,
            io::Error::from_raw_os_error(libc::EINVAL),
        );
        assert_eq!(refused.kind(), ErrorKind::Config);
    }

    #[test]
    fn only_a_missing_file_is_missing() {
        let (dir, files) = folder();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        for (method, reader) in all(&files[2].0) {
            let mut room = ReadBuffers::default();
            let mut whole = |name: &str| {
                let path = dir.path().join(name);
                reader.read_whole(&path, &mut [0; 10], &mut room)
            };
            assert_eq!(whole("none").unwrap(), None, "{method}");
            assert_eq!(whole("none/deeper").unwrap(), None, "{method}");
            assert_eq!(whole("10").unwrap(), Some(10), "{method}");
            // A directory in a file's place, and a file in a directory's.
            for bad in ["folder", "10/deeper"] {
                assert!(whole(bad).is_err(), "{method} {bad}");
            }
            let mut decode = |name: &str| {
                let path = dir.path().join(name);
                reader.decode_whole(&path, 10, &mut room, &mut |_| Ok(()))
            };
            assert_eq!(decode("none").unwrap(), None, "{method}");
            for bad in ["folder", "10/deeper"] {
                let kind = decode(bad).unwrap_err().kind();
                assert_eq!(kind, ErrorKind::Io, "{method} {bad}");
            }
            let open = |name: &str| reader.open(&dir.path().join(name));
            assert!(open("none").unwrap().is_none(), "{method}");
            assert!(open("10/deeper").is_err(), "{method}");
            assert!(
                open("folder").and_then(|f| f.unwrap().size()).is_err(),
                "{method}"
            );
        }
    }
}
