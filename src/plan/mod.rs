//! Which planes a batch reads, each once, and where each goes. Plain data.

pub(crate) mod arrange;
pub(crate) mod batch;
pub(crate) mod window;
