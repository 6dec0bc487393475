//! Files that are there whole or not at all.

use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file by `write`, which is given the name of a file beside it: that one is synced, gets the
/// right name, and then the folder is synced. What had the name before is there until then.
///
/// What is no file, such as `/dev/stdout`, is written in place.
///
/// # Errors
/// What `write` returns, or what the system says; the name then means what it meant before.
pub(crate) fn put(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let place = || format!("writing {}", path.display());
    let Some(file) = Replaced::at(path).with_context(place)? else {
        return write(path).with_context(place);
    };
    let written = write(&file.partial).and_then(|()| Ok(file.rename()?));
    if written.is_err() {
        // Half a file is of no use, and its room may be what is missing.
        let _ = fs::remove_file(&file.partial);
    }
    written.with_context(place)
}

/// Finds out whether [`put`] could write this file, and leaves nothing behind.
///
/// # Errors
/// A folder that is not there, no permission, a folder of that name, a full disk.
pub(crate) fn check(path: &Path) -> Result<()> {
    let checked = || -> io::Result<()> {
        let Some(file) = Replaced::at(path)? else {
            // Opening a pipe would wait for its reader.
            return Ok(());
        };
        // A block, as a full disk lets empty files be made.
        fs::write(&file.partial, [0; 4096])?;
        fs::remove_file(&file.partial)
    };
    checked().with_context(|| format!("{} cannot be written", path.display()))
}

/// A file that takes another's place.
struct Replaced {
    partial: PathBuf,
    whole: PathBuf,
}

impl Replaced {
    /// `None` for what is neither a file nor free to become one.
    fn at(path: &Path) -> io::Result<Option<Self>> {
        // A link goes on leading to its file.
        let whole = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(None),
            Ok(_) => fs::canonicalize(path)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(e) => return Err(e),
        };
        let mut name = OsString::from(whole.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        name.push(".partial");
        let partial = whole.with_file_name(name);
        Ok(Some(Self { partial, whole }))
    }

    fn rename(&self) -> io::Result<()> {
        File::open(&self.partial)?.sync_all()?;
        fs::rename(&self.partial, &self.whole)?;
        let folder = self.whole.parent().filter(|p| !p.as_os_str().is_empty());
        sync_folder(folder.unwrap_or(Path::new(".")))
    }
}

/// Makes the folder of a run's files, and finds out whether files can be written there.
///
/// # Errors
/// As [`check`].
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    ensure!(folder.is_dir(), "{} is no folder", folder.display());
    check(&folder.join("check"))
}

/// Makes names in a folder last; only Unix opens folders.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_failure_half_way_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        put(&path, |to| Ok(fs::write(to, "old")?)).unwrap();
        let error = put(&path, |to| {
            fs::write(to, "ne")?;
            anyhow::bail!("the disk is full")
        });
        let message = format!("{:#}", error.unwrap_err());
        assert!(
            message.contains("report.json: the disk is full"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(dir.path()), ["report.json"]);
        put(&path, |to| Ok(fs::write(to, "new")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(dir.path()), ["report.json"]);
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = tempfile::tempdir().unwrap();
        check(&dir.path().join("new")).unwrap();
        fs::write(dir.path().join("old"), "kept").unwrap();
        check(&dir.path().join("old")).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("old")).unwrap(), "kept");
        assert_eq!(names(dir.path()), ["old"]);
        for bad in [
            dir.path().to_owned(),
            dir.path().join("nowhere/new"),
            dir.path().join("old/new"),
        ] {
            let message = format!("{:#}", check(&bad).unwrap_err());
            assert!(message.contains(&bad.display().to_string()), "{message}");
            assert!(put(&bad, |to| Ok(fs::write(to, "")?)).is_err());
        }
        assert!(make_folder(&dir.path().join("old")).is_err());
        make_folder(&dir.path().join("a/b")).unwrap();
        assert_eq!(names(&dir.path().join("a/b")), [""; 0]);
    }

    #[test]
    #[cfg(unix)]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        put(&link, |to| Ok(fs::write(to, "new")?)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let null = Path::new("/dev/null");
        check(null).unwrap();
        put(null, |to| Ok(fs::write(to, "gone")?)).unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
    }
}
