//! A batch on its way to its device, and there: upload, one kernel per read group, [`ModelBatch`].

pub(crate) mod batch;
pub(crate) mod choice;
#[cfg(feature = "cube")]
pub(crate) mod kernel;
pub(crate) mod lane;
pub(crate) mod operations;
#[cfg(feature = "cube")]
pub(crate) mod upload;

pub use batch::{ModelBatch, Role};
pub use choice::{DeviceChoice, is_cpu};
pub use operations::DevicePreparation;
