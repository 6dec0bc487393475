//! The planes of a request, grouped by the chunks that hold them: each chunk in one task. Plain data.

use crate::error::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::collections::HashMap;

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
/// use burn_om4::store::{ArrayLayout, ChannelSlot, read_tasks};
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
