//! What is done to a plane: normalise, mask, round. `arithmetic` is the one place that does it on a
//! CPU, and the definition that every other way is held to.

pub(crate) mod arithmetic;
pub(crate) mod odd_cells;
pub(crate) mod path;
pub(crate) mod precision;
pub(crate) mod transfer;

pub use arithmetic::{ChannelConstants, MaskOrder, MetCells, Preparation};
pub use odd_cells::{EXTREME_DEVIATIONS, EXTREME_DISTANCE, OddCounts};
pub use path::DevicePath;
pub use precision::Precision;
pub use transfer::Transfer;
