//! Reading the planes of a store: tasks on the shared pool, each chunk read and decoded once.
//!
//! A task is one block of chunks (`plan::read_tasks`). What it costs depends on how the chunk lies:
//!
//! - stored as it lies in memory, a chunk of whole planes: only the wanted planes are read, each run
//!   of them by one positioned read straight into the sink;
//! - compressed, and exactly the wanted planes in their order: decoded straight into the sink;
//! - in shards of single planes: only the wanted inner chunks are read, each straight into the sink;
//! - otherwise decoded into the thread's scratch, and the wanted part copied.

use crate::error::{Error, ErrorKind, Result, panic_text};
use crate::ocean::channel::Channel;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use crate::options::Strictness;
use crate::store::om4_store::Store;
use crate::store::plane_array::PlaneArray;
use crate::store::tasks::{ChannelSlot, PlannedPlane, ReadTask, read_tasks};
use crate::threads;
use crate::zarr::chunk_codec::Decoders;
use crate::zarr::codec::size::check_size;
use crate::zarr::files::open_file::{OpenFile, ReadBuffers, read_error};
use crate::zarr::sharding::Extent;
use rayon::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one thread keeps between tasks: bounded by the largest chunk and its wanted planes.
#[derive(Default)]
struct Scratch {
    names: Names,
    /// Of the back end, for encoded chunks.
    room: ReadBuffers,
    decoded: Vec<u8>,
    planes: Vec<f32>,
    decoders: Decoders,
}

/// Where the names of files are put together.
#[derive(Default)]
struct Names {
    key: String,
    path: OsString,
}

thread_local! {
    /// Taken out while in use: a sink that runs Rayon inside `fill` may start another task on the
    /// same thread, which then simply begins with an empty scratch.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl PlaneSource for Store {
    fn channels(&self) -> &[Channel] {
        self.channels()
    }

    fn rows(&self) -> usize {
        self.time().len()
    }

    fn shape(&self) -> PlaneShape {
        self.grid().shape()
    }

    /// Reads on the pool of [`pool`](crate::store::set_reader_threads); safe to call from inside another
    /// Rayon pool.
    ///
    /// # Errors
    /// The first failure in the order of the request's chunks, whatever the threads did: a row or
    /// channel that is not there (before anything is read), a missing chunk in strict mode, a chunk
    /// that cannot be read or decoded, an error of the sink, or a panic
    /// ([`ErrorKind::Interrupted`]).
    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let tasks = self.tasks(request)?;
        let pool = threads::pool()?;
        // Tasks after the first known failure are not begun. Those before it always run, so that the
        // failure returned does not depend on who was quicker.
        let first_failure = AtomicUsize::new(usize::MAX);
        let run = |(index, task): (usize, &ReadTask)| {
            if index > first_failure.load(Ordering::Relaxed) {
                return Ok(ReadCounts::default());
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run(task, sink)));
            outcome
                .unwrap_or_else(|panic| Err(self.panicked(task, &*panic)))
                .map_err(|e| {
                    first_failure.fetch_min(index, Ordering::Relaxed);
                    (index, e)
                })
        };
        let outcomes: Vec<_> = pool.install(|| tasks.par_iter().enumerate().map(run).collect());
        let mut counts = ReadCounts::default();
        let mut failure: Option<(usize, Error)> = None;
        for outcome in outcomes {
            match outcome {
                Ok(one) => counts.add(&one),
                Err(one) if failure.as_ref().is_none_or(|f| one.0 < f.0) => failure = Some(one),
                Err(_) => {}
            }
        }
        match failure {
            None => Ok(counts),
            Some((_, e)) => Err(e),
        }
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        Ok(self.tasks(request)?.iter().map(|task| task.chunks).sum())
    }
}

impl Store {
    /// Validates a request and groups its planes by chunk.
    fn tasks(&self, request: &PlaneRequest<'_>) -> Result<Vec<ReadTask>> {
        let slots: Vec<ChannelSlot> = request
            .channels
            .iter()
            .map(|&position| {
                self.slots.get(position).copied().ok_or_else(|| {
                    Error::config("a channel is not there")
                        .expected(format!("a position below {}", self.slots.len()))
                        .found(position)
                })
            })
            .collect::<Result<_>>()
            .map_err(|e| e.store(self.path()))?;
        read_tasks(&self.layouts, &slots, request.rows).map_err(|e| e.store(self.path()))
    }

