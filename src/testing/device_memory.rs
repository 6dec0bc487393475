//! What a device holds, as it counts itself.

use crate::device::upload::cube_device;
use burn::tensor::Device;
use burn_cubecl::cubecl::{MemoryScope, MemoryUsage};

/// Memory of a device over all streams of the process, bytes; staging buffers are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Held by tensors.
    pub in_use: u64,
    /// Held by the pools, free or in use.
    pub reserved: u64,
}

impl DeviceMemory {
    /// Asks a CubeCL device. What is still queued for it counts as not done: `Device::sync` first.
    /// None for a device that is not of CubeCL.
    pub fn of(device: &Device) -> Option<Self> {
        let report = cube_device(device)?
            .client()
            .memory_report(MemoryScope::Device);
        let pools = report.streams.iter().map(|stream| stream.pools.usage());
        let usage = pools.fold(MemoryUsage::default(), |sum, usage| sum.combine(usage));
        Some(Self {
            in_use: usage.bytes_in_use,
            reserved: usage.bytes_reserved,
        })
    }
}
