//! An examination that was stopped goes on: what was seen so far, in a file.

use crate::error::{Error, ErrorKind, Result};
use crate::survey::planes::Seen;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// What was seen of a store so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Of the store's metadata and of what is examined.
    pub of: String,
    /// Units that were looked at, from the first on.
    pub units: usize,
    pub seen: Seen,
}

impl Progress {
    /// Reads what an examination of the same left; nothing where there is no file.
    ///
    /// # Errors
    /// A file that cannot be read, or is about something else.
    pub(super) fn read(path: &Path, of: &str) -> Result<Self> {
        let fresh = Self {
            of: of.to_owned(),
            ..Self::default()
        };
        let bytes = match fs::read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(fresh),
            Err(e) => return Err(refused(path, "read", e)),
            Ok(bytes) => bytes,
        };
        let place = path.display();
        let found: Self = serde_json::from_slice(&bytes).map_err(|e| {
            let message = format!("{place} holds no state of an examination");
            Error::new(ErrorKind::Config, message).caused_by(e)
        })?;
        if found.of != fresh.of {
            let message =
                format!("{place} is the state of another examination: remove it to begin anew");
            return Err(Error::config(message).expected(&fresh.of).found(&found.of));
        }
        Ok(found)
    }

    /// Writes the state, beside its place first.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(|e| {
            Error::new(ErrorKind::Config, "the state of an examination").caused_by(e)
        })?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        fs::write(&new, bytes).map_err(|e| refused(&new, "write", e))?;
        fs::rename(&new, path).map_err(|e| refused(path, "write", e))
    }
}

/// Removes the state of an examination that came to its end.
///
/// # Errors
/// The system refuses.
pub(super) fn finished(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(refused(path, "remove", e)),
        _ => Ok(()),
    }
}

fn refused(path: &Path, what: &str, e: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} {}", path.display())).caused_by(e)
}
