//! The plan of a batch: which planes are read once, and where each goes. Plain data, no I/O.
//!
//! ```text
//! starts ──> BatchPlan: unique rows of each group + gather maps (sample, time) -> unique row
//!                 │
//!                 └─ rows × channels ──> read_tasks: the same planes, grouped by the chunks that
//!                                        hold them, each chunk in one task
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::window::WindowSpec;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;

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
    /// From the inputs' store: a row that is both input and label is read once.
    Shared,
    /// From another store with the same rows, such as one on another grid.
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

impl GroupPlan {
    /// Planes to read: every row × every channel.
    pub fn planes(&self) -> usize {
        self.rows.len() * self.channels
    }
}

/// For each (sample, time), which unique row of its group: `samples * times` entries, sample-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Positions in [`GroupPlan::rows`].
    pub rows: Vec<u32>,
    /// Times of each sample, oldest first.
    pub times: usize,
}

impl Gather {
    /// The unique rows, where the entries are consecutive ones: the gathered tensor is then this
    /// slice of the group's planes, without a copy.
    pub fn slice(&self) -> Option<Range<usize>> {
        let first = *self.rows.first()? as usize;
        let mut rows = self.rows.iter().zip(first..);
        let consecutive = rows.all(|(&row, wanted)| row as usize == wanted);
        consecutive.then_some(first..first + self.rows.len())
    }
}

/// What one batch reads, and how its tensors are put together from it.
///
/// ```
/// use burn_om4::{BatchPlan, Inputs, Labels, WindowSpec};
/// let spec = WindowSpec::default().with_steps(4);
/// let plan = BatchPlan::new(&spec, &[7], 77, 3, Inputs::First, Labels::Shared)?;
/// assert_eq!(plan.prognostic.rows, (7..17).collect::<Vec<_>>());
/// assert_eq!(plan.boundary.rows, (7..15).collect::<Vec<_>>());
/// assert_eq!(plan.unique_planes(), 10 * 77 + 8 * 3);
/// assert_eq!(plan.labels[3].slice(), Some(8..10));
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Rows of the materialised inputs, and of the labels under [`Labels::Shared`].
    pub prognostic: GroupPlan,
    /// Rows of every step's boundary.
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
    /// Plans a batch of one window per start, in the order of `starts`, which may repeat and
    /// overlap. `prognostic` and `boundary` are numbers of channels; 0 boundary channels read
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: what [`WindowSpec::validate`] refuses, no starts, no prognostic
    /// channels, or numbers that overflow: a row beyond `usize`, more than `u32::MAX` (sample, step,
    /// time) triples, planes beyond `usize`.
    pub fn new(
        spec: &WindowSpec,
        starts: &[usize],
        prognostic: usize,
        boundary: usize,
        inputs: Inputs,
        labels: Labels,
    ) -> Result<Self> {
        spec.validate()?;
        if starts.is_empty() {
            return Err(Error::config("a batch needs at least one window"));
        }
        if prognostic == 0 {
            return Err(Error::config(
                "a batch needs at least one prognostic channel",
            ));
        }
        check_size(spec, starts, prognostic.max(boundary))?;

        let input_steps = match inputs {
            Inputs::First => 1,
            Inputs::All => spec.steps,
        };
        let input_rows = absolute(spec, starts, input_steps, Side::Input);
        let boundary_rows = absolute(spec, starts, spec.steps, Side::Input);
        let label_rows = absolute(spec, starts, spec.steps, Side::Label);

        let shared: &[Vec<usize>] = match labels {
            Labels::Shared => &label_rows,
            Labels::Own => &[],
        };
        let prognostic_group = group(input_rows.iter().chain(shared), prognostic);
        let boundary_group = group(boundary_rows.iter(), boundary);
        let label_group = match labels {
            Labels::Shared => None,
            Labels::Own => Some(group(label_rows.iter(), prognostic)),
        };
        let times = spec.times();
        Ok(Self {
            inputs: gathers(&input_rows, &prognostic_group, times),
            boundaries: gathers(&boundary_rows, &boundary_group, times),
            labels: gathers(
                &label_rows,
                label_group.as_ref().unwrap_or(&prognostic_group),
                times,
            ),
            prognostic: prognostic_group,
            boundary: boundary_group,
            label: label_group,
        })
    }

    /// Unique planes over all groups: what the batch reads.
    pub fn unique_planes(&self) -> usize {
        let label = self.label.as_ref().map_or(0, GroupPlan::planes);
        self.prognostic.planes() + self.boundary.planes() + label
    }

    /// Planes the batch's tensors show, with repeats: the reads of a loader that reads each tensor
    /// for itself. Inputs that are not materialised do not count.
    pub fn touched_planes(&self) -> usize {
        let entries = |gathers: &[Gather]| gathers.iter().map(|g| g.rows.len()).sum::<usize>();
        entries(&self.inputs) * self.prognostic.channels
            + entries(&self.boundaries) * self.boundary.channels
            + entries(&self.labels) * self.prognostic.channels
    }

    /// Bytes of the unique planes as f32, `cells` values each, when all groups are on one grid;
    /// `u64::MAX` when that is too many to count.
    pub fn bytes(&self, cells: usize) -> u64 {
        let values = (self.unique_planes() as u64).saturating_mul(cells as u64);
        values.saturating_mul(size_of::<f32>() as u64)
    }
}

