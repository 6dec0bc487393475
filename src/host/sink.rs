//! Where decoded planes land: side by side for an upload, or prepared and gathered at once.

use crate::dataset::channel_group::ChannelGroup;
use crate::dataset::values::GroupValues;
use crate::error::{Error, ErrorKind, Result};
use crate::host::claims::Claims;
use crate::host::pool::HostLease;
use crate::ocean::plane::PlaneSink;
use crate::plan::batch::Gather;
use crate::prepare::arithmetic::{ChannelConstants, MetCells, Preparation};
use crate::prepare::precision::{Narrow, Precision};
use crate::sync::lock;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Mutex;

/// Raw planes, `(y, x)` in C order, side by side in one host buffer, in the request's order.
///
/// Every plane is lent out at most once, so writers never meet.
pub struct HostPlanes<'a>(Claims<'a>);

impl<'a> HostPlanes<'a> {
    /// Splits `buffer` into planes of `cells` values.
    ///
    /// # Panics
    /// When `cells` is 0.
    pub fn new(buffer: &'a mut [f32], cells: usize) -> Self {
        Self(Claims::new(buffer, cells))
    }
}

impl PlaneSink for HostPlanes<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let memory = self.0.claim(&planes);
        fill(memory.ok_or_else(|| claimed_twice(&planes))?)
    }
}

/// A plane whose wet cells held what they should not when it was prepared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MetPlane {
    /// Its place in the request.
    pub plane: usize,
    pub cells: MetCells,
}

/// A sink that looks at what it is filled with.
pub(crate) trait MeetsCells {
    /// What it met in planes that it has prepared, in the order of the request.
    fn met(&self) -> Vec<MetPlane>;
}

/// Raw planes for a device that will prepare them, which are looked at while they are hot: each when
/// it is read for the first time, whatever the batch.
pub(crate) struct RawPlanes<'a> {
    planes: HostPlanes<'a>,
    cells: usize,
    /// Of the source.
    rows: &'a [usize],
    channels: &'a ChannelGroup,
    values: &'a GroupValues,
}

impl<'a> RawPlanes<'a> {
    pub(crate) fn new(
        planes: HostPlanes<'a>,
        cells: usize,
        rows: &'a [usize],
        channels: &'a ChannelGroup,
        values: &'a GroupValues,
    ) -> Self {
        Self {
            planes,
            cells,
            rows,
            channels,
            values,
        }
    }
}

impl PlaneSink for RawPlanes<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let n = self.channels.constants.len();
        self.planes.fill(planes.clone(), &mut |memory| {
            fill(memory)?;
            for (plane, values) in planes.clone().zip(memory.chunks_exact(self.cells)) {
                let (row, channel) = (self.rows[plane / n], plane % n);
                self.values.look(self.channels, row, channel, values);
            }
            Ok(())
        })
    }
}

impl MeetsCells for RawPlanes<'_> {
    /// Nothing: what is found is noted at once.
    fn met(&self) -> Vec<MetPlane> {
        Vec::new()
    }
}

/// Prepares planes while they are hot, and notes what it meets.
struct Preparing<'a> {
    preparation: Preparation,
    channels: &'a [ChannelConstants],
    met: Mutex<Vec<MetPlane>>,
}

impl<'a> Preparing<'a> {
    fn new(preparation: Preparation, channels: &'a [ChannelConstants]) -> Self {
        Self {
            preparation,
            channels,
            met: Mutex::default(),
        }
    }

    /// Prepares a plane of the request.
    fn prepare(&self, plane: usize, values: &mut [f32]) {
        let channel = &self.channels[plane % self.channels.len()];
        let cells = self.preparation.prepare(values, channel);
        if cells != MetCells::default() {
            lock(&self.met).push(MetPlane { plane, cells });
        }
    }

    fn met(&self) -> Vec<MetPlane> {
        let mut met = lock(&self.met).clone();
        met.sort_unstable_by_key(|met| met.plane);
        met
    }
}

/// Prepares each plane while it is hot and lays it beside the others in one host buffer, in the
/// request's order, in the element type that crosses to the device.
pub(crate) struct PreparedPlanes<'a> {
    cells: usize,
    preparing: Preparing<'a>,
    memory: Memory<'a>,
}

