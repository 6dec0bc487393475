//! Loading one task: the planes of one block of chunks, from files into the sink. What it costs
//! depends on how the chunk lies:
//!
//! - stored as it lies in memory, a chunk of whole planes: only the wanted planes are read, each
//!   run of them by one positioned read straight into the sink;
//! - compressed, and exactly the wanted planes in their order: decoded straight into the sink;
//! - in shards of single planes: only the wanted inner chunks are read, each straight into the
//!   sink;
//! - otherwise decoded into the thread's scratch, and the wanted part copied.
//!
//! Values that are packed or of another type than `f32` go through the scratch in every case, and are
//! unpacked from there into the sink.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::plane::{PlaneSink, PlaneSource, ReadCounts};
use crate::options::Strictness;
use crate::store::gaps::Absent;
use crate::store::om4_store::Store;
use crate::store::plane_array::{Extents, Patch, PlaneArray};
use crate::store::tasks::{ChannelSlot, PlannedPlane, ReadTask};
use crate::zarr::codec::decoders::Decoders;
use crate::zarr::codec::size::check_size;
use crate::zarr::files::back_end::{ReadBuffers, read_error};
use crate::zarr::files::chunk_files::OpenFile;
use crate::zarr::sharding::Extent;
use crate::zarr::values::blank_marks;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

/// What one thread keeps between tasks: bounded by the largest chunk and its wanted planes.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(super) names: Names,
    /// Of the back end, for encoded chunks.
    pub(super) buffers: ReadBuffers,
    pub(super) decoded: Vec<u8>,
    pub(super) planes: Vec<f32>,
    pub(super) decoders: Decoders,
}

/// Where the names of files are put together.
#[derive(Default)]
pub(super) struct Names {
    key: String,
    path: OsString,
}

/// One task being loaded.
pub(crate) struct Block<'a> {
    pub(super) store: &'a Store,
    pub(super) array: &'a PlaneArray,
    pub(super) task: &'a ReadTask,
    pub(super) counts: ReadCounts,
}

/// One chunk of a block: its indices along y and x.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub(super) y: u64,
    pub(super) x: u64,
}

/// The chunk of a block whose planes are not cut.
const ONLY: Chunk = Chunk { y: 0, x: 0 };

impl<'a> Block<'a> {
    pub(crate) fn new(store: &'a Store, task: &'a ReadTask) -> Self {
        Self {
            store,
            array: &store.arrays[task.array],
            task,
            counts: ReadCounts::default(),
        }
    }

    /// Loads the planes of the task into the sink.
    ///
    /// # Errors
    /// A missing chunk in strict mode, a chunk that cannot be read or decoded, an error of the
    /// sink.
    pub(crate) fn load(
        mut self,
        sink: &dyn PlaneSink,
        scratch: &mut Scratch,
    ) -> Result<ReadCounts> {
        self.load_planes(sink, scratch)?;
        self.counts.planes = self.task.planes.len() as u64;
        Ok(self.counts)
    }

    fn load_planes(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let array = self.array;
        let plane = self.store.shape();
        let whole = |e: &Extents| e.y == plane.ny && e.x == plane.nx;
        let as_they_lie = array.values.as_they_lie().is_some();
        if whole(&array.piece) && whole(&array.chunk) {
            let single = array.shard.is_some() && array.piece.planes() == 1;
            if array.shard.is_none() && array.codec.is_plain() {
                return match as_they_lie && self.is_whole_chunk() {
                    true => self.load_plain_chunk(sink, scratch),
                    false => self.load_plain_planes(sink, scratch),
                };
            }
            if single && as_they_lie {
                return self.load_single_planes(sink, scratch);
            }
            if array.shard.is_none() && as_they_lie && self.is_whole_chunk() {
                return self.load_whole_chunk(sink, scratch);
            }
        }
        self.load_through_scratch(sink, scratch)
    }

