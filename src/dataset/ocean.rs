//! A store with everything that turns its planes into model input: masks, statistics, time, grid.

use crate::ocean::channel::Channel;
use crate::ocean::grid::Grid;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::PlaneSource;
use crate::ocean::time::TimeAxis;
use crate::prepare::arithmetic::ChannelConstants;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a channel is prepared with, and what it is called.
#[derive(Clone, Debug)]
pub struct OceanChannel {
    /// Mean, standard deviation and the channel's own wet mask (of a boundary, the surface's).
    pub constants: ChannelConstants,
    /// Unit as the store states it, such as `degC`.
    pub unit: Option<String>,
}

/// A plane source together with its time axis, grid, masks and statistics.
///
/// [`Ocean::open`] makes one from an OM4 store; the fields are public so that any other
/// [`PlaneSource`] can be dressed up as one.
#[derive(Clone)]
pub struct Ocean {
    /// Fills planes.
    pub planes: Arc<dyn PlaneSource>,
    /// One entry per row of `planes`.
    pub time: TimeAxis,
    /// Extent as `planes.shape()`.
    pub grid: Arc<Grid>,
    /// Wet mask of the surface: applies to every boundary channel.
    pub surface: Arc<WetMask>,
    /// The channels that may be asked for.
    pub channels: BTreeMap<Channel, OceanChannel>,
    /// What is odd about the store without being an error.
    pub warnings: Vec<String>,
}
