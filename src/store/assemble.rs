//! Planes put together from the chunks, or inner chunks, that hold parts of them.

use crate::error::Result;
use crate::ocean::plane::PlaneSource;
use crate::store::gaps::Absent;
use crate::store::load::{Block, Chunk, Scratch};
use crate::store::plane_array::{Extents, Patch};
use crate::store::tasks::PlannedPlane;
use crate::zarr::chunk_keys::Indices;
use crate::zarr::files::chunk_files::OpenFile;
use crate::zarr::sharding::{Extent, Sharding};
use std::collections::BTreeMap;

/// A cell of a plane.
#[derive(Clone, Copy)]
struct Cell {
    y: usize,
    x: usize,
}

/// A chunk inside a shard.
struct InnerChunk {
    /// The shard.
    chunk: Chunk,
    /// Its indices within the shard.
    place: Indices,
    /// Where it lies in the shard's file, if it is there.
    extent: Option<Extent>,
    /// Its first cell in the plane.
    origin: Cell,
}

impl Block<'_> {
    /// Puts all planes of the task side by side into `out`, chunk by chunk.
    pub(super) fn assemble(&mut self, out: &mut [f32], scratch: &mut Scratch) -> Result<()> {
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

    /// Puts what a chunk has of each plane into its place in `out`.
    fn assemble_chunk(
        &mut self,
        chunk: Chunk,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let Some(shard) = &self.array.shard {
            return self.assemble_shard(shard, chunk, out, scratch);
        }
        let array = self.array;
        let planes = &self.task.planes;
        let origin = self.origin(chunk);
        let Scratch {
            names,
            buffers,
            decoded,
            decoders,
            ..
        } = scratch;
        let path = self.begin(chunk, names);
        let size = array.bytes_of(&array.piece);
        let block = &*self;
        let mut decode = |encoded: &[u8]| {
            let values = array.codec.decode(encoded, size, decoded, decoders)?;
            for (i, plane) in planes.iter().enumerate() {
                block.copy(out, i, origin, plane, &values);
            }
            Ok(())
        };
        let files = &block.store.files;
        let read = files.decode_whole(path, size, buffers, &mut decode);
        match read.map_err(|e| self.at(e, chunk))? {
            Some(size) => self.counts.stored_bytes += size,
            None => {
                self.missing(chunk, self.absent(chunk), planes)?;
                self.blank_all(out, origin);
            }
        }
        Ok(())
    }

    /// The same for a shard: only the inner chunks that hold wanted planes are read.
    fn assemble_shard(
        &mut self,
        shard: &Sharding,
        chunk: Chunk,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let array = self.array;
        let origin = self.origin(chunk);
        let Some(file) = self.open(chunk, &mut scratch.names)? else {
            self.blank_all(out, origin);
            return Ok(());
        };
        let stored = &mut self.counts.stored_bytes;
        let index = shard.read_index(&file, &mut scratch.buffers, stored);
        let index = index.map_err(|e| self.at(e, chunk))?;
        // Planes by the inner chunk that holds them along time and level.
        let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, plane) in self.task.planes.iter().enumerate() {
            let (time, level) = self.inside(plane);
            let group = (time / array.piece.time, level / array.piece.level);
            groups.entry(group).or_default().push(i);
        }
        let shape = self.store.shape();
        for ((time, level), members) in groups {
            for y in 0..array.chunk.y / array.piece.y {
                for x in 0..array.chunk.x / array.piece.x {
                    let origin = Cell {
                        y: origin.y + y * array.piece.y,
                        x: origin.x + x * array.piece.x,
                    };
                    if origin.y >= shape.ny || origin.x >= shape.nx {
                        continue;
                    }
                    let place = array.in_order(time as u64, level as u64, y as u64, x as u64);
                    let inner = InnerChunk {
                        chunk,
                        place,
                        extent: index[shard.position(&place)],
                        origin,
                    };
                    self.assemble_inner(&file, inner, &members, out, scratch)?;
                }
            }
        }
        Ok(())
    }

    /// Puts what an inner chunk has of the planes `members` into its place in `out`.
    fn assemble_inner(
        &mut self,
        file: &OpenFile,
        inner: InnerChunk,
        members: &[usize],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (array, planes) = (self.array, &self.task.planes);
        let (chunk, origin) = (inner.chunk, inner.origin);
        let row = planes[members[0]].row;
        let Some(extent) = inner.extent else {
            let Extents { y: ny, x: nx, .. } = array.piece;
            let Cell { y, x } = origin;
            let absent = Absent {
                array,
                inner: Some(&inner.place),
                patch: Patch { y, x, ny, nx },
            };
            self.missing(chunk, absent, members.iter().map(|i| &planes[*i]))?;
            for i in members {
                self.blank(out, *i, origin, &array.piece);
            }
            return Ok(());
        };
        let Scratch {
            buffers,
            decoded,
            decoders,
            ..
        } = scratch;
        let encoded = self
            .load_extent(file, extent, buffers)
            .map_err(|e| self.at(e.row(row), chunk))?;
        let values = array
            .codec
            .decode(encoded, array.bytes_of(&array.piece), decoded, decoders)
            .map_err(|e| self.at(e.row(row), chunk))?;
        for i in members {
            self.copy(out, *i, origin, &planes[*i], &values);
        }
        Ok(())
    }

    /// Where the cells of a chunk begin in their plane.
    fn origin(&self, chunk: Chunk) -> Cell {
        Cell {
            y: chunk.y as usize * self.array.chunk.y,
            x: chunk.x as usize * self.array.chunk.x,
        }
    }

    /// Copies part of a plane out of a decoded piece; what the piece has beyond the grid is left.
    fn copy(
        &self,
        out: &mut [f32],
        plane: usize,
        origin: Cell,
        from: &PlannedPlane,
        values: &[u8],
    ) {
        let shape = self.store.shape();
        let Self { array, .. } = self;
        let (piece, size) = (&array.piece, array.values.size());
        let from = array.plane_of_piece(from.row, from.level);
        let as_they_lie = array.values.as_they_lie().is_some();
        let columns = piece.x.min(shape.nx - origin.x);
        for y in 0..piece.y.min(shape.ny - origin.y) {
            let to = (plane * shape.ny + origin.y + y) * shape.nx + origin.x;
            let at = (from * piece.cells() + y * piece.x) * size;
            let (row, stored) = (&mut out[to..to + columns], &values[at..at + columns * size]);
            match as_they_lie {
                true => bytemuck::cast_slice_mut(row).copy_from_slice(stored),
                false => array.values.unpack_into(stored, row),
            }
        }
    }

    /// Writes the fill value into part of a plane.
    fn blank(&self, out: &mut [f32], plane: usize, origin: Cell, extent: &Extents) {
        let shape = self.store.shape();
        let columns = extent.x.min(shape.nx - origin.x);
        for y in 0..extent.y.min(shape.ny - origin.y) {
            let to = (plane * shape.ny + origin.y + y) * shape.nx + origin.x;
            out[to..to + columns].fill(self.array.fill);
        }
    }

    /// Writes the fill value into every plane, where a chunk should be.
    fn blank_all(&self, out: &mut [f32], origin: Cell) {
        for i in 0..self.task.planes.len() {
            self.blank(out, i, origin, &self.array.chunk);
        }
    }
}
