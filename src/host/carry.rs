//! Rows that a batch leaves in memory for the next one: a pass over consecutive windows reads and
//! decodes each plane once.
//!
//! ```text
//!  batch N        rows 0 1 2 3 4 5 6 7            read 0..8, keep 4..8
//!  batch N + 1            4 5 6 7 8 9 10 11       take 4..8, read 8..12, keep 8..12
//! ```
//!
//! Planes are kept raw, so every path of preparing takes them as if they were read. Only what the
//! next batch is known to want is kept, and only up to a bound.

use crate::error::{Error, ErrorKind, Result};
use crate::host::claims::Claims;
use crate::ocean::plane::{PlaneRequest, PlaneSink, PlaneSource, ReadCounts};
use crate::plan::groups::{PerGroup, ReadGroup};
use crate::threads;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is kept between the batches of one pass.
pub(crate) struct RowCarry {
    /// Bytes that may be kept.
    bound: u64,
    /// Whose rows they are.
    source: usize,
    groups: PerGroup<KeptRows>,
}

/// Rows by number, each with all channels of its part.
#[derive(Default)]
struct KeptRows {
    rows: BTreeMap<usize, Vec<f32>>,
    spare: Vec<Vec<f32>>,
}

impl RowCarry {
    /// Keeps up to `bound` bytes.
    pub(crate) fn new(bound: u64) -> Self {
        Self {
            bound,
            source: 0,
            groups: PerGroup::default(),
        }
    }

    /// Begins a batch of a source; rows of another one are forgotten.
    pub(crate) fn begin(&mut self, source: usize) {
        if self.source != source {
            self.groups = PerGroup::default();
            self.source = source;
        }
    }

    /// Reads the planes of a request that are not kept, takes the others from memory, and keeps the
    /// rows that `next` wants, which are ascending.
    ///
    /// The counts are those of what was read.
    ///
    /// # Errors
    /// As the source's.
    pub(crate) fn read(
        &mut self,
        group: ReadGroup,
        source: &dyn PlaneSource,
        request: &PlaneRequest<'_>,
        next: &[usize],
        sink: &dyn PlaneSink,
    ) -> Result<ReadCounts> {
        let row_values = request.channels.len() * source.shape().cells();
        let bytes = (row_values * size_of::<f32>()).max(1) as u64;
        let others = self.groups.iter().filter(|(other, _)| *other != group);
        let taken: u64 = others.map(|(_, kept)| kept.bytes()).sum();
        let rows = usize::try_from(self.bound.saturating_sub(taken) / bytes).unwrap_or(usize::MAX);
        let kept = match group {
            ReadGroup::Prognostic => &mut self.groups.prognostic,
            ReadGroup::Boundary => &mut self.groups.boundary,
            ReadGroup::Label => self.groups.label.get_or_insert_default(),
        };
        let outcome = kept.read(source, request, next, sink, rows);
        if outcome.is_err() {
            *kept = KeptRows::default();
        }
        outcome
    }
}

impl KeptRows {
    fn bytes(&self) -> u64 {
        let values: usize = self.rows.values().map(Vec::len).sum();
        (values * size_of::<f32>()) as u64
    }

