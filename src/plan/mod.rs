//! Which planes a batch reads, each once, and where each goes. Plain data.
//!
//! ```text
//!  windows ──▶ BatchPlan: unique rows of each read group, and a gather map per tensor
//! ```

pub(crate) mod arrange;
pub(crate) mod batch;
pub(crate) mod groups;
pub(crate) mod roles;
pub(crate) mod window;

pub use batch::{BatchPlan, Gather, GroupPlan, Inputs, Labels};
pub use groups::{PerGroup, ReadGroup};
pub use roles::{PerRole, Role};
pub use window::{Window, WindowOptions, inference_starts};
