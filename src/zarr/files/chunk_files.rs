//! The back end of an opened store: one enum, one arm for each way of reading.

use crate::error::Result;
use crate::options::ReadMethod;
use crate::zarr::files::back_end::{BackEnd, Decode, ReadBuffers};
use crate::zarr::files::mapping::Mapping;
use crate::zarr::files::mmap::Mapped;
use crate::zarr::files::pread::{self, Pread};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::zarr::files::direct::{Direct, DirectFile};
#[cfg(target_os = "linux")]
use crate::zarr::files::io_uring::Rings;

/// How chunk files are read. Every method is that of [`BackEnd`].
#[derive(Debug)]
pub(crate) enum ChunkFiles {
    Pread(Pread),
    Mmap(Mapped),
    #[cfg(target_os = "linux")]
    Direct(Direct),
    #[cfg(target_os = "linux")]
    IoUring(Rings),
}

impl ChunkFiles {
    /// Starts a way of reading. It is tried on every one of `samples`, files of the store; the
    /// default needs no trial.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): the system or the file system refuses it.
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): a sample cannot be read.
    pub(crate) fn start(
        method: ReadMethod,
        samples: &mut dyn Iterator<Item = PathBuf>,
    ) -> Result<Self> {
        match method {
            ReadMethod::Pread => Ok(Self::Pread(Pread)),
            ReadMethod::Mmap => Mapped::probe(samples).map(Self::Mmap),
            #[cfg(target_os = "linux")]
            ReadMethod::Direct => Direct::probe(samples).map(Self::Direct),
            #[cfg(target_os = "linux")]
            ReadMethod::IoUring => Rings::probe(samples).map(Self::IoUring),
            #[cfg(not(target_os = "linux"))]
            ReadMethod::Direct | ReadMethod::IoUring => {
                let sample = samples.next().unwrap_or_default();
                let cause = io::ErrorKind::Unsupported.into();
                Err(crate::zarr::files::back_end::tried(method, &sample, cause))
            }
        }
    }

    pub(crate) fn descriptors_per_thread(&self) -> u64 {
        match self {
            Self::Pread(files) => files.descriptors_per_thread(),
            Self::Mmap(files) => files.descriptors_per_thread(),
            #[cfg(target_os = "linux")]
            Self::Direct(files) => files.descriptors_per_thread(),
            #[cfg(target_os = "linux")]
            Self::IoUring(files) => files.descriptors_per_thread(),
        }
    }

    pub(crate) fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        buffers: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        match self {
            Self::Pread(files) => files.read_whole(path, out, buffers),
            Self::Mmap(files) => files.read_whole(path, out, buffers),
            #[cfg(target_os = "linux")]
            Self::Direct(files) => files.read_whole(path, out, buffers),
            #[cfg(target_os = "linux")]
            Self::IoUring(files) => files.read_whole(path, out, buffers),
        }
    }

    pub(crate) fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        buffers: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        match self {
            Self::Pread(files) => files.decode_whole(path, likely, buffers, decode),
            Self::Mmap(files) => files.decode_whole(path, likely, buffers, decode),
            #[cfg(target_os = "linux")]
            Self::Direct(files) => files.decode_whole(path, likely, buffers, decode),
            #[cfg(target_os = "linux")]
            Self::IoUring(files) => files.decode_whole(path, likely, buffers, decode),
        }
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<Option<OpenFile>> {
        Ok(match self {
            Self::Pread(files) => files.open(path)?.map(OpenFile::Plain),
            Self::Mmap(files) => files.open(path)?.map(OpenFile::Mapped),
            #[cfg(target_os = "linux")]
            Self::Direct(files) => files.open(path)?.map(OpenFile::Direct),
            #[cfg(target_os = "linux")]
            Self::IoUring(files) => files.open(path)?.map(OpenFile::Plain),
        })
    }
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
        buffers: &mut ReadBuffers,
    ) -> io::Result<()> {
        match self {
            Self::Plain(file) => pread::read_exact_at(file, out, offset),
            _ => {
                let bytes = self.bytes_at(offset, out.len(), buffers)?;
                out.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// `length` bytes from `offset` on, where they lie or in `buffers`.
    pub(crate) fn bytes_at<'a>(
        &'a self,
        offset: u64,
        length: usize,
        buffers: &'a mut ReadBuffers,
    ) -> io::Result<&'a [u8]> {
        match self {
            Self::Plain(file) => {
                let bytes = &mut buffers.at_least(length)?[..length];
                pread::read_exact_at(file, bytes, offset)?;
                Ok(bytes)
            }
            Self::Mapped(mapping) => mapping.bytes_at(offset, length),
            #[cfg(target_os = "linux")]
            Self::Direct(file) => file.bytes_at(offset, length, buffers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::zarr::files::back_end::tried;

    fn all(sample: &Path) -> Vec<(ReadMethod, ChunkFiles)> {
        let mut files = Vec::new();
        for method in ReadMethod::ALL {
            match ChunkFiles::start(method, &mut std::iter::once(sample.to_owned())) {
                Ok(started) => files.push((method, started)),
                // Whether the system is to blame, the tests of stores find out.
                Err(e) => {
                    let may = [ReadMethod::Direct, ReadMethod::IoUring].contains(&method);
                    assert!(may && e.kind() == ErrorKind::Config, "{e:?}");
                }
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
            let mut buffers = ReadBuffers::default();
            // Memory that is aligned for direct reads and memory that is not.
            let mut memory = vec![0u8; 400_000];
            let aligned = memory.as_ptr().align_offset(4096);
            for (path, bytes) in &files {
                for at in [aligned, aligned + 4, aligned + 1] {
                    let n = bytes.len();
                    let mut out = &mut memory[at..at + n + 2];
                    out.fill(7);
                    let read = reader
                        .read_whole(path, &mut out[..n], &mut buffers)
                        .unwrap();
                    assert_eq!(read, Some(n as u64), "{method} {n}");
                    assert!(out[..n] == bytes[..] && out[n..] == [7, 7], "{method} {n}");
                    // Memory for another size: too long, too short.
                    for wanted in [n + 1, n.saturating_sub(1), n / 2, n + 5000] {
                        out = &mut memory[at..at + wanted];
                        let read = reader.read_whole(path, out, &mut buffers).unwrap();
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
                    let mut buffers = ReadBuffers::default();
                    let mut seen = Vec::new();
                    let mut decode = |encoded: &[u8]| {
                        seen = encoded.to_vec();
                        if encoded.len() == bytes.len() {
                            Ok(())
                        } else {
                            Err(Error::new(ErrorKind::Corrupt, "not all of it"))
                        }
                    };
                    let read = reader.decode_whole(path, likely, &mut buffers, &mut decode);
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
            let mut buffers = ReadBuffers::default();
            for (path, bytes) in &files {
                let file = reader.open(path).unwrap().unwrap();
                let n = bytes.len();
                assert_eq!(file.size().unwrap(), n as u64);
                for (at, length) in [(0, n), (n / 2, n - n / 2), (n / 3, n / 3), (n, 0)] {
                    let found = file.bytes_at(at as u64, length, &mut buffers).unwrap();
                    assert!(found == &bytes[at..at + length], "{method} {n} {at}");
                    let mut out = vec![7; length];
                    file.read_at(&mut out, at as u64, &mut buffers).unwrap();
                    assert!(out == bytes[at..at + length], "{method} {n} {at}");
                    let beyond = file.bytes_at(at as u64, length + 1, &mut buffers);
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
                ReadMethod::Pread => drop(ChunkFiles::start(method, missing).unwrap()),
                _ => {
                    let kind = ChunkFiles::start(method, missing)
                        .map(drop)
                        .unwrap_err()
                        .kind();
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
            let mut buffers = ReadBuffers::default();
            let mut whole = |name: &str| {
                let path = dir.path().join(name);
                reader.read_whole(&path, &mut [0; 10], &mut buffers)
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
                reader.decode_whole(&path, 10, &mut buffers, &mut |_| Ok(()))
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
