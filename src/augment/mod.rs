//! Batches changed on their device, by keys.

pub(crate) mod mirror;
pub(crate) mod noise;
pub(crate) mod transform;
