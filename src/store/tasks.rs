//! The planes of a request, grouped by the chunks that hold them: each chunk in one task. Plain
//! data.

use crate::error::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Shape and chunking of one Zarr array that holds planes: `(time, y, x)`, `(time, level, y, x)` or
/// `(level, time, y, x)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayLayout {
    /// For errors.
    pub(crate) name: String,
    /// Extents, the last two y and x.
    pub(crate) shape: Vec<u64>,
    /// Regular chunk shape, same rank.
    pub(crate) chunk: Vec<u64>,
    /// Position of the time axis (0 or 1).
    pub(crate) time_axis: usize,
    /// Position of the level axis, if any.
    pub(crate) level_axis: Option<usize>,
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
pub(crate) struct ChannelSlot {
    /// Position in the list of layouts.
    pub(crate) array: usize,
    /// From 0 at the surface.
    pub(crate) level: usize,
}

/// One plane of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedPlane {
    /// Index in the request: `row_position * channels + channel_position`.
    pub(crate) plane: usize,
    /// Row on the array's time axis.
    pub(crate) row: usize,
    /// Level in the array; 0 when it has no level axis.
    pub(crate) level: usize,
}

/// All wanted planes of one block of chunks (same chunk index in time and level): each of its
/// chunks is read and decoded exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadTask {
    /// Position in the list of layouts.
    pub(crate) array: usize,
    /// Chunk index along time.
    pub(crate) time_chunk: u64,
    /// Chunk index along level; 0 when the array has no level axis.
    pub(crate) level_chunk: u64,
    /// Ascending by `plane`. A single one, as most chunks hold, is kept in place.
    pub(crate) planes: SmallVec<[PlannedPlane; 1]>,
    /// Chunks of the block: the number of (y, x) chunks a plane is cut into.
    pub(crate) chunks: u64,
}