enum Memory<'a> {
    Whole(Claims<'a>),
    Halves(Claims<'a, u16>, Narrow),
}

impl<'a> PreparedPlanes<'a> {
    /// # Panics
    /// When `cells` is 0.
    pub(crate) fn new(
        lease: &'a mut HostLease,
        precision: Precision,
        cells: usize,
        preparation: Preparation,
        channels: &'a [ChannelConstants],
    ) -> Self {
        let memory = match Narrow::of(precision) {
            None => Memory::Whole(Claims::new(lease.as_mut_slice(), cells)),
            Some(narrow) => Memory::Halves(Claims::new(lease.as_mut_halves(), cells), narrow),
        };
        Self {
            cells,
            preparing: Preparing::new(preparation, channels),
            memory,
        }
    }

    fn prepare(&self, planes: Range<usize>, values: &mut [f32]) {
        for (plane, values) in planes.zip(values.chunks_exact_mut(self.cells)) {
            self.preparing.prepare(plane, values);
        }
    }
}

impl MeetsCells for PreparedPlanes<'_> {
    fn met(&self) -> Vec<MetPlane> {
        self.preparing.met()
    }
}

impl PlaneSink for PreparedPlanes<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        match &self.memory {
            Memory::Whole(memory) => {
                let memory = memory.claim(&planes);
                let memory = memory.ok_or_else(|| claimed_twice(&planes))?;
                fill(memory)?;
                self.prepare(planes, memory);
                Ok(())
            }
            Memory::Halves(memory, narrow) => {
                let memory = memory.claim(&planes);
                let memory = memory.ok_or_else(|| claimed_twice(&planes))?;
                with_scratch(memory.len(), |scratch| {
                    fill(scratch)?;
                    self.prepare(planes, scratch);
                    narrow.round(scratch, memory);
                    Ok(())
                })
            }
        }
    }
}

/// One tensor that is put together from the planes of a group: `(sample, time, channel, y, x)`.
pub(crate) struct Gathered<'a> {
    /// The tensor's values.
    pub(crate) values: &'a mut [f32],
    /// Which unique row stands at each (sample, time).
    pub(crate) gather: &'a Gather,
}

/// Prepares each plane while it is hot and copies it to every place where the tensors show it.
///
/// Used where host memory is the device's memory: no buffer of unique planes exists, and nothing
/// is touched twice. Channels that are side by side in a row are so in every tensor: a chunk of
/// several levels is decoded into its place at once.
pub(crate) struct PreparedTensors<'a> {
    cells: usize,
    preparing: Preparing<'a>,
    /// All channels of one (sample, time) each, ordered by the unique row they show.
    places: Vec<Claims<'a>>,
    /// Where the places of each unique row begin, and the end.
    first_place: Vec<usize>,
}

thread_local! {
    /// For planes on their way to another element type, or that lie apart in the tensors: at most
    /// one chunk's, kept by the reader threads.
    /// Taken out while in use, because `fill` may come back here on the same thread.
    static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

fn with_scratch(len: usize, work: impl FnOnce(&mut [f32]) -> Result<()>) -> Result<()> {
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0.0);
    }
    let outcome = work(&mut scratch[..len]);
    SCRATCH.set(scratch);
    outcome
}

impl<'a> PreparedTensors<'a> {
    /// `rows` unique rows of `channels`; every tensor's gather points into these rows.
    ///
    /// # Panics
    /// When a tensor's length does not match its gather, or a plane has no cells.
    pub(crate) fn new(
        rows: usize,
        channels: &'a [ChannelConstants],
        preparation: Preparation,
        cells: usize,
        tensors: Vec<Gathered<'a>>,
    ) -> Self {
        let mut first_place = vec![0; rows + 1];
        for row in tensors.iter().flat_map(|t| &t.gather.rows) {
            first_place[*row as usize + 1] += 1;
        }
        for row in 0..rows {
            first_place[row + 1] += first_place[row];
        }
        let mut next = first_place.clone();
        let mut places: Vec<Option<Claims<'a>>> = Vec::new();
        places.resize_with(first_place[rows], || None);
        let row_values = channels.len() * cells;
        for Gathered { values, gather } in tensors {
            assert_eq!(
                values.len(),
                gather.rows.len() * row_values,
                "tensor and gather differ in size"
            );
            for (row, values) in gather
                .rows
                .iter()
                .zip(values.chunks_exact_mut(row_values.max(1)))
            {
                let place = &mut next[*row as usize];
                places[*place] = Some(Claims::new(values, cells));
                *place += 1;
            }
        }
        Self {
            cells,
            preparing: Preparing::new(preparation, channels),
            places: places.into_iter().flatten().collect(),
            first_place,
        }
    }

    /// Where the tensors show a row.
    fn places(&self, row: usize) -> Result<&[Claims<'a>]> {
        let bounds = self.first_place.get(row).zip(self.first_place.get(row + 1));
        let places = bounds.and_then(|(first, end)| self.places.get(*first..*end));
        places.ok_or_else(|| {
            Error::new(
                ErrorKind::Interrupted,
                "a plane source filled a row that was not asked for",
            )
            .found(row)
        })
    }

