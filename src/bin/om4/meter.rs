//! What the operating system counts for this process.

use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Cost of a piece of work: all threads of the process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    /// Page faults that were served without a disk.
    pub minor_faults: u64,
    /// System calls that read.
    pub reads: u64,
}

/// Runs `work` and counts what it cost.
pub(crate) fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (before, started) = (now(), Instant::now());
    let value = work();
    let (wall, after) = (started.elapsed(), now());
    let cost = Cost {
        wall_seconds: wall.as_secs_f64(),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        minor_faults: after.minor_faults - before.minor_faults,
        reads: after.reads - before.reads,
    };
    (value, cost)
}

#[cfg(unix)]
fn now() -> Cost {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for one `rusage`; all zeros is a valid one, whatever the call did.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Cost {
        wall_seconds: 0.0,
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        reads: read_calls(),
    }
}

/// Reading system calls so far; 0 where the system does not count them.
#[cfg(unix)]
fn read_calls() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counts.lines().find_map(|l| l.strip_prefix("syscr: "));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(unix))]
fn now() -> Cost {
    Cost::default()
}

/// Largest resident memory so far, bytes; 0 where the system does not say.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Asks the system to forget a file's pages; false where it cannot.
#[cfg(target_os = "linux")]
pub(crate) fn forget(path: &std::path::Path) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    // Only clean pages can be dropped.
    let clean = file.sync_data().is_ok();
    // SAFETY: the descriptor is open for the whole call.
    clean && unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub fn forget(_: &std::path::Path) -> bool {
    false
}
