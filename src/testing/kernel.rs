//! The preparation kernel without a loader around it, to be measured.

use crate::device::kernel::KernelConstants;
use crate::device::upload::{RawGroup, cube_device, on_device};
use crate::error::{Error, Result};
use crate::ocean::plane::PlaneShape;
use crate::prepare::arithmetic::{ChannelConstants, Preparation};
use crate::prepare::precision::Precision;
use crate::prepare::transfer::HostFormat;
use burn::tensor::{DType, Device, Tensor};

/// Raw planes that lie on a CubeCL device, and the kernel that prepares them.
pub struct PlanesOnDevice {
    constants: KernelConstants,
    raw: RawGroup,
}

impl PlanesOnDevice {
    /// Puts `planes`, `(row, channel, y, x)`, on the device, on the stream of this thread. `rows`
    /// are the rows that [`prepare`](Self::prepare) writes, in its order.
    ///
    /// # Errors
    /// A device that has no such kernel; planes that are no whole rows; a row that is not there.
    pub fn new(
        preparation: Preparation,
        channels: &[ChannelConstants],
        shape: PlaneShape,
        planes: Vec<f32>,
        rows: Vec<u32>,
        device: &Device,
    ) -> Result<Self> {
        let device = cube_device(device).ok_or_else(|| {
            Error::config("this device has no preparation kernel")
                .expected("a CUDA or Vulkan device")
                .found(format!("{device:?}"))
        })?;
        let row = channels.len() * shape.cells();
        let there = planes.len().checked_div(row).unwrap_or(0);
        let whole = there * row == planes.len();
        if !whole || rows.iter().any(|&r| r as usize >= there) {
            return Err(Error::config("planes and rows do not fit each other")
                .expected(format!("rows of {row} values, and positions of such rows"))
                .found(format!("{} values, rows {rows:?}", planes.len())));
        }
        let wanted = rows.len();
        let raw = RawGroup {
            planes: on_device(&device, planes, DType::F32),
            format: HostFormat::Raw,
            rows: on_device(&device, rows, DType::U32),
            wanted,
        };
        let constants = KernelConstants::new(preparation, channels, shape, &device);
        Ok(Self { constants, raw })
    }

    /// Launches the kernel once: `(row, channel, y, x)`, prepared.
    ///
    /// # Errors
    /// More rows or channels than the device counts in one launch.
    pub fn prepare(&self, precision: Precision) -> Result<Tensor<4>> {
        self.constants.prepare(self.raw.clone(), precision)
    }
}