/// Everything the plan counts fits, before anything is allocated.
fn check_size(spec: &WindowSpec, starts: &[usize], channels: usize) -> Result<()> {
    let last = starts.iter().max().expect("there are starts");
    if last.checked_add(spec.span()).is_none() {
        return Err(Error::config("a window ends at a row that cannot be counted").found(last));
    }
    let entries = (starts.len().checked_mul(spec.steps)).and_then(|n| n.checked_mul(spec.times()));
    let entries = entries.filter(|&n| u32::try_from(n).is_ok());
    // Inputs, boundaries and labels each have at most `entries` (sample, step, time) triples.
    let planes = entries.and_then(|n| n.checked_mul(3)?.checked_mul(channels));
    if planes.is_none() {
        return Err(
            Error::config("a batch is larger than can be counted").found(format!(
                "{} windows of {} steps of {} times",
                starts.len(),
                spec.steps,
                spec.times()
            )),
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Input,
    Label,
}

/// Rows of the store for each step: sample-major, times oldest first.
fn absolute(spec: &WindowSpec, starts: &[usize], steps: usize, side: Side) -> Vec<Vec<usize>> {
    let rows = |step| {
        let mut rows = Vec::with_capacity(starts.len() * spec.times());
        for &start in starts {
            match side {
                Side::Input => rows.extend(spec.input_rows(start, step)),
                Side::Label => rows.extend(spec.label_rows(start, step)),
            }
        }
        rows
    };
    (0..steps).map(rows).collect()
}

fn group<'a>(rows: impl Iterator<Item = &'a Vec<usize>>, channels: usize) -> GroupPlan {
    let mut rows: Vec<usize> = rows.flatten().copied().collect();
    rows.sort_unstable();
    rows.dedup();
    GroupPlan { rows, channels }
}

fn gathers(steps: &[Vec<usize>], group: &GroupPlan, times: usize) -> Vec<Gather> {
    let position = |row: &usize| group.rows.binary_search(row).expect("the group has it") as u32;
    let gather = |rows: &Vec<usize>| Gather {
        rows: rows.iter().map(position).collect(),
        times,
    };
    steps.iter().map(gather).collect()
}

/// Shape and chunking of one Zarr array that holds planes: `(time, y, x)`, `(time, level, y, x)` or
/// `(level, time, y, x)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayLayout {
    /// For errors.
    pub name: String,
    /// Extents, the last two y and x.
    pub shape: Vec<u64>,
    /// Regular chunk shape, same rank.
    pub chunk: Vec<u64>,
    /// Position of the time axis (0 or 1).
    pub time_axis: usize,
    /// Position of the level axis, if any.
    pub level_axis: Option<usize>,
}

impl ArrayLayout {
    fn rows(&self) -> u64 {
        self.shape[self.time_axis]
    }

    fn levels(&self) -> u64 {
        self.level_axis.map_or(1, |axis| self.shape[axis])
    }

    fn chunk_levels(&self) -> u64 {
        self.level_axis.map_or(1, |axis| self.chunk[axis])
    }

    /// Checks the axes and extents, and counts the (y, x) chunks of a plane.
    fn plane_chunks(&self) -> Result<u64> {
        let bad = |message: &str| {
            Err(Error::new(ErrorKind::Metadata, message)
                .array(&self.name)
                .found(format!("shape {:?}, chunks {:?}", self.shape, self.chunk)))
        };
        let axes_in_place = match (self.time_axis, self.level_axis) {
            (0, None) => self.shape.len() == 3,
            (0, Some(1)) | (1, Some(0)) => self.shape.len() == 4,
            _ => false,
        };
        if !axes_in_place || self.chunk.len() != self.shape.len() {
            return bad("not an array of (time, y, x) planes with or without levels");
        }
        if self.shape.contains(&0) || self.chunk.contains(&0) {
            return bad("an array or its chunks have an extent of 0");
        }
        let cut = |axis: usize| self.shape[axis].div_ceil(self.chunk[axis]);
        let y = self.shape.len() - 2;
        match cut(y).checked_mul(cut(y + 1)) {
            Some(chunks) => Ok(chunks),
            None => bad("a plane has more chunks than can be counted"),
        }
    }
}

