//! Numbers and times while a loader runs.

pub(crate) mod counters;
pub(crate) mod timeline;

pub use counters::{LoaderCounters, Waits};
pub use timeline::Timeline;