/// Groups the planes of a request (every row × every channel, row-major) by the chunks that hold
/// them. The tasks are in the order of their first planes.
///
/// # Errors
/// - [`ErrorKind::Metadata`]: a layout whose axes are elsewhere, or with an extent of 0.
/// - [`ErrorKind::Config`]: a row, level or array that is not there; more planes than can be
///   counted.
pub(crate) fn read_tasks(
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Any layout of planes: without levels, time first, or level first; ragged chunks.
    fn layout() -> impl Strategy<Value = ArrayLayout> {
        let extents = (20u64..30, 1u64..7, 1u64..9, 1u64..9);
        let chunks = (1u64..6, 1u64..9, 1u64..12, 1u64..12);
        (0..3, extents, chunks).prop_map(|(kind, (t, l, y, x), (ct, cl, cy, cx))| {
            let (time_axis, level_axis, shape, chunk) = match kind {
                0 => (0, None, vec![t, y, x], vec![ct, cy, cx]),
                1 => (0, Some(1), vec![t, l, y, x], vec![ct, cl, cy, cx]),
                _ => (1, Some(0), vec![l, t, y, x], vec![cl, ct, cy, cx]),
            };
            ArrayLayout {
                name: "thetao".into(),
                shape,
                chunk,
                time_axis,
                level_axis,
            }
        })
    }

    proptest! {
        #[test]
        fn tasks_hold_every_plane_once_and_every_block_once(
            layouts in proptest::collection::vec(layout(), 1..4),
            picks in proptest::collection::vec((any::<u16>(), any::<u16>()), 0..12),
            rows in proptest::collection::btree_set(0usize..20, 0..15),
            backwards in any::<bool>(),
        ) {
            let mut rows: Vec<usize> = rows.into_iter().collect();
            if backwards {
                rows.reverse();
            }
            let channels: Vec<ChannelSlot> = picks
                .iter()
                .map(|&(a, l)| {
                    let array = usize::from(a) % layouts.len();
                    let levels = layouts[array].level_axis.map_or(1, |axis| layouts[array].shape[axis]);
                    ChannelSlot { array, level: usize::from(l) % levels as usize }
                })
                .collect();
            let tasks = read_tasks(&layouts, &channels, &rows).unwrap();

            let mut seen = HashMap::new();
            let mut blocks = HashSet::new();
            let mut firsts = Vec::new();
            for task in &tasks {
                let layout = &layouts[task.array];
                let axis_chunk = |axis: Option<usize>| axis.map_or(1, |axis| layout.chunk[axis]);
                prop_assert!(blocks.insert((task.array, task.time_chunk, task.level_chunk)));
                prop_assert!(task.planes.is_sorted_by(|a, b| a.plane < b.plane));
                firsts.push(task.planes[0].plane);
                for plane in &task.planes {
                    prop_assert_eq!(plane.row as u64 / axis_chunk(Some(layout.time_axis)), task.time_chunk);
                    prop_assert_eq!(plane.level as u64 / axis_chunk(layout.level_axis), task.level_chunk);
                    let twice = seen.insert(plane.plane, (task.array, plane.row, plane.level));
                    prop_assert_eq!(twice, None);
                }
                // Count the (y, x) chunks by walking their corners.
                let yx = layout.shape.len() - 2;
                let corners = |axis: usize| (0..layout.shape[axis]).step_by(layout.chunk[axis] as usize).count();
                prop_assert_eq!(task.chunks, (corners(yx) * corners(yx + 1)) as u64);
            }
            prop_assert!(firsts.is_sorted_by(|a, b| a < b));
            let mut plane = 0;
            for &row in &rows {
                for slot in &channels {
                    prop_assert_eq!(seen.get(&plane), Some(&(slot.array, row, slot.level)));
                    plane += 1;
                }
            }
            prop_assert_eq!(seen.len(), plane);
        }
    }

    fn compact() -> ArrayLayout {
        ArrayLayout {
            name: "thetao".into(),
            shape: vec![19, 12, 8, 10],
            chunk: vec![4, 5, 3, 10],
            time_axis: 1,
            level_axis: Some(0),
        }
    }

    #[test]
    fn neighbours_in_a_chunk_share_a_task() {
        let levels = [0, 3, 4].map(|level| ChannelSlot { array: 0, level });
        let tasks = read_tasks(&[compact()], &levels, &[4, 5]).unwrap();
        let blocks: Vec<_> = tasks
            .iter()
            .map(|t| (t.time_chunk, t.level_chunk))
            .collect();
        assert_eq!(blocks, [(0, 0), (0, 1), (1, 0), (1, 1)]);
        let plane = |plane, row, level| PlannedPlane { plane, row, level };
        assert_eq!(tasks[0].planes[..], [plane(0, 4, 0), plane(1, 4, 3)]);
        assert_eq!(tasks[3].planes[..], [plane(5, 5, 4)]);
        // 8 rows of cells in chunks of 3, all columns in one.
        assert!(tasks.iter().all(|t| t.chunks == 3));
    }

    #[test]
    fn a_request_of_nothing_has_no_tasks() {
        assert_eq!(read_tasks(&[compact()], &[], &[0]).unwrap(), []);
        assert_eq!(
            read_tasks(&[compact()], &[ChannelSlot { array: 0, level: 0 }], &[]).unwrap(),
            []
        );
        assert_eq!(read_tasks(&[], &[], &[7]).unwrap(), []);
    }

    #[test]
    fn requests_outside_an_array_name_it() {
        let at = |array, level, row| {
            read_tasks(&[compact()], &[ChannelSlot { array, level }], &[0, row]).unwrap_err()
        };
        let e = at(0, 19, 0);
        assert_eq!(
            e.to_string(),
            "a level is not there [array thetao]: expected an index below 19, found 19"
        );
        let e = at(0, 0, 12);
        assert_eq!(
            (e.kind(), e.time_row(), e.array_name()),
            (ErrorKind::Config, Some(12), Some("thetao"))
        );
        assert!(
            at(1, 0, 0)
                .to_string()
                .contains("expected an index below 1, found 1")
        );
        let flat = ArrayLayout {
            shape: vec![12, 8, 10],
            chunk: vec![1, 8, 10],
            time_axis: 0,
            level_axis: None,
            ..compact()
        };
        assert!(read_tasks(&[flat], &[ChannelSlot { array: 0, level: 1 }], &[0]).is_err());
    }

    #[test]
    fn malformed_layouts_are_metadata_errors() {
        let bad = [
            ArrayLayout {
                time_axis: 2,
                ..compact()
            },
            ArrayLayout {
                level_axis: Some(1),
                ..compact()
            },
            ArrayLayout {
                level_axis: None,
                time_axis: 0,
                ..compact()
            },
            ArrayLayout {
                time_axis: 0,
                level_axis: Some(usize::MAX),
                ..compact()
            },
            ArrayLayout {
                time_axis: 2,
                level_axis: Some(usize::MAX),
                ..compact()
            },
            ArrayLayout {
                shape: vec![19, 12, 8],
                ..compact()
            },
            ArrayLayout {
                chunk: vec![4, 5, 3],
                ..compact()
            },
            ArrayLayout {
                chunk: vec![4, 0, 3, 10],
                ..compact()
            },
            ArrayLayout {
                shape: vec![19, 12, 0, 10],
                ..compact()
            },
            ArrayLayout {
                shape: vec![19, 12, u64::MAX, u64::MAX],
                chunk: vec![1, 1, 1, 1],
                ..compact()
            },
            ArrayLayout {
                shape: vec![],
                chunk: vec![],
                ..compact()
            },
        ];
        for layout in bad {
            let e = read_tasks(std::slice::from_ref(&layout), &[], &[]).unwrap_err();
            assert_eq!(
                (e.kind(), e.array_name()),
                (ErrorKind::Metadata, Some("thetao")),
                "{layout:?}"
            );
        }
    }

    #[test]
    fn extents_beyond_32_bits_are_planned() {
        let layout = ArrayLayout {
            shape: vec![1 << 40, 1 << 20, 1 << 20],
            chunk: vec![3, 1, 1],
            time_axis: 0,
            level_axis: None,
            ..compact()
        };
        let tasks = read_tasks(
            &[layout],
            &[ChannelSlot { array: 0, level: 0 }],
            &[(1 << 40) - 1],
        )
        .unwrap();
        assert_eq!(
            (tasks[0].time_chunk, tasks[0].chunks),
            (((1 << 40) - 1) / 3, 1 << 40)
        );
    }

    #[test]
    fn one_chunk_holds_all_levels_of_a_row() {
        let compact = ArrayLayout {
            name: "thetao".into(),
            shape: vec![19, 4745, 180, 360],
            chunk: vec![19, 1, 180, 360],
            time_axis: 1,
            level_axis: Some(0),
        };
        let surface_and_bottom = [0, 18].map(|level| ChannelSlot { array: 0, level });
        let tasks = read_tasks(&[compact], &surface_and_bottom, &[100, 101]).unwrap();
        // Two reads for four planes.
        assert_eq!(tasks.len(), 2);
        assert_eq!((tasks[1].time_chunk, tasks[1].planes[1].plane), (101, 3));
    }
}
