//! What lies at a path: a file, nothing, or something else that must not be taken for either.
//!
//! Only what is really not there is missing. A link that leads nowhere is there, and so are pipes,
//! sockets and devices: each is an error that says what it is, and opening one never waits.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// How files are opened for reading. `flags` are the system's own.
pub(super) fn reading(flags: i32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Of a pipe: not to wait until somebody writes to it. Of a file: nothing.
        options.custom_flags(flags | libc::O_NONBLOCK);
    }
    #[cfg(not(unix))]
    let _ = flags;
    options
}

/// Tells "not there" apart from every other failure of a call with `path`.
pub(super) fn found<T>(path: &Path, outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => nothing_at(path).map(|()| None),
        Err(e) => Err(e),
    }
}

/// Sees that nothing is at `path`, of which the system said that it was not found.
///
/// # Errors
/// There is a link, there or above, that leads nowhere.
fn nothing_at(path: &Path) -> io::Result<()> {
    for place in path.ancestors() {
        match place.symlink_metadata() {
            Ok(entry) if entry.is_symlink() => {
                return place.metadata().map(drop).map_err(|e| {
                    let place = place.display();
                    io::Error::other(format!("the link {place} cannot be followed: {e}"))
                });
            }
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Size of a file in bytes.
///
/// # Errors
/// It is no file.
pub(super) fn size_of_file(metadata: &Metadata) -> io::Result<u64> {
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let found = name(metadata.file_type());
    let kind = if metadata.is_dir() {
        io::ErrorKind::IsADirectory
    } else {
        io::ErrorKind::InvalidInput
    };
    let message = format!("{found} lies where a file should be");
    Err(io::Error::new(kind, message))
}

/// Why reading failed: `error`, unless what was opened is no file.
pub(super) fn instead_of(file: &File, error: io::Error) -> io::Error {
    match file.metadata().and_then(|m| size_of_file(&m)) {
        Err(other) => other,
        Ok(_) => error,
    }
}

fn name(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a named pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() {
        "a directory"
    } else {
        "something else"
    }
}