    /// All planes of a chunk, stored as they lie in memory.
    fn load_plain_chunk(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let chunk = ONLY;
        let Scratch { names, buffers, .. } = scratch;
        let path = self.begin(chunk, names);
        self.fill(sink, &self.task.planes, |block, out| {
            let bytes = bytemuck::cast_slice_mut(out);
            let read = block.store.files.read_whole(path, bytes, buffers);
            let Some(size) = read.map_err(|e| block.at(read_error(e), chunk))? else {
                return block.fill_in(chunk, out);
            };
            block.counts.stored_bytes += size;
            check_size(bytes.len(), clamp(size)).map_err(|e| block.at(e, chunk))
        })
    }

    /// Some planes of a chunk that is not compressed.
    fn load_plain_planes(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let chunk = ONLY;
        let array = self.array;
        let Scratch {
            names,
            buffers,
            decoded,
            ..
        } = scratch;
        let file = self.open(chunk, names)?;
        if let Some(file) = &file {
            let size = file.size().map_err(read_error);
            size.and_then(|size| check_size(array.bytes_of(&array.chunk), clamp(size)))
                .map_err(|e| self.at(e, chunk))?;
        }
        let plane_bytes = array.chunk.cells() * array.values.size();
        let place = |plane: &PlannedPlane| array.plane_of_piece(plane.row, plane.level);
        for run in stored_runs(&self.task.planes, place) {
            let offset = (place(&run[0]) * plane_bytes) as u64;
            self.fill(sink, run, |block, out| {
                let Some(file) = &file else {
                    out.fill(array.fill);
                    return Ok(());
                };
                block.counts.stored_bytes += (run.len() * plane_bytes) as u64;
                let read = match array.values.as_they_lie() {
                    Some(_) => file.read_at(bytemuck::cast_slice_mut(out), offset, buffers),
                    None => {
                        decoded.resize(run.len() * plane_bytes, 0);
                        let read = file.read_at(decoded, offset, buffers);
                        read.map(|()| array.values.unpack_into(decoded, out))
                    }
                };
                read.map_err(|e| block.at(read_error(e), chunk))
            })?;
        }
        Ok(())
    }

    /// A compressed chunk that is exactly one run of the request.
    fn load_whole_chunk(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let chunk = ONLY;
        let planes = &self.task.planes;
        let array = self.array;
        let Scratch {
            names,
            buffers,
            decoders,
            ..
        } = scratch;
        let path = self.begin(chunk, names);
        self.fill(sink, planes, |block, out| {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
            let likely = bytes.len();
            let mut decode = |encoded: &[u8]| array.codec.decode_into(encoded, bytes, decoders);
            let files = &block.store.files;
            let read = files.decode_whole(path, likely, buffers, &mut decode);
            match read.map_err(|e| block.at(e, chunk))? {
                Some(size) => block.counts.stored_bytes += size,
                None => block.fill_in(chunk, out)?,
            }
            Ok(())
        })
    }

