//! Numbers and times while it runs.

pub(crate) mod counters;
pub(crate) mod timeline;
