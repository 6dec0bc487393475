//! Sources and the windows over them: what a batch is made from, and what its numbers mean.

pub(crate) mod digest;
pub(crate) mod ocean;
pub(crate) mod ocean_dataset;

pub use ocean::{Ocean, OceanChannel};
pub use ocean_dataset::{BatchContext, DatasetOptions, OceanDataset, OceanPair};