    /// A shard whose inner chunks are single planes.
    fn load_single_planes(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
        let array = self.array;
        let Some(shard) = &array.shard else {
            return self.load_through_scratch(sink, scratch);
        };
        let Scratch {
            names,
            buffers,
            decoders,
            ..
        } = scratch;
        let chunk = ONLY;
        let file = self.open(chunk, names)?;
        let index = match &file {
            None => None,
            Some(file) => {
                let stored = &mut self.counts.stored_bytes;
                let index = shard.read_index(file, buffers, stored);
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
                        let absent = Absent {
                            inner: Some(&place),
                            ..block.absent(chunk)
                        };
                        block.missing(chunk, absent, [plane])?;
                        out.fill(array.fill);
                        continue;
                    };
                    let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
                    let read = if array.codec.is_plain() {
                        block.load_plain_extent(file, extent, bytes, buffers)
                    } else {
                        block
                            .load_extent(file, extent, buffers)
                            .and_then(|encoded| array.codec.decode_into(encoded, bytes, decoders))
                    };
                    read.map_err(|e| block.at(e.row(plane.row), chunk))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The general case: parts of planes, or some planes of a compressed chunk.
    fn load_through_scratch(&mut self, sink: &dyn PlaneSink, scratch: &mut Scratch) -> Result<()> {
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
    pub(super) fn inside(&self, plane: &PlannedPlane) -> (usize, usize) {
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
            if let Some(marks) = self.array.values.as_they_lie() {
                blank_marks(out, marks);
            }
            Ok(())
        })
    }

    /// Counts a chunk and says where it lies.
    pub(super) fn begin<'n>(&mut self, chunk: Chunk, names: &'n mut Names) -> &'n Path {
        self.counts.chunks += 1;
        self.write_key(chunk, &mut names.key);
        let storage = &self.store.storage;
        storage.path_of_own(&names.key, &mut names.path)
    }

    /// Opens a chunk that is read in parts, and counts it; `None` when it is not there and need not
    /// be.
    pub(super) fn open(&mut self, chunk: Chunk, names: &mut Names) -> Result<Option<OpenFile>> {
        let file = self.store.files.open(self.begin(chunk, names));
        let file = file.map_err(|e| self.at(read_error(e), chunk))?;
        if file.is_none() {
            self.missing(chunk, self.absent(chunk), &self.task.planes)?;
        }
        Ok(file)
    }

    /// The planes of a whole chunk that is not there, where it need not be.
    fn fill_in(&mut self, chunk: Chunk, out: &mut [f32]) -> Result<()> {
        self.missing(chunk, self.absent(chunk), &self.task.planes)?;
        out.fill(self.array.fill);
        Ok(())
    }

    fn write_key(&self, chunk: Chunk, key: &mut String) {
        let (time, level) = (self.task.time_chunk, self.task.level_chunk);
        self.array.write_key([time, level, chunk.y, chunk.x], key);
    }

    /// A whole chunk that is not there.
    pub(super) fn absent(&self, chunk: Chunk) -> Absent<'a> {
        let Extents { y: ny, x: nx, .. } = self.array.chunk;
        let patch = Patch {
            y: chunk.y as usize * ny,
            x: chunk.x as usize * nx,
            ny,
            nx,
        };
        Absent {
            array: self.array,
            inner: None,
            patch,
        }
    }

    /// What a chunk, or an inner chunk, that is not there takes from these planes: an error, or an
    /// event, unless it is nothing but land.
    pub(super) fn missing<'p>(
        &mut self,
        chunk: Chunk,
        absent: Absent<'_>,
        planes: impl IntoIterator<Item = &'p PlannedPlane>,
    ) -> Result<()> {
        let masks = self.store.masks();
        let lost = planes.into_iter().find_map(|plane| {
            let channel = self.store.channel_at(ChannelSlot {
                array: self.task.array,
                level: plane.level,
            });
            Some(absent.loss(masks, channel)?.row(plane.row))
        });
        let Some(lost) = lost else {
            return Ok(());
        };
        let missing = self.at(lost, chunk);
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
    pub(super) fn load_extent<'b>(
        &mut self,
        file: &'b OpenFile,
        extent: Extent,
        buffers: &'b mut ReadBuffers,
    ) -> Result<&'b [u8]> {
        let length = usize::try_from(extent.length)
            .map_err(|e| Error::new(ErrorKind::Corrupt, "a chunk is too large").caused_by(e))?;
        self.counts.stored_bytes += extent.length;
        file.bytes_at(extent.offset, length, buffers)
            .map_err(read_error)
    }

    /// Reads an extent that is stored as it lies in memory.
    fn load_plain_extent(
        &mut self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
        buffers: &mut ReadBuffers,
    ) -> Result<()> {
        check_size(out.len(), clamp(extent.length))?;
        self.counts.stored_bytes += extent.length;
        file.read_at(out, extent.offset, buffers)
            .map_err(read_error)
    }

    /// Names the place of an error.
    pub(super) fn at(&self, e: Error, chunk: Chunk) -> Error {
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