    fn run(&self, task: &ReadTask, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let mut block = Block {
            store: self,
            array: &self.arrays[task.array],
            task,
            counts: ReadCounts::default(),
        };
        let outcome = block.read(sink, &mut scratch);
        SCRATCH.set(Some(scratch));
        outcome.map(|()| {
            block.counts.planes = task.planes.len() as u64;
            block.counts
        })
    }

    fn panicked(&self, task: &ReadTask, panic: &(dyn Any + Send)) -> Error {
        let text = panic_text(panic);
        let array = &self.arrays[task.array];
        Error::new(ErrorKind::Interrupted, format!("a reader panicked: {text}"))
            .store(self.path())
            .array(&array.layout.name)
            .row(task.planes.first().map_or(0, |p| p.row))
    }
}

/// One task being read.
struct Block<'a> {
    store: &'a Store,
    array: &'a PlaneArray,
    task: &'a ReadTask,
    counts: ReadCounts,
}

/// One chunk of a block: its indices along y and x.
#[derive(Clone, Copy)]
struct Chunk {
    y: u64,
    x: u64,
}

/// The chunk of a block whose planes are not cut.
const ONLY: Chunk = Chunk { y: 0, x: 0 };

impl Block<'_> {
    fn read(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let array = self.array;
        let plane = self.store.shape();
        let whole = |e: &crate::store::plane_array::Extents| e.y == plane.ny && e.x == plane.nx;
        if whole(&array.piece) && whole(&array.chunk) {
            let single = array.shard.is_some() && array.piece.planes() == 1;
            if array.shard.is_none() && array.codec.is_plain() {
                return self.read_plain(sink, scratch);
            }
            if single {
                return self.read_single_planes(sink, scratch);
            }
            if array.shard.is_none() && self.is_whole_chunk() {
                return self.read_whole_chunk(sink, scratch);
            }
        }
        self.read_through_scratch(sink, scratch)
    }

    /// Whole planes, stored as they lie in memory.
    fn read_plain(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let chunk = ONLY;
        let planes = &self.task.planes;
        let array = self.array;
        let Scratch { names, room, .. } = scratch;
        if self.is_whole_chunk() {
            let path = self.begin(chunk, names);
            return self.fill(sink, planes, |block, out| {
                let bytes = bytemuck::cast_slice_mut(out);
                let read = block.store.files.read_whole(path, bytes, room);
                let Some(size) = read.map_err(|e| block.at(read_error(e), chunk))? else {
                    return block.fill_in(chunk, out);
                };
                block.counts.stored_bytes += size;
                check_size(bytes.len(), clamp(size)).map_err(|e| block.at(e, chunk))
            });
        }
        let file = self.open(chunk, names)?;
        if let Some(file) = &file {
            let size = file.size().map_err(read_error);
            size.and_then(|size| check_size(array.chunk.bytes(), clamp(size)))
                .map_err(|e| self.at(e, chunk))?;
        }
        let cells = array.chunk.cells();
        let place = |plane: &PlannedPlane| array.plane_of_piece(plane.row, plane.level);
        for run in stored_runs(planes, place) {
            let first = place(&run[0]);
            self.fill(sink, run, |block, out| {
                let Some(file) = &file else {
                    out.fill(array.fill);
                    return Ok(());
                };
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
                block.counts.stored_bytes += bytes.len() as u64;
                file.read_at(bytes, (first * cells * 4) as u64, room)
                    .map_err(|e| block.at(read_error(e), chunk))
            })?;
        }
        Ok(())
    }

    /// A compressed chunk that is exactly one run of the request.
    fn read_whole_chunk(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let chunk = ONLY;
        let planes = &self.task.planes;
        let array = self.array;
        let Scratch {
            names,
            room,
            decoders,
            ..
        } = scratch;
        let path = self.begin(chunk, names);
        self.fill(sink, planes, |block, out| {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
            let likely = bytes.len();
            let mut decode = |encoded: &[u8]| array.codec.decode_into(encoded, bytes, decoders);
            let files = &block.store.files;
            let read = files.decode_whole(path, likely, room, &mut decode);
            match read.map_err(|e| block.at(e, chunk))? {
                Some(size) => block.counts.stored_bytes += size,
                None => block.fill_in(chunk, out)?,
            }
            Ok(())
        })
    }

    /// A shard whose inner chunks are single planes.
    fn read_single_planes(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let array = self.array;
        let Some(shard) = &array.shard else {
            return self.read_through_scratch(sink, scratch);
        };
        let Scratch {
            names,
            room,
            decoders,
            ..
        } = scratch;
        let chunk = ONLY;
        let file = self.open(chunk, names)?;
        let index = match &file {
            None => None,
            Some(file) => {
                let stored = &mut self.counts.stored_bytes;
                let index = shard.read_index(file, room, stored);
                Some(index.map_err(|e| self.at(e, chunk))?)
            }
        };
        for run in runs(&self.task.planes) {
            let cells = array.chunk.cells();
            self.fill(sink, run, |block, out| {
                for (plane, out) in std::iter::zip(run, out.chunks_exact_mut(cells)) {
                    let (Some(file), Some(index)) = (&file, &index) else {
                        out.fill(array.fill);
                        continue;
                    };
                    let inside = block.inside(plane);
                    let place = array.in_order(inside.0 as u64, inside.1 as u64, 0, 0);
                    let Some(extent) = index[shard.position(&place)] else {
                        block.missing(chunk, Some(&place), plane.row)?;
                        out.fill(array.fill);
                        continue;
                    };
                    let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
                    let read = match array.codec.is_plain() {
                        true => block.load_plain(file, extent, bytes, room),
                        false => block
                            .load(file, extent, room)
                            .and_then(|encoded| array.codec.decode_into(encoded, bytes, decoders)),
                    };
                    read.map_err(|e| block.at(e.row(plane.row), chunk))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The general case: parts of planes, or some planes of a compressed chunk.
    fn read_through_scratch(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let planes = &self.task.planes;
        if runs(planes).count() == 1 {
            return self.fill(sink, planes, |block, out| block.assemble(out, scratch));
        }
        // Runs that are apart in the sink cannot be lent at once: put them together here first.
        let shape = self.store.shape();
        let cells = shape.ny * shape.nx;
        let mut together = std::mem::take(&mut scratch.planes);
        together.resize(planes.len() * cells, 0.0);
        let outcome = self.assemble(&mut together, scratch).and_then(|()| {
            let mut rest = &together[..];
            for run in runs(planes) {
                let (values, after) = rest.split_at(run.len() * cells);
                rest = after;
                self.fill(sink, run, |_, out| {
                    out.copy_from_slice(values);
                    Ok(())
                })?;
            }
            Ok(())
        });
        scratch.planes = together;
        outcome
    }

    /// Puts all planes of the task side by side into `out`, chunk by chunk.
    fn assemble(&mut self, out: &mut [f32], scratch: &mut Scratch) -> Result<()> {
        let shape = self.store.shape();
        let chunk = self.array.chunk;
        for y in 0..shape.ny.div_ceil(chunk.y) {
            for x in 0..shape.nx.div_ceil(chunk.x) {
                let (y, x) = (y as u64, x as u64);
                self.assemble_chunk(Chunk { y, x }, out, scratch)?;
            }
        }
        Ok(())
    }

    fn assemble_chunk(
        &mut self,
        chunk: Chunk,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let array = self.array;
        let planes = &self.task.planes;
        let origin = (
            chunk.y as usize * array.chunk.y,
            chunk.x as usize * array.chunk.x,
        );
        let Scratch {
            names,
            room,
            decoded,
            decoders,
            ..
        } = scratch;
        let Some(shard) = &array.shard else {
            let path = self.begin(chunk, names);
            let size = array.piece.bytes();
            let block = &*self;
            let mut decode = |encoded: &[u8]| {
                let values = array.codec.decode(encoded, size, decoded, decoders)?;
                for (i, plane) in planes.iter().enumerate() {
                    block.copy(out, i, origin, plane, &values);
                }
                Ok(())
            };
            let files = &block.store.files;
            let read = files.decode_whole(path, size, room, &mut decode);
            match read.map_err(|e| self.at(e, chunk))? {
                Some(size) => self.counts.stored_bytes += size,
                None => {
                    self.missing(chunk, None, planes[0].row)?;
                    self.blank_all(out, origin);
                }
            }
            return Ok(());
        };
        let Some(file) = self.open(chunk, names)? else {
            self.blank_all(out, origin);
            return Ok(());
        };
        let index = shard
            .read_index(&file, room, &mut self.counts.stored_bytes)
            .map_err(|e| self.at(e, chunk))?;
        // Planes by the inner chunk that holds them along time and level.
        let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, plane) in planes.iter().enumerate() {
            let (time, level) = self.inside(plane);
            let group = (time / array.piece.time, level / array.piece.level);
            groups.entry(group).or_default().push(i);
        }
        let shape = self.store.shape();
        let extent = (array.piece.y, array.piece.x);
        for ((time, level), members) in groups {
            let row = planes[members[0]].row;
            for y in 0..array.chunk.y / array.piece.y {
                for x in 0..array.chunk.x / array.piece.x {
                    let origin = (origin.0 + y * extent.0, origin.1 + x * extent.1);
                    if origin.0 >= shape.ny || origin.1 >= shape.nx {
                        continue;
                    }
                    let place = array.in_order(time as u64, level as u64, y as u64, x as u64);
                    let Some(at) = index[shard.position(&place)] else {
                        self.missing(chunk, Some(&place), row)?;
                        for i in &members {
                            self.blank(out, *i, origin, extent);
                        }
                        continue;
                    };
                    let encoded = self
                        .load(&file, at, room)
                        .map_err(|e| self.at(e.row(row), chunk))?;
                    let values = array
                        .codec
                        .decode(encoded, array.piece.bytes(), decoded, decoders)
                        .map_err(|e| self.at(e.row(row), chunk))?;
                    for i in &members {
                        self.copy(out, *i, origin, &planes[*i], &values);
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies part of a plane out of a decoded piece; what the piece has beyond the grid is left.
    fn copy(
        &self,
        out: &mut [f32],
        plane: usize,
        origin: (usize, usize),
        from: &PlannedPlane,
        values: &[u8],
    ) {
        let shape = self.store.shape();
        let piece = &self.array.piece;
        let from = self.array.plane_of_piece(from.row, from.level);
        let columns = piece.x.min(shape.nx - origin.1);
        for y in 0..piece.y.min(shape.ny - origin.0) {
            let to = (plane * shape.ny + origin.0 + y) * shape.nx + origin.1;
            let at = (from * piece.cells() + y * piece.x) * 4;
            let row: &mut [u8] = bytemuck::cast_slice_mut(&mut out[to..to + columns]);
            row.copy_from_slice(&values[at..at + columns * 4]);
        }
    }

    /// Writes the fill value into part of a plane.
    fn blank(&self, out: &mut [f32], plane: usize, origin: (usize, usize), extent: (usize, usize)) {
        let shape = self.store.shape();
        let columns = extent.1.min(shape.nx - origin.1);
        for y in 0..extent.0.min(shape.ny - origin.0) {
            let to = (plane * shape.ny + origin.0 + y) * shape.nx + origin.1;
            out[to..to + columns].fill(self.array.fill);
        }
    }

    /// Writes the fill value into every plane, where a chunk should be.
    fn blank_all(&self, out: &mut [f32], origin: (usize, usize)) {
        for i in 0..self.task.planes.len() {
            self.blank(out, i, origin, (self.array.chunk.y, self.array.chunk.x));
        }
    }

    /// Whether the task wants every plane of its chunk, in the order they lie in, side by side.
    fn is_whole_chunk(&self) -> bool {
        let planes = &self.task.planes;
        let in_place = |(i, plane): (usize, &PlannedPlane)| {
            plane.plane == planes[0].plane + i
                && self.array.plane_of_piece(plane.row, plane.level) == i
        };
        planes.len() == self.array.chunk.planes() && planes.iter().enumerate().all(in_place)
    }

    /// Where a plane lies inside the task's chunk along time and level.
    fn inside(&self, plane: &PlannedPlane) -> (usize, usize) {
        let chunk = &self.array.chunk;
        (plane.row % chunk.time, plane.level % chunk.level)
    }

    /// Lends the sink's memory for a run of planes, checks its size, and turns marks into NaN.
    fn fill(
        &mut self,
        sink: &dyn PlaneSink,
        run: &[PlannedPlane],
        mut read: impl FnMut(&mut Self, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let Some(first) = run.first() else {
            return Ok(());
        };
        let range: Range<usize> = first.plane..first.plane + run.len();
        let shape = self.store.shape();
        let size = run.len() * shape.ny * shape.nx;
        sink.fill(range, &mut |out| {
            if out.len() != size {
                return Err(Error::config("a sink lent memory of the wrong size")
                    .expected(format!("{size} values"))
                    .found(format!("{} values", out.len())));
            }
            read(self, out)?;
            for mark in &self.array.marks {
                for value in &mut *out {
                    *value = if *value == *mark { f32::NAN } else { *value };
                }
            }
            Ok(())
        })
    }

    /// Counts a chunk and says where it lies.
    fn begin<'n>(&mut self, chunk: Chunk, names: &'n mut Names) -> &'n Path {
        self.counts.chunks += 1;
        self.write_key(chunk, &mut names.key);
        let storage = &self.store.storage;
        storage.path_of_own(&names.key, &mut names.path)
    }

    /// Opens a chunk that is read in parts, and counts it; `None` when it is not there and need not
    /// be.
    fn open(&mut self, chunk: Chunk, names: &mut Names) -> Result<Option<OpenFile>> {
        let file = self.store.files.open(self.begin(chunk, names));
        let file = file.map_err(|e| self.at(read_error(e), chunk))?;
        if file.is_none() {
            self.missing(chunk, None, self.task.planes[0].row)?;
        }
        Ok(file)
    }

    /// The planes of a whole chunk that is not there, where it need not be.
    fn fill_in(&mut self, chunk: Chunk, out: &mut [f32]) -> Result<()> {
        self.missing(chunk, None, self.task.planes[0].row)?;
        out.fill(self.array.fill);
        Ok(())
    }

    fn write_key(&self, chunk: Chunk, key: &mut String) {
        let (time, level) = (self.task.time_chunk, self.task.level_chunk);
        self.array.write_key([time, level, chunk.y, chunk.x], key);
    }

    /// A chunk, or an inner chunk, that is not there: an error, or an event.
    fn missing(&mut self, chunk: Chunk, inner: Option<&[u64]>, row: usize) -> Result<()> {
        let message = match inner {
            None => "a chunk is not there".to_owned(),
            Some(indices) => format!("inner chunk {indices:?} of a shard is not there"),
        };
        let missing = self.at(Error::new(ErrorKind::MissingChunk, message).row(row), chunk);
        match self.store.strictness() {
            Strictness::Strict => Err(missing),
            Strictness::Lenient => {
                self.counts.missing_chunks += 1;
                self.store.note_missing(missing.to_string());
                Ok(())
            }
        }
    }

    /// The bytes of an extent of a chunk's file.
    fn load<'b>(
        &mut self,
        file: &'b OpenFile,
        extent: Extent,
        room: &'b mut ReadBuffers,
    ) -> Result<&'b [u8]> {
        let length = usize::try_from(extent.length)
            .map_err(|e| Error::new(ErrorKind::Corrupt, "a chunk is too large").caused_by(e))?;
        self.counts.stored_bytes += extent.length;
        file.bytes_at(extent.offset, length, room)
            .map_err(read_error)
    }

    /// Reads an extent that is stored as it lies in memory.
    fn load_plain(
        &mut self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
        room: &mut ReadBuffers,
    ) -> Result<()> {
        check_size(out.len(), clamp(extent.length))?;
        self.counts.stored_bytes += extent.length;
        file.read_at(out, extent.offset, room).map_err(read_error)
    }

    /// Names the place of an error.
    fn at(&self, e: Error, chunk: Chunk) -> Error {
        let name = &self.array.layout.name;
        let mut key = String::new();
        self.write_key(chunk, &mut key);
        let key = key.strip_prefix(name.as_str()).unwrap_or(&key);
        e.store(self.store.path())
            .array(name)
            .chunk(key.trim_start_matches('/'))
            .row(self.task.planes[0].row)
    }
}

fn clamp(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Cuts planes into runs that are side by side in the request.
fn runs(planes: &[PlannedPlane]) -> impl Iterator<Item = &[PlannedPlane]> {
    planes.chunk_by(|a, b| a.plane + 1 == b.plane)
}

/// Cuts planes into runs that are side by side in the request and in the chunk.
fn stored_runs(
    planes: &[PlannedPlane],
    place: impl Fn(&PlannedPlane) -> usize,
) -> impl Iterator<Item = &[PlannedPlane]> {
    planes.chunk_by(move |a, b| a.plane + 1 == b.plane && place(a) + 1 == place(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_side_by_side_in_request_and_chunk() {
        let plane = |plane, level| PlannedPlane {
            plane,
            row: 0,
            level,
        };
        let planes = [
            plane(0, 0),
            plane(1, 1),
            plane(2, 3),
            plane(5, 4),
            plane(6, 5),
        ];
        let lengths: Vec<usize> = stored_runs(&planes, |p| p.level).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 2]);
        let lengths: Vec<usize> = runs(&planes).map(<[_]>::len).collect();
        assert_eq!(lengths, [3, 2]);
        // The same row asked for twice: side by side in the request, not in the chunk.
        let twice = [plane(0, 0), plane(1, 0)];
        assert_eq!(stored_runs(&twice, |p| p.level).count(), 2);
    }
}
