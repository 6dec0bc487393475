//! A batch on its way to its device, and there.

pub(crate) mod batch;
pub(crate) mod choice;
#[cfg(feature = "cube")]
pub(crate) mod kernel;
pub(crate) mod lane;
pub(crate) mod operations;
#[cfg(feature = "cube")]
pub(crate) mod upload;
