//! Local storage for Zarr stores, read-only.
//!
//! zarrs reads metadata, coordinates and masks through it; the planes are read below zarrs, file by
//! file, in one of several ways (`files`). "Not there" is told apart from every other failure,
//! because only it may ever mean fill value; a permission, a directory in a chunk's place and a
//! broken disk are errors. Nothing is created, locked or cached.

use super::pread;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
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

    /// Where the value of a key lies that was made here, put together in `path`: nothing is
    /// allocated.
    pub(crate) fn path_of_own<'a>(&self, key: &str, path: &'a mut OsString) -> &'a Path {
        path.clear();
        path.push(&self.root);
        path.push("/");
        path.push(key);
        Path::new(path)
    }

    /// Opens a value; `None` when there is none.
    fn open_value(&self, key: &str) -> io::Result<Option<File>> {
        pread::open(&self.path_of(key)?)
    }

    /// Size of a value in bytes without opening it; `None` when there is none.
    pub(crate) fn size(&self, key: &str) -> io::Result<Option<u64>> {
        let metadata = pread::found(self.path_of(key)?.metadata())?;
        metadata.map(|m| pread::size_of_file(&m)).transpose()
    }

    /// Size of a value in bytes, and when it was changed; `None` when there is none.
    pub(crate) fn changed(&self, key: &str) -> io::Result<Option<(u64, SystemTime)>> {
        let metadata = pread::found(self.path_of(key)?.metadata())?;
        metadata
            .map(|m| Ok((pread::size_of_file(&m)?, m.modified()?)))
            .transpose()
    }

    /// Reads a whole value into `buffer`, replacing what it held. On `Missing` the buffer is empty.
    pub(crate) fn read(&self, key: &str, buffer: &mut Vec<u8>) -> io::Result<Presence> {
        let Some(value) = self.open_value(key)? else {
            buffer.clear();
            return Ok(Presence::Missing);
        };
        // Not cleared first: only bytes that a reused buffer lacks are zeroed.
        let size = pread::size(&value)?;
        buffer.resize(length(size)?, 0);
        pread::read_exact_at(&value, buffer, 0)?;
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

fn read_range(value: &File, range: ByteRange) -> Result<Bytes, StorageError> {
    let size = pread::size(value)?;
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
    pread::read_exact_at(value, &mut buffer, start)?;
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
