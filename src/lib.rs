//! OM4 ocean data for Burn.

mod array;
mod calendar;
mod codec;
mod dims;
mod error;
mod grid;
mod group;
mod local;
mod lz4;
mod mask;
mod naming;
mod numbers;
mod options;
mod plan;
mod pool;
mod read;
mod reader;
mod schema;
mod shard;
mod stats;
mod store;
mod time;
mod window;

pub use calendar::{Calendar, Date, DateRange, DateTime};
pub use error::{Error, ErrorKind, Result};
pub use grid::{AreaSource, CellAreaWeights, Coordinate, Grid};
pub use group::ZarrFormat;
pub use mask::{WetMask, WetMasks};
pub use options::{OpenOptions, Strictness};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use pool::{READERS_VARIABLE, reader_threads, set_reader_threads};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use stats::{ChannelStats, Statistics};
pub use store::{MaskReport, Store};
pub use time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
pub use window::{Window, WindowSpec, inference_starts};
