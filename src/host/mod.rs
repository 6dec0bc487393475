//! A batch in host memory: leased, filled, and home again.

pub(crate) mod allocator;
pub(crate) mod batch;
pub(crate) mod carry;
pub(crate) mod claims;
pub(crate) mod leases;
pub(crate) mod poisoned;
pub(crate) mod pool;
pub(crate) mod sink;
pub(crate) mod slots;
