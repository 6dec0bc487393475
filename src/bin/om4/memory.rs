//! The memory that every way of reading reads into.

use anyhow::Result;
use burn_om4::host::{HostLease, HostPool, HostPoolOptions, OrdinaryMemory};

/// Room for so many values, as the loader's own buffers are: aligned to pages, on huge pages where the
/// system has them. The kernel copies a tenth slower to memory that begins 16 bytes after a page,
/// where the C library puts what is large, so no column may have less than another.
pub(crate) fn warm(values: usize) -> Result<HostLease> {
    let pool = HostPool::new(OrdinaryMemory, HostPoolOptions::default());
    Ok(pool.lease(values)?)
}
