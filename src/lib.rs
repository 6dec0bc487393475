//! OM4 ocean data for Burn.

mod batch;
mod batcher;
mod calendar;
mod counters;
mod cpython_random;
mod dataset;
mod device;
mod error;
mod host;
mod loader;
mod ocean;
mod permutation;
mod plan;
mod prepare;
mod queue;
mod read;
mod samudra_order;
mod schedule;
mod schema;
mod sink;
mod state;
pub mod synth;
pub mod testing;
mod time;
mod window;

pub use batch::ModelBatch;
pub use batcher::OceanBatcher;
pub use calendar::{Calendar, Date, DateRange, DateTime};
pub use counters::LoaderCounters;
pub use dataset::{BatchContext, DatasetOptions, OceanDataset, OceanPair};
pub use device::{DeviceChoice, is_cpu};
pub use error::{Error, ErrorKind, Result};
pub use host::{
    HOST_ALIGN, HostAllocator, HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory,
};
pub use loader::{OceanLoader, Prefetch};
pub use ocean::{Ocean, OceanChannel, Om4Paths};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use prepare::{ChannelConstants, DevicePreparation, MaskOrder, Preparation};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schedule::{Batches, Epoch, GroupOrder, Groups, Order, Schedule, ScheduleSpec, Shard};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use sink::{Gathered, HostPlanes, PreparedTensors};
pub use state::{Fingerprint, FingerprintBuilder, FingerprintPart, LoaderState, Position};
pub use time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
pub use window::{Window, WindowSpec, inference_starts};
