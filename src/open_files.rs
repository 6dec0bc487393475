//! Whether the process may open as many files as its readers will hold.

use crate::error::Result;
#[cfg(unix)]
use crate::error::{Error, ErrorKind};
#[cfg(unix)]
use crate::sync::lock;
#[cfg(unix)]
use std::sync::Mutex;

/// What was found to be free for the readers before: they are the same ones for every store, and
/// may hold some of it already.
#[cfg(unix)]
static GRANTED: Mutex<u64> = Mutex::new(0);

/// Compares what `threads` readers hold at most with what the process may still open: better here,
/// when a store is opened, than as "too many open files" in the middle of an epoch.
///
/// # Errors
/// [`ErrorKind::Config`]: the limit of open files leaves too few.
#[cfg(unix)]
pub(crate) fn check(threads: usize, descriptors_per_thread: u64) -> Result<()> {
    let limit = match rlimit::Resource::NOFILE.get() {
        Ok((soft, _)) => soft,
        Err(e) => {
            return Err(
                Error::new(ErrorKind::Io, "the limit of open files is not known").caused_by(e),
            );
        }
    };
    let needed = (threads as u64).saturating_mul(descriptors_per_thread);
    let mut granted = lock(&GRANTED);
    compare(needed.saturating_sub(*granted), limit, open_now())?;
    *granted = needed.max(*granted);
    Ok(())
}

/// Systems without such a limit.
#[cfg(not(unix))]
pub(crate) fn check(_: usize, _: u64) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn compare(needed: u64, limit: u64, open: u64) -> Result<()> {
    let left = limit.saturating_sub(open);
    if needed <= left {
        return Ok(());
    }
    Err(Error::config(
        "the readers may need more open files than this process may have: raise the limit \
         (`ulimit -n`) or read with fewer threads",
    )
    .expected(format!("{needed} descriptors left for reading"))
    .found(format!("{left} of {limit}, because {open} are in use")))
}

/// Descriptors in use; 0 where the system does not list them.
#[cfg(unix)]
fn open_now() -> u64 {
    let folder = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    // The listing holds a descriptor of its own.
    std::fs::read_dir(folder).map_or(0, |list| (list.count() as u64).saturating_sub(1))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_refused_with_all_numbers() {
        compare(8, 100, 92).unwrap();
        compare(0, 10, 90).unwrap();
        let e = compare(9, 100, 92).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        let text = e.to_string();
        for number in ["9 descriptors", "8 of 100", "92 are in use"] {
            assert!(text.contains(number), "{text}");
        }
        let e = check(usize::MAX, 2).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn open_files_are_counted() {
        let before = open_now();
        assert!(before >= 3, "{before}");
    }
}
