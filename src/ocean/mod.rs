//! What an ocean store holds, as plain data: channels, calendar, time, grid, masks; and the seam
//! between what has planes and what wants them.
//!
//! A store of one's own takes part by implementing [`PlaneSource`].

pub(crate) mod calendar;
pub(crate) mod channel;
pub(crate) mod grid;
pub(crate) mod mask;
pub(crate) mod plane;
pub(crate) mod time;

pub use calendar::{Calendar, Date, DateRange, DateTime};
pub use channel::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use grid::{AreaSource, CellAreaWeights, Coordinate, Grid};
pub use mask::WetMask;
pub use plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
