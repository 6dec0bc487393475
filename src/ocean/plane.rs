//! The seam between what knows stores and what knows devices: fill these planes.

use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::sync::{into_inner, lock};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// Which planes to read: every row × every channel, plane index = row position × channels + channel
/// position.
#[derive(Clone, Copy, Debug)]
pub struct PlaneRequest<'a> {
    /// Rows of the store's time axis.
    pub rows: &'a [usize],
    /// Positions in [`PlaneSource::channels`].
    pub channels: &'a [usize],
}

impl PlaneRequest<'_> {
    /// Planes asked for.
    pub fn planes(&self) -> usize {
        self.rows.len() * self.channels.len()
    }

    /// Checks the request against what a source has: the first thing to do in
    /// [`PlaneSource::read`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): a row or a channel that is not there.
    pub fn check(&self, source: &dyn PlaneSource) -> Result<()> {
        let (rows, channels) = (source.rows(), source.channels().len());
        if let Some(&row) = self.rows.iter().find(|&&row| row >= rows) {
            return Err(Error::config("a time row is not there")
                .row(row)
                .expected(format!("a row below {rows}"))
                .found(row));
        }
        match self.channels.iter().find(|&&channel| channel >= channels) {
            Some(channel) => Err(Error::config("a channel is not there")
                .expected(format!("a position below {channels}"))
                .found(channel)),
            None => Ok(()),
        }
    }
}

/// Extent of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlaneShape {
    /// Rows, south to north in OM4; the slow axis.
    pub ny: usize,
    /// Columns, west to east; the fast axis.
    pub nx: usize,
}

impl PlaneShape {
    /// Values in a plane.
    pub fn cells(&self) -> usize {
        self.ny * self.nx
    }
}

/// What a read did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReadCounts {
    /// Planes filled.
    pub planes: u64,
    /// Chunks opened, missing ones included.
    pub chunks: u64,
    /// Compressed bytes as stored.
    pub stored_bytes: u64,
    /// Chunks that were not there and were taken as fill (lenient mode only).
    pub missing_chunks: u64,
}

impl ReadCounts {
    /// Adds what another read did.
    pub fn add(&mut self, other: &Self) {
        self.planes += other.planes;
        self.chunks += other.chunks;
        self.stored_bytes += other.stored_bytes;
        self.missing_chunks += other.missing_chunks;
    }
}

/// Where planes go. Implemented by host buffers (planes side by side) and by the CPU path (scratch,
/// prepared at once).
pub trait PlaneSink: Sync {
    /// Lends memory for the consecutive `planes` of the request (`planes.len() * ny * nx` values, C
    /// order, holding anything) to `fill`. When `fill` returns `Ok`, the planes are complete. Each
    /// plane is filled at most once.
    ///
    /// # Errors
    /// What `fill` returned; planes that are not of the request or were lent before.
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()>;
}

/// Anything that can fill planes: a local store, a tier over one, a test double.
///
/// Values are `f32` in the channel's own unit, `(y, x)` in C order, neither normalised nor masked; NaN
/// where there is none. A source is pure: the same plane has the same values whenever it is read.
pub trait PlaneSource: Send + Sync {
    /// The channels it has, each once.
    fn channels(&self) -> &[Channel];

    /// Rows on the time axis.
    fn rows(&self) -> usize;

    /// Extent of every plane.
    fn shape(&self) -> PlaneShape;

    /// Where the planes lie, for messages; `None` where that is no path. A wrapper passes on what it
    /// wraps.
    fn location(&self) -> Option<&Path> {
        None
    }

    /// Reads every plane of the request into `sink`, exactly once each. Validates the whole request
    /// before the first read. When it returns - `Ok`, `Err` or by panic - no thread still writes.
    ///
    /// # Errors
    /// A row or position that is not there ([`ErrorKind::Config`](crate::ErrorKind::Config)); a plane
    /// that cannot be read; what the sink returned.
    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts>;

    /// Chunks that `read` would read.
    ///
    /// # Errors
    /// A row or position that is not there.
    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64>;
}

/// Planes side by side, in the order of the request; for a few of them.
///
/// # Errors
/// Those of the source, and one that does not fill every plane.
pub(crate) fn read_planes(
    source: &dyn PlaneSource,
    rows: &[usize],
    channels: &[usize],
) -> Result<Vec<f32>> {
    let request = PlaneRequest { rows, channels };
    let sink = EachPlane {
        cells: source.shape().cells(),
        planes: Mutex::new(vec![None; request.planes()]),
    };
    source.read(&request, &sink)?;
    let planes: Option<Vec<_>> = into_inner(sink.planes).into_iter().collect();
    let planes = planes.ok_or_else(|| Error::config("a plane source did not fill every plane"))?;
    Ok(planes.concat())
}

/// Every plane by itself.
struct EachPlane {
    cells: usize,
    planes: Mutex<Vec<Option<Vec<f32>>>>,
}

impl PlaneSink for EachPlane {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        // Not in place: `fill` may come back here on the same thread.
        let mut memory = vec![f32::NAN; planes.len() * self.cells];
        fill(&mut memory)?;
        let mut filled = lock(&self.planes);
        for (plane, values) in planes.zip(memory.chunks_exact(self.cells)) {
            let place = filled.get_mut(plane).ok_or_else(|| {
                Error::config("a plane source filled a plane that was not asked for").found(plane)
            })?;
            *place = Some(values.to_vec());
        }
        Ok(())
    }
}
