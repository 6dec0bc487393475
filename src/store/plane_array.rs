//! One Zarr array that holds planes: its axes, its chunks, its codec, what its values mean.

use crate::error::{ErrorKind, Result};
use crate::ocean::mask::WetMask;
use crate::store::axes::{Axis, EXPECTED};
use crate::store::tasks::ArrayLayout;
use crate::zarr::array::ZarrArray;
use crate::zarr::chunk_codec::ChunkCodec;
use crate::zarr::chunk_keys::{ChunkKeys, Indices};
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::sharding::Sharding;
use crate::zarr::values::Values;
use serde_json::Value;
use std::ops::Range;

/// An opened array of planes. Handles and decisions are made once, here.
#[derive(Debug)]
pub(crate) struct PlaneArray {
    pub(crate) layout: ArrayLayout,
    pub(crate) unit: Option<String>,
    pub(crate) long_name: Option<String>,
    /// The codec of a chunk, or of an inner chunk where there are shards.
    pub(crate) codec: ChunkCodec,
    pub(crate) shard: Option<Sharding>,
    /// Extent of what is decoded at once: a chunk, or an inner chunk.
    pub(crate) piece: Extents,
    /// Extent of a chunk.
    pub(crate) chunk: Extents,
    /// Value of chunks that are not there; NaN where it means "missing".
    pub(crate) fill: f32,
    /// The same as the metadata spells it.
    pub(crate) fill_text: String,
    /// Whether a writer may have left out chunks because they hold nothing but missing values: the
    /// array has a fill value, and it is one.
    pub(crate) leaves_out_missing: bool,
    /// What stored values mean.
    pub(crate) values: Values,
    /// `None` when zarrs has to be asked.
    keys: Option<ChunkKeys>,
    array: ZarrArray,
}

/// Extents along each axis; 1 level where the array has no level axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) time: usize,
    pub(crate) level: usize,
    pub(crate) y: usize,
    pub(crate) x: usize,
}

impl Extents {
    fn new(extents: &[u64], time_axis: usize, level_axis: Option<usize>) -> Option<Self> {
        let at = |axis: usize| usize::try_from(extents[axis]).ok();
        let rank = extents.len();
        let extents = Self {
            time: at(time_axis)?,
            level: level_axis.map_or(Some(1), at)?,
            y: at(rank - 2)?,
            x: at(rank - 1)?,
        };
        extents.most_bytes().map(|_| extents)
    }

    /// Planes, or parts of planes, that lie in such a box.
    pub(crate) fn planes(&self) -> usize {
        self.time * self.level
    }

    /// Values in each of them.
    pub(crate) fn cells(&self) -> usize {
        self.y * self.x
    }

    /// Bytes of all values of the widest type there is, where they can be counted.
    fn most_bytes(&self) -> Option<usize> {
        let planes = self.time.checked_mul(self.level)?;
        let cells = self.y.checked_mul(self.x)?;
        planes.checked_mul(cells)?.checked_mul(8)
    }
}

/// The cells of a plane that a chunk has; its end may lie beyond the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Its first cell.
    pub(crate) y: usize,
    pub(crate) x: usize,
    /// Its extents.
    pub(crate) ny: usize,
    pub(crate) nx: usize,
}

impl Patch {
    /// Wet cells in it.
    pub(crate) fn wet_cells(&self, mask: &WetMask) -> usize {
        let rows = mask.as_slice().chunks_exact(mask.shape().nx);
        let rows = rows.skip(self.y).take(self.ny);
        let cells = rows.flat_map(|row| row.iter().skip(self.x).take(self.nx));
        cells.filter(|wet| **wet).count()
    }
}

/// The first or the last chunk of an array.
#[derive(Clone, Debug)]
pub(crate) struct OuterChunk {
    pub(crate) key: String,
    /// Its first row.
    pub(crate) row: usize,
    /// Its levels.
    pub(crate) levels: Range<usize>,
    pub(crate) patch: Patch,
}

