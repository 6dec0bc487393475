//! A batch in host memory: leased, filled with planes, and home again. All raw memory is here.

pub(crate) mod allocator;
pub(crate) mod batch;
pub(crate) mod carry;
pub(crate) mod claims;
#[cfg(test)]
mod controller_tests;
mod freeing;
pub(crate) mod leases;
pub(crate) mod planes;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod poisoned;
pub(crate) mod pool;
mod pool_options;
pub(crate) mod promise;
pub(crate) mod sink;
pub(crate) mod slots;
#[cfg(test)]
mod slots_tests;
pub(crate) mod tensors;

#[cfg(feature = "cuda")]
pub use pool::PageLockedMemory;
pub use pool::{
    HOST_ALIGN, HostAllocator, HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory,
};
pub use sink::HostPlanes;