    fn read(
        &mut self,
        source: &dyn PlaneSource,
        request: &PlaneRequest<'_>,
        next: &[usize],
        sink: &dyn PlaneSink,
        bound: usize,
    ) -> Result<ReadCounts> {
        let wanted = |row: &usize| next.binary_search(row).is_ok();
        let known = |row: &usize| self.rows.contains_key(row);
        let missing: Vec<usize> = request.rows.iter().copied().filter(|r| !known(r)).collect();
        let stay = self.rows.keys().filter(|row| wanted(row)).count();
        let room = bound.saturating_sub(stay);
        let to_keep: Vec<usize> = missing.iter().copied().filter(wanted).take(room).collect();
        if self.rows.is_empty() && to_keep.is_empty() {
            return source.read(request, sink);
        }

        let cells = source.shape().cells();
        // First what is there, so that its memory is free for what comes: the bound holds
        // throughout.
        self.serve(request, cells, sink)?;
        let gone: Vec<usize> = self.rows.keys().copied().filter(|r| !wanted(r)).collect();
        let gone = gone.iter().filter_map(|row| self.rows.remove(row));
        self.spare.extend(gone);
        let row_values = request.channels.len() * cells;
        let mut buffers: Vec<Vec<f32>> = Vec::new();
        buffers.resize_with(to_keep.len(), || {
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.resize(row_values, 0.0);
            buffer
        });
        let mut counts = ReadCounts::default();
        if !missing.is_empty() {
            let mut keep: Vec<Option<Claims<'_>>> = Vec::new();
            keep.resize_with(missing.len(), || None);
            for (row, buffer) in to_keep.iter().zip(&mut buffers) {
                if let Ok(at) = missing.binary_search(row) {
                    keep[at] = Some(Claims::new(buffer, cells));
                }
            }
            let through = TeeSink {
                sink,
                cells,
                channels: request.channels.len(),
                positions: positions(request.rows, &missing),
                keep,
            };
            let request = PlaneRequest {
                rows: &missing,
                channels: request.channels,
            };
            counts = source.read(&request, &through)?;
        }
        self.rows.extend(to_keep.into_iter().zip(buffers));
        Ok(counts)
    }

    /// Fills the rows that are kept.
    fn serve(&self, request: &PlaneRequest<'_>, cells: usize, sink: &dyn PlaneSink) -> Result<()> {
        let n = request.channels.len();
        let rows = request.rows.iter().enumerate();
        let planes: Vec<(usize, &[f32])> = rows
            .filter_map(|(at, row)| Some((at, self.rows.get(row)?)))
            .flat_map(|(at, values)| (at * n..).zip(values.chunks_exact(cells)))
            .collect();
        let copy = |(plane, values): &(usize, &[f32])| {
            sink.fill(*plane..plane + 1, &mut |memory| {
                copy(values, memory);
                Ok(())
            })
        };
        threads::pool()?.install(|| planes.par_iter().try_for_each(copy))
    }
}

/// Positions of `some` rows among `all`; both ascending.
fn positions(all: &[usize], some: &[usize]) -> Vec<usize> {
    let mut at = 0;
    let position = |row: &usize| {
        while all[at] != *row {
            at += 1;
        }
        at
    };
    some.iter().map(position).collect()
}

/// The sink of a whole request, as the source of some of its rows sees it; copies what is kept.
struct TeeSink<'a> {
    sink: &'a dyn PlaneSink,
    cells: usize,
    channels: usize,
    /// Where each row of the source's request stands in the whole one.
    positions: Vec<usize>,
    /// Where each of them is kept.
    keep: Vec<Option<Claims<'a>>>,
}

impl TeeSink<'_> {
    /// Copies to where planes are kept.
    fn keep(&self, planes: Range<usize>, values: &[f32]) -> Result<()> {
        for (plane, values) in planes.zip(values.chunks_exact(self.cells)) {
            let (row, channel) = (plane / self.channels, plane % self.channels);
            let Some(claims) = self.keep.get(row).and_then(Option::as_ref) else {
                continue;
            };
            let memory = claims.claim(&(channel..channel + 1)).ok_or_else(|| {
                Error::new(
                    ErrorKind::Interrupted,
                    "a plane source filled a plane twice",
                )
                .found(plane)
            })?;
            copy(values, memory);
        }
        Ok(())
    }

    /// Where a plane stands in the whole request.
    fn whole(&self, plane: usize) -> usize {
        let (row, channel) = (plane / self.channels, plane % self.channels);
        let position = self.positions.get(row).copied();
        position.unwrap_or(usize::MAX / self.channels.max(1) - 1) * self.channels + channel
    }
}

