//! Local storage for Zarr stores, read-only.
//!
//! Every read is one open and one read (or several of one file); nobody asks for a size that the
//! read itself tells. "Not there" is told
//! apart from every other failure, because only it may ever mean fill value; a permission, a
//! directory in a chunk's place and a broken disk are errors. Nothing is created, locked or cached.

use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::path::{Path, PathBuf};
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator, InvalidByteRangeError};
use zarrs::storage::{
    Bytes, MaybeBytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey,
};

/// A directory that holds a Zarr hierarchy.
#[derive(Debug)]
pub(crate) struct LocalStorage {
    root: PathBuf,
}

/// What an attempt to fill a buffer with a whole value found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The value is there; it has this many bytes.
    Found(u64),
    /// No value under this key.
    Missing,
}

impl LocalStorage {
    /// A storage rooted at an existing directory.
    ///
    /// # Errors
    /// The path is not there, not a directory, or cannot be looked at.
    pub(crate) fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let refused = |e: io::Error| {
            Error::new(ErrorKind::Io, "cannot open the store")
                .store(&root)
                .caused_by(e)
        };
        if !root.metadata().map_err(refused)?.is_dir() {
            return Err(Error::new(ErrorKind::Io, "cannot open the store")
                .store(&root)
                .expected("a directory")
                .found("a file"));
        }
        Ok(Self { root })
    }

    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a key's value lies.
    ///
    /// # Errors
    /// `InvalidInput` for a key that could leave the root: absolute, empty, with an empty, `.` or
    /// `..` segment, a backslash or a NUL (on Windows also a drive).
    pub(crate) fn path_of(&self, key: &str) -> io::Result<PathBuf> {
        let bad_segment = |s: &str| s.is_empty() || s == "." || s == "..";
        let drive = cfg!(windows) && key.contains(':');
        if drive || key.contains(['\\', '\0']) || key.split('/').any(bad_segment) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{key}` is not a key inside the store"),
            ));
        }
        Ok(self.root.join(key))
    }

    /// Opens a value; `None` when there is none.
    pub(crate) fn open_value(&self, key: &str) -> io::Result<Option<Value>> {
        Value::open(&self.path_of(key)?)
    }

    /// Opens a value whose key was made here, with `path` as scratch: nothing is allocated.
    pub(crate) fn open_own(&self, key: &str, path: &mut OsString) -> io::Result<Option<Value>> {
        path.clear();
        path.push(&self.root);
        path.push("/");
        path.push(key);
        Value::open(Path::new(path))
    }

    /// Size of a value in bytes without opening it; `None` when there is none.
    pub(crate) fn size(&self, key: &str) -> io::Result<Option<u64>> {
        match self.path_of(key)?.metadata() {
            Ok(metadata) => size_of_file(&metadata).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads a whole value into `buffer`, replacing what it held. On `Missing` the buffer is empty.
    pub(crate) fn read(&self, key: &str, buffer: &mut Vec<u8>) -> io::Result<Presence> {
        let Some(value) = self.open_value(key)? else {
            buffer.clear();
            return Ok(Presence::Missing);
        };
        // Not cleared first: only bytes that a reused buffer lacks are zeroed.
        let size = value.size()?;
        buffer.resize(length(size)?, 0);
        value.read_exact_at(buffer, 0)?;
        Ok(Presence::Found(size))
    }

    /// Names of the directories directly under the root, sorted.
    pub(crate) fn children(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            // Follows links: stores on shared file systems are often assembled from them.
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
                && entry.path().is_dir()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// An open value.
#[derive(Debug)]
pub(crate) struct Value {
    file: File,
}

impl Value {
    fn open(path: &Path) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self { file })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        size_of_file(&self.file.metadata()?)
    }

    /// Fills `out` with the whole value and returns the value's size, which is right only when it
    /// is that of `out`: one system call then.
    pub(crate) fn read_whole(&self, out: &mut [u8]) -> io::Result<u64> {
        let wanted = out.len();
        let mut spare = [0];
        let mut read = if cfg!(unix) {
            // A byte more than wanted: a value that is too long shows itself.
            let parts = &mut [IoSliceMut::new(out), IoSliceMut::new(&mut spare)];
            uninterrupted(|| (&self.file).read_vectored(parts))?
        } else {
            uninterrupted(|| (&self.file).read(out))?
        };
        while read < wanted {
            match uninterrupted(|| (&self.file).read(&mut out[read..]))? {
                0 => break,
                n => read += n,
            }
        }
        match read {
            n if n > wanted || !cfg!(unix) => self.size(),
            n => Ok(n as u64),
        }
    }

    /// Reads on from where the last such read ended, to `buffer[at..]`, which grows as needed, and
    /// returns where the bytes end. The first call gets the whole value where the system does what
    /// it promises for files; a later one that gets nothing proves it.
    pub(crate) fn read_on(&self, buffer: &mut Vec<u8>, mut at: usize) -> io::Result<usize> {
        loop {
            if at == buffer.len() {
                buffer.resize((at * 2).max(4096), 0);
            }
            let n = uninterrupted(|| (&self.file).read(&mut buffer[at..]))?;
            at += n;
            if n == 0 || at < buffer.len() {
                return Ok(at);
            }
        }
    }

    /// Fills `buffer` from byte `offset` on.
    #[cfg(unix)]
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }

    /// Fills `buffer` from byte `offset` on. The handle is private, so moving its cursor is safe.
    #[cfg(not(unix))]
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        use io::Seek;
        let mut file = &self.file;
        file.seek(io::SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }
}

fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn size_of_file(metadata: &std::fs::Metadata) -> io::Result<u64> {
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "a directory lies where a value should be",
        ));
    }
    Ok(metadata.len())
}

fn length(size: u64) -> io::Result<usize> {
    usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}

impl ReadableStorageTraits for LocalStorage {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        let mut buffer = Vec::new();
        Ok(match self.read(key.as_str(), &mut buffer)? {
            Presence::Found(_) => Some(Bytes::from(buffer)),
            Presence::Missing => None,
        })
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(value) = self.open_value(key.as_str())? else {
            return Ok(None);
        };
        Ok(Some(Box::new(
            byte_ranges.map(move |range| read_range(&value, range)),
        )))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(self.size(key.as_str())?)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

fn read_range(value: &Value, range: ByteRange) -> Result<Bytes, StorageError> {
    let size = value.size()?;
    let outside = || StorageError::from(InvalidByteRangeError::new(range, size));
    let (start, end) = match range {
        ByteRange::FromStart(start, None) => (start, size),
        ByteRange::FromStart(start, Some(n)) => (start, start.checked_add(n).ok_or_else(outside)?),
        ByteRange::Suffix(n) => (size.checked_sub(n).ok_or_else(outside)?, size),
    };
    if start > end || end > size {
        return Err(outside());
    }
    let mut buffer = vec![0; length(end - start)?];
    value.read_exact_at(&mut buffer, start)?;
    Ok(Bytes::from(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage() -> (tempfile::TempDir, LocalStorage) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/c")).unwrap();
        std::fs::write(dir.path().join("a/0.0"), b"0123456789").unwrap();
        let storage = LocalStorage::open(dir.path()).unwrap();
        (dir, storage)
    }

    fn key(text: &str) -> StoreKey {
        StoreKey::new(text).unwrap()
    }

    #[test]
    fn only_a_missing_file_is_missing() {
        let (_dir, storage) = storage();
        let mut buffer = vec![1, 2, 3];
        assert_eq!(
            storage.read("a/0.1", &mut buffer).unwrap(),
            Presence::Missing
        );
        assert!(buffer.is_empty());
        assert_eq!(storage.size("b/0").unwrap(), None);
        // A directory in a value's place, and a file in a directory's place.
        for bad in ["a/c", "a/0.0/1"] {
            assert!(storage.read(bad, &mut buffer).is_err(), "{bad}");
            assert!(storage.size(bad).is_err(), "{bad}");
            assert!(storage.get(&key(bad)).is_err(), "{bad}");
        }
        assert!(storage.get(&key("a/9.9")).unwrap().is_none());
    }

    #[test]
    fn whole_values_and_ranges_are_the_bytes_of_the_file() {
        let (_dir, storage) = storage();
        let mut buffer = Vec::new();
        assert_eq!(
            storage.read("a/0.0", &mut buffer).unwrap(),
            Presence::Found(10)
        );
        assert_eq!(buffer, b"0123456789");
        let partial = |range| storage.get_partial(&key("a/0.0"), range);
        assert_eq!(
            &partial(ByteRange::FromStart(2, Some(3))).unwrap().unwrap()[..],
            b"234"
        );
        assert_eq!(
            &partial(ByteRange::FromStart(8, None)).unwrap().unwrap()[..],
            b"89"
        );
        assert_eq!(&partial(ByteRange::Suffix(2)).unwrap().unwrap()[..], b"89");
        assert!(partial(ByteRange::Suffix(11)).is_err());
        assert!(partial(ByteRange::FromStart(8, Some(3))).is_err());
        assert!(partial(ByteRange::FromStart(u64::MAX, Some(3))).is_err());
        assert!(partial(ByteRange::FromStart(11, None)).is_err());
    }

    #[test]
    fn reads_without_a_size_see_every_size() {
        let (_dir, storage) = storage();
        let open = || {
            let value = storage.open_own("a/0.0", &mut OsString::new());
            value.unwrap().unwrap()
        };
        let mut out = [0; 10];
        assert_eq!(open().read_whole(&mut out).unwrap(), 10);
        assert_eq!(&out, b"0123456789");
        assert_eq!(open().read_whole(&mut [0; 9]).unwrap(), 10);
        assert_eq!(open().read_whole(&mut [0; 12]).unwrap(), 10);
        for room in [0, 3, 10, 11, 64] {
            let (value, mut buffer) = (open(), vec![0; room]);
            assert_eq!(value.read_on(&mut buffer, 0).unwrap(), 10);
            assert_eq!(&buffer[..10], b"0123456789");
            assert_eq!(value.read_on(&mut buffer, 10).unwrap(), 10, "the end");
        }
        assert!(
            storage
                .open_own("a/9", &mut OsString::new())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn keys_stay_inside_the_root_and_nothing_is_created() {
        let (dir, storage) = storage();
        for bad in [
            "../x",
            "a/../../x",
            "/etc/passwd",
            "",
            "a//b",
            "./a",
            "a\\b",
            "a\0",
        ] {
            assert_eq!(
                storage.path_of(bad).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{bad:?}"
            );
        }
        storage.size("new/dir/0").unwrap();
        storage.get(&key("new/dir/0")).unwrap();
        assert!(!dir.path().join("new").exists());
        assert_eq!(storage.children().unwrap(), ["a"]);
    }

    #[test]
    fn a_root_that_is_no_directory_is_named() {
        let (dir, _storage) = storage();
        let e = LocalStorage::open(dir.path().join("a/0.0")).unwrap_err();
        assert!(e.to_string().contains("a directory"), "{e}");
        let e = LocalStorage::open(dir.path().join("nope.zarr")).unwrap_err();
        assert!(
            e.kind() == ErrorKind::Io && e.to_string().contains("nope.zarr"),
            "{e}"
        );
    }
}
