//! OM4 ocean data for Burn.

mod error;
mod plan;
mod read;
mod schema;
pub mod synth;
mod time;
mod window;

pub use error::{Error, ErrorKind, Result};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use time::{Calendar, Date, DateRange, TimeAxis, TimeValues};
pub use window::{Window, WindowSpec};