impl PlaneArray {
    /// Opens an array whose axes are known and whose shape agrees with the store's.
    ///
    /// # Errors
    /// Values that are no integers and no floats, attributes about missing or packed values that are no
    /// numbers, codecs that are not served.
    pub(crate) fn open(group: &ZarrGroup, meta: &ArrayMeta, axes: &[Axis]) -> Result<Self> {
        let bad = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
        let values = Values::of(group, meta)?.ok_or_else(|| {
            bad("values of this type are not served")
                .expected("integers, or floats of 16, 32 or 64 bits")
                .found(&meta.dtype)
        })?;
        let position = |axis| axes.iter().position(|a| *a == axis);
        let time_axis = position(Axis::Time).ok_or_else(|| {
            bad("no time axis")
                .expected(EXPECTED)
                .found(format!("{:?}", meta.dims))
        })?;
        let level_axis = position(Axis::Level);
        // Before zarrs sees it: it would refuse less, or in other words.
        let shard = match group.format {
            ZarrFormat::V2 => None,
            ZarrFormat::V3 => Sharding::of_array(group, meta)?,
        };
        let array = ZarrArray::open(group, meta)?;
        let (codec, piece) = match &shard {
            None => (
                ChunkCodec::of_array(group.format, meta, &array),
                &meta.chunk,
            ),
            Some(shard) => {
                let codec = ChunkCodec::of_inner(&shard.codecs, &shard.inner, &array)
                    .map_err(|e| e.store(group.storage.root()).array(&meta.name))?;
                (codec, &shard.inner)
            }
        };
        let extents = |of: &[u64]| {
            Extents::new(of, time_axis, level_axis)
                .ok_or_else(|| bad("a chunk is larger than memory can be").found(format!("{of:?}")))
        };
        let mut fill = [0.0];
        let stored = array.fill_bytes();
        if stored.len() != values.size() {
            return Err(bad("the fill value is not of the type of the values").found(&meta.dtype));
        }
        values.unpack_into(stored, &mut fill);
        let [fill] = fill;
        let named = meta.document.get("fill_value").filter(|f| !f.is_null());
        let probes = [0, 1].map(|from| (from..).take(meta.shape.len()).collect::<Vec<u64>>());
        let known = probes.map(|p| {
            let key = array.chunk_key(&p);
            (p, key)
        });
        Ok(Self {
            keys: ChunkKeys::recognise(&meta.name, &known),
            piece: extents(piece)?,
            chunk: extents(&meta.chunk)?,
            layout: ArrayLayout {
                name: meta.name.clone(),
                shape: meta.shape.clone(),
                chunk: meta.chunk.clone(),
                time_axis,
                level_axis,
            },
            unit: meta.text("units").map(str::to_owned),
            long_name: meta.text("long_name").map(str::to_owned),
            leaves_out_missing: named.is_some() && fill.is_nan(),
            fill_text: named.map_or_else(|| "0, as none is named".to_owned(), Value::to_string),
            values,
            codec,
            shard,
            fill,
            array,
        })
    }

    /// Writes the storage key of a chunk by its indices along time, level, y and x.
    pub(crate) fn write_key(&self, [time, level, y, x]: [u64; 4], key: &mut String) {
        let indices = self.in_order(time, level, y, x);
        match &self.keys {
            Some(keys) => keys.write(&indices, key),
            None => self.array.write_key(&indices, key),
        }
    }

    /// Indices along time, level, y and x in the array's own dimension order.
    pub(crate) fn in_order(&self, time: u64, level: u64, y: u64, x: u64) -> Indices {
        match self.layout.level_axis {
            None => Indices::three([time, y, x]),
            Some(0) => Indices::four([level, time, y, x]),
            Some(_) => Indices::four([time, level, y, x]),
        }
    }

    /// Bytes of the decoded values of a box.
    pub(crate) fn bytes_of(&self, extents: &Extents) -> usize {
        extents.planes() * extents.cells() * self.values.size()
    }

    /// Where the plane of a row and level lies among the planes of the piece that holds it.
    pub(crate) fn plane_of_piece(&self, row: usize, level: usize) -> usize {
        let (time, level) = (row % self.piece.time, level % self.piece.level);
        match self.layout.level_axis {
            Some(0) => level * self.piece.time + time,
            _ => time * self.piece.level + level,
        }
    }

    /// The first and the last chunk.
    pub(crate) fn outer_chunks(&self) -> [OuterChunk; 2] {
        let ArrayLayout {
            shape,
            chunk,
            time_axis,
            level_axis,
            ..
        } = &self.layout;
        let last: Vec<u64> = std::iter::zip(shape, chunk)
            .map(|(n, c)| n.div_ceil(*c) - 1)
            .collect();
        let first = vec![0; last.len()];
        let rank = last.len();
        [first, last].map(|indices| {
            let start = |axis: usize| (indices[axis] * chunk[axis]) as usize;
            let level = level_axis.map_or(0, start);
            OuterChunk {
                key: self.array.chunk_key(&indices),
                row: start(*time_axis),
                levels: level..level + self.chunk.level,
                patch: Patch {
                    y: start(rank - 2),
                    x: start(rank - 1),
                    ny: self.chunk.y,
                    nx: self.chunk.x,
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::plane::PlaneShape;

    #[test]
    fn a_patch_counts_its_own_wet_cells_and_none_beyond_the_grid() {
        let shape = PlaneShape { ny: 3, nx: 4 };
        let wet = [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]].as_flattened();
        let mask = WetMask::new(shape, wet.iter().map(|w| *w == 1).collect()).unwrap();
        let patch = |y, x, ny, nx| Patch { y, x, ny, nx }.wet_cells(&mask);
        assert_eq!(patch(0, 0, 3, 4), 4);
        assert_eq!((patch(0, 0, 2, 2), patch(0, 2, 2, 2)), (1, 2));
        assert_eq!((patch(2, 0, 2, 2), patch(2, 2, 2, 2)), (1, 0));
        assert_eq!((patch(1, 1, 1, 2), patch(0, 3, 9, 9)), (0, 1));
    }
}
