//! A batch on its way to its device, and there: upload, one kernel per read group, [`ModelBatch`].

pub(crate) mod assemble;
pub(crate) mod batch;
pub(crate) mod choice;
pub(crate) mod constants;
#[cfg(feature = "cube")]
pub(crate) mod kernel;
#[cfg(feature = "cube")]
pub(crate) mod kernel_path;
pub(crate) mod lane;
pub(crate) mod named;
// Public through `testing`.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub(crate) mod operations;
#[cfg(feature = "cube")]
pub(crate) mod upload;

pub use batch::ModelBatch;
pub use choice::{DeviceChoice, is_cpu};
pub use named::BatchStep;
