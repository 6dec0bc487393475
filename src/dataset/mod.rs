//! Sources and the windows over them: what a batch is made from, and what its numbers mean.

pub(crate) mod channel_group;
pub(crate) mod context;
pub(crate) mod digest;
mod label_grid;
pub(crate) mod ocean;
pub(crate) mod ocean_dataset;
pub(crate) mod options;
pub(crate) mod planned;
pub(crate) mod source;
pub(crate) mod values;

pub use context::BatchContext;
pub use ocean::{Ocean, OceanChannel};
pub use ocean_dataset::OceanDataset;
pub use options::DatasetOptions;
pub use source::OceanPair;
pub use values::ChannelValues;
