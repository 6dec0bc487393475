//! OM4 ocean data for Burn.

mod calendar;
mod error;
mod plan;
mod read;
mod schema;
mod time;
mod window;

pub use calendar::{Calendar, Date, DateRange, DateTime};
pub use error::{Error, ErrorKind, Result};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
pub use window::{Window, WindowSpec, inference_starts};
