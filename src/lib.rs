//! OM4 ocean data for Burn.

mod cpython_random;
mod error;
mod groups;
mod permutation;
mod plan;
mod read;
mod samudra_order;
mod schedule;
mod schema;
mod state;
mod time;
mod window;

pub use error::{Error, ErrorKind, Result};
pub use groups::{GroupOrder, Groups};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schedule::{Batches, Epoch, Order, Schedule, ScheduleSpec, Shard};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use state::{Fingerprint, FingerprintBuilder, FingerprintPart, LoaderState, Position};
pub use time::{Calendar, Date, DateRange, TimeAxis, TimeValues};
pub use window::{Window, WindowSpec};
