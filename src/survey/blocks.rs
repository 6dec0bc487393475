//! The planes of a store, block by block: each chunk is read once, and what came of a plane is handed on
//! in the order of the planes, whatever the threads did.

use crate::error::Result;
use crate::ocean::plane::{PlaneRequest, PlaneSink, PlaneSource};
use crate::store::om4_store::Store;
use crate::sync::{into_inner, lock};
use std::ops::Range;
use std::sync::Mutex;

/// Planes of a block, at least: enough for every reader thread.
const PLANES: usize = 512;

/// Rows that are read together: whole chunks of every array, and enough planes.
pub(super) fn block_rows(store: &Store, channels: usize) -> usize {
    let chunks = store.arrays.iter().map(|array| array.chunk.time);
    let chunk = chunks.max().unwrap_or(1).min(store.rows());
    PLANES.div_ceil(channels.max(1)).next_multiple_of(chunk)
}

/// `rows` cut into blocks that end where chunks do.
pub(super) fn blocks(rows: Range<usize>, block: usize) -> impl Iterator<Item = Range<usize>> {
    let cuts = (rows.start / block)..rows.end.div_ceil(block);
    cuts.map(move |at| (at * block).max(rows.start)..((at + 1) * block).min(rows.end))
}

/// What `of` makes of each plane of a request, in its order. `of` gets the plane's position in the
/// request and its values, and runs on the reader threads.
///
/// # Errors
/// As [`PlaneSource::read`].
pub(super) fn each_plane<T: Send + Default + Clone>(
    store: &Store,
    request: &PlaneRequest<'_>,
    of: impl Fn(usize, &[f32]) -> T + Sync,
) -> Result<Vec<T>> {
    let sink = Each {
        cells: store.shape().cells(),
        of,
        spare: Mutex::new(Vec::new()),
        results: Mutex::new(vec![T::default(); request.planes()]),
    };
    store.read(request, &sink)?;
    Ok(into_inner(sink.results))
}

struct Each<T, F> {
    cells: usize,
    of: F,
    /// Memory of planes, at most one per thread.
    spare: Mutex<Vec<Vec<f32>>>,
    results: Mutex<Vec<T>>,
}

impl<T: Send, F: Fn(usize, &[f32]) -> T + Sync> PlaneSink for Each<T, F> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let mut memory = lock(&self.spare).pop().unwrap_or_default();
        // Holding anything is allowed.
        memory.resize(planes.len() * self.cells, 0.0);
        fill(&mut memory)?;
        let values = memory.chunks_exact(self.cells);
        let found: Vec<T> = std::iter::zip(planes.clone(), values)
            .map(|(plane, values)| (self.of)(plane, values))
            .collect();
        lock(&self.spare).push(memory);
        let mut results = lock(&self.results);
        for (plane, found) in std::iter::zip(planes, found) {
            results[plane] = found;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_chunks_do() {
        let cut: Vec<_> = blocks(3..11, 4).collect();
        assert_eq!(cut, [3..4, 4..8, 8..11]);
        assert!(blocks(0..4, 4).eq(std::iter::once(0..4)));
        assert!(blocks(5..6, 100).eq(std::iter::once(5..6)));
    }
}
