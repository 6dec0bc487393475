//! What the operating system counts for this process.

use std::fs;

/// CubeCL's thread for the work of a device; one per device.
const RUNNER: &str = "DSD";

/// Seconds that CubeCL's runner threads have spent on a processor; `None` where the system does not
/// say.
pub(crate) fn runner_seconds() -> Option<f64> {
    let mut seconds = None;
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with(RUNNER) {
            seconds = Some(seconds.unwrap_or(0.0) + seconds_of(&task.path())?);
        }
    }
    seconds
}

fn seconds_of(task: &std::path::Path) -> Option<f64> {
    // Nanoseconds, where the kernel keeps them.
    if let Ok(text) = fs::read_to_string(task.join("schedstat")) {
        let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
        if nanos > 0.0 {
            return Some(nanos / 1e9);
        }
    }
    // Hundredths of a second: fields 14 and 15, counted behind the name, which may hold anything.
    let text = fs::read_to_string(task.join("stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |k: usize| fields.get(k)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Bytes of this process that are in memory; 0 where the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
