//! Passes over the data, ahead of the model, in order.

pub(crate) mod batcher;
pub(crate) mod builder;
pub(crate) mod cursor;
pub(crate) mod latest;
pub(crate) mod ocean_loader;
pub(crate) mod pass;
pub(crate) mod pass_iter;
pub(crate) mod prefetch;
pub(crate) mod queue;
pub(crate) mod slices;
pub(crate) mod threads;

pub use batcher::OceanBatcher;
pub use builder::OceanLoaderBuilder;
pub use ocean_loader::OceanLoader;
pub use prefetch::{PrefetchOptions, PrefetchTo};
