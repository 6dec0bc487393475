//! The plan of a batch: which planes are read once, and where each goes. Plain data, no I/O.

use crate::error::Result;
use crate::window::WindowSpec;

/// Which rollout steps get a materialised input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Inputs {
    /// Step 0 only: later steps run on the model's own prediction.
    #[default]
    First,
    /// Every step's.
    All,
}

/// Whether labels are read from the store of the inputs or from one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    Shared,
    Own,
}

/// Unique rows of one read group (prognostic, boundary, or labels of their own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Unique rows of the store, ascending.
    pub rows: Vec<usize>,
    /// Channels in each row.
    pub channels: usize,
}

/// For each (sample, time), which unique row of its group: `samples * times` entries, sample-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    pub rows: Vec<u32>,
    pub times: usize,
}

/// What one batch reads, and how its tensors are put together from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    pub prognostic: GroupPlan,
    pub boundary: GroupPlan,
    /// Present iff labels come from a store of their own ([`Labels::Own`]).
    pub label: Option<GroupPlan>,
    /// Into `prognostic`; one per materialised step (1 or `steps`).
    pub inputs: Vec<Gather>,
    /// Into `boundary`; one per step.
    pub boundaries: Vec<Gather>,
    /// Into `label` if present, else `prognostic`; one per step.
    pub labels: Vec<Gather>,
}

impl BatchPlan {
    /// Errors: no starts; numbers that overflow.
    pub fn new(
        _spec: &WindowSpec,
        _starts: &[usize],
        _prognostic: usize,
        _boundary: usize,
        _inputs: Inputs,
        _labels: Labels,
    ) -> Result<Self> {
        todo!()
    }
    /// Unique planes over all groups.
    pub fn unique_planes(&self) -> usize {
        todo!()
    }
    /// Planes the batch's tensors show (with repeats): the naive loader's reads.
    pub fn touched_planes(&self) -> usize {
        todo!()
    }
    /// Bytes of the unique planes as f32.
    pub fn bytes(&self, _cells: usize) -> u64 {
        todo!()
    }
}

/// Shape and chunking of one Zarr array that holds planes: `(time, y, x)`, `(time, level, y, x)` or
/// `(level, time, y, x)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayLayout {
    pub name: String,
    pub shape: Vec<u64>,
    /// Regular chunk shape, same rank.
    pub chunk: Vec<u64>,
    /// Position of the time axis (0 or 1).
    pub time_axis: usize,
    /// Position of the level axis, if any.
    pub level_axis: Option<usize>,
}

/// Where a channel lives: array index and level inside it (0 when the array has no level axis).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelSlot {
    pub array: usize,
    pub level: usize,
}

/// One plane of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPlane {
    /// Index in the request: `row_position * channels + channel_position`.
    pub plane: usize,
    pub row: usize,
    pub level: usize,
}

/// All wanted planes of one block of chunks (same chunk index in time and level): each of its
/// chunks is read and decoded exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTask {
    pub array: usize,
    /// Chunk index along time and level.
    pub time_chunk: u64,
    pub level_chunk: u64,
    /// Ascending by `plane`.
    pub planes: Vec<PlannedPlane>,
    /// Chunks of the block: the number of (y, x) chunks a plane is cut into.
    pub chunks: u64,
}

/// Groups the planes of a request (every row × every channel, row-major) by the chunks that hold
/// them. Deterministic order: by first plane.
///
/// Errors: a row or level outside its array.
pub fn read_tasks(
    _layouts: &[ArrayLayout],
    _channels: &[ChannelSlot],
    _rows: &[usize],
) -> Result<Vec<ReadTask>> {
    todo!()
}