/// Where a channel lives: array index and level inside it (0 when the array has no level axis).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelSlot {
    /// Position in the list of layouts.
    pub array: usize,
    /// From 0 at the surface.
    pub level: usize,
}

/// One plane of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPlane {
    /// Index in the request: `row_position * channels + channel_position`.
    pub plane: usize,
    /// Row on the array's time axis.
    pub row: usize,
    /// Level in the array; 0 when it has no level axis.
    pub level: usize,
}

/// All wanted planes of one block of chunks (same chunk index in time and level): each of its
/// chunks is read and decoded exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTask {
    /// Position in the list of layouts.
    pub array: usize,
    /// Chunk index along time.
    pub time_chunk: u64,
    /// Chunk index along level; 0 when the array has no level axis.
    pub level_chunk: u64,
    /// Ascending by `plane`. A single one, as most chunks hold, is kept in place.
    pub(crate) planes: SmallVec<[PlannedPlane; 1]>,
    /// Chunks of the block: the number of (y, x) chunks a plane is cut into.
    pub chunks: u64,
}

impl ReadTask {
    /// The wanted planes, ascending by `plane`.
    pub fn planes(&self) -> &[PlannedPlane] {
        &self.planes
    }
}

/// Groups the planes of a request (every row × every channel, row-major) by the chunks that hold
/// them. The tasks are in the order of their first planes.
///
/// ```
/// use burn_om4::{ArrayLayout, ChannelSlot, read_tasks};
/// let compact = ArrayLayout {
///     name: "thetao".into(),
///     shape: vec![19, 4745, 180, 360],
///     chunk: vec![19, 1, 180, 360],
///     time_axis: 1,
///     level_axis: Some(0),
/// };
/// let surface_and_bottom = [0, 18].map(|level| ChannelSlot { array: 0, level });
/// let tasks = read_tasks(&[compact], &surface_and_bottom, &[100, 101])?;
/// // One chunk holds all levels of a row: two reads for four planes.
/// assert_eq!(tasks.len(), 2);
/// assert_eq!((tasks[1].time_chunk, tasks[1].planes()[1].plane), (101, 3));
/// # Ok::<(), burn_om4::Error>(())
/// ```
///
/// # Errors
/// - [`ErrorKind::Metadata`]: a layout whose axes are elsewhere, or with an extent of 0.
/// - [`ErrorKind::Config`]: a row, level or array that is not there; more planes than can be counted.
pub fn read_tasks(
    layouts: &[ArrayLayout],
    channels: &[ChannelSlot],
    rows: &[usize],
) -> Result<Vec<ReadTask>> {
    let chunks: Vec<u64> = layouts
        .iter()
        .map(ArrayLayout::plane_chunks)
        .collect::<Result<_>>()?;
    for slot in channels {
        let layout = layouts.get(slot.array).ok_or_else(|| {
            Error::config("a channel names an array that is not there")
                .expected(format!("an index below {}", layouts.len()))
                .found(slot.array)
        })?;
        let missing = |message: &str, extent: u64, found: usize| {
            Error::config(message)
                .array(&layout.name)
                .expected(format!("an index below {extent}"))
                .found(found)
        };
        if slot.level as u64 >= layout.levels() {
            let error = missing("a level is not there", layout.levels(), slot.level);
            return Err(error);
        }
        if let Some(&row) = rows.iter().find(|&&row| row as u64 >= layout.rows()) {
            return Err(missing("a time row is not there", layout.rows(), row).row(row));
        }
    }
    if rows.len().checked_mul(channels.len()).is_none() {
        return Err(Error::config(
            "a request has more planes than can be counted",
        ));
    }

    #[derive(PartialEq, Eq, Hash)]
    struct Block {
        array: usize,
        time_chunk: u64,
        level_chunk: u64,
    }
    let mut tasks: Vec<ReadTask> = Vec::new();
    let mut task_of: HashMap<Block, usize> = HashMap::with_capacity(rows.len());
    let planes = rows
        .iter()
        .flat_map(|&row| channels.iter().map(move |&slot| (row, slot)));
    for (plane, (row, ChannelSlot { array, level })) in planes.enumerate() {
        let layout = &layouts[array];
        let time_chunk = row as u64 / layout.chunk[layout.time_axis];
        let level_chunk = level as u64 / layout.chunk_levels();
        let block = Block {
            array,
            time_chunk,
            level_chunk,
        };
        let task = *task_of.entry(block).or_insert_with(|| {
            tasks.push(ReadTask {
                array,
                time_chunk,
                level_chunk,
                planes: SmallVec::new(),
                chunks: chunks[array],
            });
            tasks.len() - 1
        });
        tasks[task].planes.push(PlannedPlane { plane, row, level });
    }
    Ok(tasks)
}
