//! Local storage for Zarr stores, read-only.
//!
//! Metadata and small arrays are read through it; the planes are read file by file, in one of several
//! ways (`files`). "Not there" is told apart from every other failure, because only it may ever mean
//! fill value; a permission, a directory in a chunk's place and a broken disk are errors. Nothing is
//! created, locked or cached.

use super::{kind, pread};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A directory that holds a Zarr hierarchy.
#[derive(Debug)]
pub(crate) struct LocalStorage {
    root: PathBuf,
}

/// What lies directly under the root.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Names of directories, sorted.
    pub(crate) names: Vec<String>,
    /// Names of what cannot be looked at, such as links that lead nowhere, sorted, and why.
    pub(crate) unknown: Vec<(String, io::Error)>,
    /// Names of what is no directory.
    pub(crate) files: BTreeSet<String>,
    /// Directories whose names are no text, as well as they can be written.
    pub(crate) unnamed: Vec<String>,
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

    /// Size of a value in bytes without opening it; `None` when there is none.
    pub(crate) fn size(&self, key: &str) -> io::Result<Option<u64>> {
        let path = self.path_of(key)?;
        let metadata = kind::found(&path, path.metadata())?;
        metadata.map(|m| kind::size_of_file(&m)).transpose()
    }

    /// Opens a value; `None` when there is none.
    pub(super) fn open_value(&self, key: &str) -> io::Result<Option<File>> {
        pread::open(&self.path_of(key)?)
    }

    /// Size of a value in bytes, and when it was changed; `None` when there is none.
    pub(crate) fn changed(&self, key: &str) -> io::Result<Option<(u64, SystemTime)>> {
        let path = self.path_of(key)?;
        let Some(metadata) = kind::found(&path, path.metadata())? else {
            return Ok(None);
        };
        Ok(Some((kind::size_of_file(&metadata)?, metadata.modified()?)))
    }

    /// Reads a whole value of at most `most` bytes; `None` when there is none.
    pub(crate) fn read(&self, key: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(value) = self.open_value(key)? else {
            return Ok(None);
        };
        let size = pread::size(&value)?;
        if size > most {
            let message = format!("expected at most {most} bytes, found {size} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length)?;
        bytes.resize(length, 0);
        pread::read_exact_at(&value, &mut bytes, 0)?;
        Ok(Some(bytes))
    }

    /// What lies directly under the root, but for hidden names. Links are followed: stores
    /// on shared file systems are often assembled from them.
    ///
    /// # Errors
    /// The root cannot be listed.
    pub(crate) fn children(&self) -> io::Result<Children> {
        let mut children = Children::default();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let path = entry.path();
            let metadata = path.metadata();
            let name = match entry.file_name().into_string() {
                Ok(name) => name,
                Err(odd) => {
                    if metadata.map_or(true, |m| m.is_dir()) {
                        children.unnamed.push(odd.to_string_lossy().into_owned());
                    }
                    continue;
                }
            };
            if name.starts_with('.') {
                continue;
            }
            match metadata {
                Ok(m) if m.is_dir() => children.names.push(name),
                Ok(_) => drop(children.files.insert(name)),
                Err(e) => {
                    let message = format!("cannot look at {}: {e}", path.display());
                    let e = io::Error::new(e.kind(), message);
                    children.unknown.push((name, e));
                }
            }
        }
        children.names.sort();
        children.unknown.sort_by(|a, b| a.0.cmp(&b.0));
        children.unnamed.sort();
        Ok(children)
    }
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

    #[test]
    fn only_a_missing_file_is_missing() {
        let (_dir, storage) = storage();
        assert_eq!(storage.read("a/0.1", 10).unwrap(), None);
        assert_eq!(storage.size("b/0").unwrap(), None);
        // A directory in a value's place, and a file in a directory's place.
        for bad in ["a/c", "a/0.0/1"] {
            assert!(storage.read(bad, 10).is_err(), "{bad}");
            assert!(storage.size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_its_bytes_or_longer_than_it_may_be() {
        let (_dir, storage) = storage();
        assert_eq!(storage.read("a/0.0", 10).unwrap().unwrap(), b"0123456789");
        assert_eq!(storage.size("a/0.0").unwrap(), Some(10));
        let e = storage.read("a/0.0", 9).unwrap_err().to_string();
        assert!(
            e.contains("at most 9 bytes") && e.contains("10 bytes"),
            "{e}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_file_is_named_and_never_waited_for() {
        use std::os::unix::fs::symlink;
        let (dir, storage) = storage();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            dir.path().join("a/pipe"),
            rustix::fs::Mode::RUSR,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("a/socket")).unwrap();
        symlink("/dev/zero", dir.path().join("a/device")).unwrap();
        symlink("nowhere", dir.path().join("a/gone")).unwrap();
        symlink("loop", dir.path().join("a/loop")).unwrap();
        symlink("nowhere", dir.path().join("missing")).unwrap();
        for (key, words) in [
            ("a/pipe", "a named pipe"),
            ("a/socket", "a socket"),
            ("a/device", "a device"),
            ("a/gone", "cannot be followed"),
            ("missing/0", "missing cannot be followed"),
        ] {
            let e = storage.size(key).unwrap_err().to_string();
            assert!(e.contains(words), "{key}: {e}");
            let e = storage.read(key, 10).unwrap_err().to_string();
            assert!(e.contains(words) || key == "a/socket", "{key}: {e}");
        }
        assert!(storage.size("a/loop").is_err() && storage.read("a/loop", 10).is_err());
        // A good link is what it leads to.
        symlink("0.0", dir.path().join("a/link")).unwrap();
        assert_eq!(storage.size("a/link").unwrap(), Some(10));
        assert_eq!(storage.size("a/link2").unwrap(), None);
        let children = storage.children().unwrap();
        assert_eq!(children.names, ["a"]);
        assert_eq!(children.unknown[0].0, "missing");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_no_text_are_told() {
        use std::os::unix::ffi::OsStrExt;
        let (dir, storage) = storage();
        let odd = std::ffi::OsStr::from_bytes(b"so\xff");
        std::fs::create_dir(dir.path().join(odd)).unwrap();
        let children = storage.children().unwrap();
        assert_eq!(children.names, ["a"]);
        assert_eq!(children.unnamed, ["so\u{fffd}"]);
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
        storage.read("new/dir/0", 10).unwrap();
        assert!(!dir.path().join("new").exists());
        assert_eq!(storage.children().unwrap().names, ["a"]);
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
