//! An OM4 store on disk: what it holds, whether it fits together, and its planes, read in parallel.
//!
//! ```text
//!  opening:  zarr::group ──▶ open ──▶ plane_array     beside it: grid, depths, masks, statistics
//!            ZarrGroup       Found    codec, chunks
//!  reading:  PlaneRequest ──▶ tasks ──▶ read ──▶ load, assemble ──▶ PlaneSink
//!                             chunks    Rayon    one task
//! ```

pub(crate) mod array_names;
pub(crate) mod assemble;
pub(crate) mod axes;
pub(crate) mod depths;
pub(crate) mod gaps;
pub(crate) mod grid;
pub(crate) mod load;
pub(crate) mod masks;
pub(crate) mod om4_store;
pub(crate) mod open;
pub(crate) mod opening;
pub(crate) mod options;
pub(crate) mod plane_array;
pub(crate) mod read;
pub(crate) mod stamp;
pub(crate) mod statistics;
pub(crate) mod tasks;

pub use crate::threads::{READERS_VARIABLE, reader_threads, set_reader_threads};
pub use crate::zarr::format::ZarrFormat;
pub use masks::{MaskReport, WetMasks};
pub use om4_store::Store;
pub use options::OpenOptions;
pub use statistics::{ChannelStats, Statistics};
