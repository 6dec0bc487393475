//! What prepares planes, as the user asks for it.

/// What prepares planes on a device that is not a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DevicePath {
    /// The kernel where the device takes it, else tensor operations.
    #[default]
    Auto,
    /// One kernel per read group, after an upload on a thread and streams of their own. For CubeCL
    /// devices, in builds with the feature `cuda` or `vulkan`.
    Kernel,
    /// Burn's tensor operations, after an upload by the consumer: the reference.
    Operations,
}