impl PlaneSink for TeeSink<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let first = self.whole(planes.start);
        let together = planes
            .clone()
            .zip(first..)
            .all(|(p, at)| self.whole(p) == at);
        if together {
            return self.sink.fill(first..first + planes.len(), &mut |memory| {
                fill(memory)?;
                self.keep(planes.clone(), memory)
            });
        }
        // Rows that follow each other in the store but not in the request: one plane at a time.
        let mut values = vec![0.0; planes.len() * self.cells];
        fill(&mut values)?;
        self.keep(planes.clone(), &values)?;
        for (plane, values) in planes.zip(values.chunks_exact(self.cells)) {
            let at = self.whole(plane);
            self.sink.fill(at..at + 1, &mut |memory| {
                copy(values, memory);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// A sink that lends too little gets what fits; it is wrong already.
fn copy(from: &[f32], to: &mut [f32]) {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sink::HostPlanes;
    use crate::ocean::plane::PlaneShape;
    use crate::testing::MemorySource;

    const CELLS: usize = 3;

    fn source() -> MemorySource {
        let shape = PlaneShape { ny: 1, nx: CELLS };
        let channels = ["zos", "hfds"].map(|c| c.parse().unwrap()).to_vec();
        MemorySource::new(channels, 100, shape, |row, channel, cell| {
            (row * 100 + channel * 10 + cell) as f32
        })
    }

    /// Reads batches one after the other, checks all values, and returns the planes read by each.
    fn pass(batches: &[&[usize]], bound: u64) -> Vec<u64> {
        let (source, mut carry) = (source(), RowCarry::new(bound));
        let mut read = Vec::new();
        for (k, rows) in batches.iter().enumerate() {
            let request = PlaneRequest {
                rows,
                channels: &[1, 0],
            };
            let next = batches.get(k + 1).copied().unwrap_or_default();
            let mut memory = vec![f32::NAN; request.planes() * CELLS];
            let sink = HostPlanes::new(&mut memory, CELLS);
            let group = ReadGroup::Boundary;
            let counts = carry.read(group, &source, &request, next, &sink).unwrap();
            drop(sink);
            read.push(counts.planes);
            let of_row =
                |row: &usize| [1, 0].map(|c| [0, 1, 2].map(|x| (row * 100 + c * 10 + x) as f32));
            let expected: Vec<f32> = rows.iter().flat_map(of_row).flatten().collect();
            assert_eq!(memory, expected, "batch {k}");
        }
        assert_eq!(source.planes_read(), read.iter().sum::<u64>());
        read
    }

    #[test]
    fn consecutive_batches_read_every_row_once() {
        let batches: [&[usize]; 4] = [&[0, 1, 2, 3], &[2, 3, 4, 5], &[3, 5, 6], &[50]];
        assert_eq!(pass(&batches, u64::MAX), [8, 4, 2, 2]);
        // Row 5 skips a batch and is read again: only the next batch is known.
        assert_eq!(pass(&[&[5], &[6], &[5, 6]], u64::MAX), [2, 2, 2]);
        assert_eq!(
            pass(&[&[1, 9], &[1, 3, 5, 9], &[3, 9]], u64::MAX),
            [4, 4, 0]
        );
    }

    #[test]
    fn the_bound_holds() {
        let row = 2 * CELLS as u64 * 4;
        let batches: [&[usize]; 3] = [&[0, 1, 2, 3], &[1, 2, 3, 4], &[2, 3, 4, 5]];
        assert_eq!(pass(&batches, 0), [8, 8, 8]);
        assert_eq!(pass(&batches, row), [8, 6, 6]);
        assert_eq!(pass(&batches, 2 * row), [8, 4, 4]);
        assert_eq!(pass(&batches, 3 * row + 1), [8, 2, 2]);
    }

    #[test]
    fn another_source_and_a_failure_forget_everything() {
        let (source, mut carry) = (source(), RowCarry::new(u64::MAX));
        let read = |carry: &mut RowCarry, rows: &[usize]| {
            let mut memory = vec![0.0; rows.len() * CELLS];
            let sink = HostPlanes::new(&mut memory, CELLS);
            let request = PlaneRequest {
                rows,
                channels: &[0],
            };
            carry.read(ReadGroup::Label, &source, &request, rows, &sink)
        };
        assert_eq!(read(&mut carry, &[1, 2]).unwrap().planes, 2);
        assert_eq!(read(&mut carry, &[1, 2]).unwrap().planes, 0);
        assert!(read(&mut carry, &[1, 2, 100]).is_err());
        assert_eq!(read(&mut carry, &[1, 2]).unwrap().planes, 2);
        carry.begin(7);
        assert_eq!(read(&mut carry, &[1, 2]).unwrap().planes, 2);
    }
}
