//! The device under test, and how much of everything it gets.

use crate::cuda::Cuda;
use burn::tensor::Device;
use std::time::Instant;

/// What every check is given.
pub(crate) struct Bench {
    pub device: Device,
    /// The driver's view of the same device, where it is a CUDA device.
    pub cuda: Option<Cuda>,
    pub scale: Scale,
    /// When its time is over.
    pub ends: Instant,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// For a data centre's GPU: the published sizes.
    Full,
    /// The same sizes, fewer repetitions.
    Quick,
    /// For software devices: the code is run, the numbers mean little.
    Small,
}

impl Bench {
    /// What fits the scale.
    pub(crate) fn pick<T>(&self, full: T, quick: T, small: T) -> T {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Small => small,
        }
    }

    /// Whether the device has an upload thread and a preparation kernel.
    pub(crate) fn has_lane(&self) -> bool {
        !burn_om4::device::is_cpu(&self.device)
    }
}

/// What a check says that needs an upload thread.
pub(crate) const NEEDS_LANE: &str = "needs a CUDA or Vulkan device";
/// What a check says that needs the CUDA driver.
pub(crate) const NEEDS_CUDA: &str = "needs CUDA";