    /// Prepares planes of neighbouring channels of a row, and copies each to `places`.
    fn finish(
        &self,
        planes: Range<usize>,
        values: &mut [f32],
        places: &[Claims<'a>],
    ) -> Result<()> {
        for (plane, values) in planes.zip(values.chunks_exact_mut(self.cells)) {
            self.preparing.prepare(plane, values);
            let channel = plane % self.preparing.channels.len();
            for place in places {
                let wanted = channel..channel + 1;
                let place = place.claim(&wanted);
                let place = place.ok_or_else(|| claimed_twice(&wanted))?;
                place.copy_from_slice(values);
            }
        }
        Ok(())
    }
}

impl MeetsCells for PreparedTensors<'_> {
    fn met(&self) -> Vec<MetPlane> {
        self.preparing.met()
    }
}

impl PlaneSink for PreparedTensors<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let n = self.preparing.channels.len().max(1);
        let (row, first) = (planes.start / n, planes.start % n);
        let channels = first..first + planes.len();
        if channels.end <= n
            && let Some((place, others)) = self.places(row)?.split_first()
        {
            // Straight into the first tensor that wants it.
            let memory = place.claim(&channels);
            let memory = memory.ok_or_else(|| claimed_twice(&planes))?;
            fill(memory)?;
            return self.finish(planes, memory, others);
        }
        // Planes of several rows: together in the chunk, apart in the tensors.
        with_scratch(planes.len() * self.cells, |scratch| {
            fill(scratch)?;
            let mut each = planes.zip(scratch.chunks_exact_mut(self.cells));
            each.try_for_each(|(plane, values)| {
                self.finish(plane..plane + 1, values, self.places(plane / n)?)
            })
        })
    }
}

fn claimed_twice(planes: &Range<usize>) -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "a plane source filled a plane that was not asked for, or filled it twice",
    )
    .found(format!("planes {planes:?} of the request"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::mask::WetMask;
    use crate::ocean::plane::PlaneShape;
    use crate::prepare::arithmetic::MaskOrder;

    #[test]
    fn host_planes_are_lent_once_and_only_within_bounds() {
        let mut buffer = vec![0.0; 12];
        let sink = HostPlanes::new(&mut buffer, 2);
        let write = |planes: Range<usize>, value: f32| {
            sink.fill(planes, &mut |memory| {
                memory.fill(value);
                Ok(())
            })
        };
        write(2..4, 1.0).unwrap();
        write(0..1, 2.0).unwrap();
        write(5..6, 3.0).unwrap();
        for refused in [2..3, 3..5, 0..1, 5..7, 6..7, 1..1] {
            assert!(write(refused.clone(), 9.0).is_err(), "{refused:?}");
        }
        write(4..5, 4.0).unwrap();
        write(1..2, 5.0).unwrap();
        drop(sink);
        assert_eq!(
            buffer,
            [2.0, 2.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 3.0, 3.0]
        );
    }

    #[test]
    fn prepared_planes_reach_every_place() {
        let wet = WetMask::new(PlaneShape { ny: 1, nx: 2 }, vec![true, false]).unwrap();
        let wet = std::sync::Arc::new(wet);
        let constants = |mean| ChannelConstants {
            mean,
            std: 2.0,
            wet: wet.clone(),
        };
        let channels = [constants(0.0), constants(1.0)];
        let first = Gather {
            rows: vec![1, 0],
            times: 1,
        };
        let second = Gather {
            rows: vec![1, 1],
            times: 2,
        };
        let (mut a, mut b) = (vec![0.0; 8], vec![0.0; 8]);
        let preparation = Preparation {
            order: MaskOrder::NormaliseFirst,
            fill: 7.0,
        };
        let sink = PreparedTensors::new(
            2,
            &channels,
            preparation,
            2,
            vec![
                Gathered {
                    values: &mut a,
                    gather: &first,
                },
                Gathered {
                    values: &mut b,
                    gather: &second,
                },
            ],
        );
        // Planes: (row 0, channel 0), (0, 1), then row 1 as a run.
        sink.fill(1..2, &mut |m| {
            m.copy_from_slice(&[3.0, 0.0]);
            Ok(())
        })
        .unwrap();
        sink.fill(0..1, &mut |m| {
            m.copy_from_slice(&[f32::NAN, 0.0]);
            Ok(())
        })
        .unwrap();
        sink.fill(2..4, &mut |m| {
            m.copy_from_slice(&[4.0, 0.0, 5.0, 0.0]);
            Ok(())
        })
        .unwrap();
        assert!(sink.fill(2..3, &mut |_| Ok(())).is_err());
        let cells = MetCells { nan: 1, large: 0 };
        assert_eq!(sink.met(), [MetPlane { plane: 0, cells }]);
        drop(sink);
        assert_eq!(a, [2.0, 7.0, 2.0, 7.0, 0.0, 7.0, 1.0, 7.0]);
        assert_eq!(b, [2.0, 7.0, 2.0, 7.0, 2.0, 7.0, 2.0, 7.0]);
    }
}
