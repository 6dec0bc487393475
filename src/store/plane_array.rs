//! One Zarr array that holds planes: its axes, its chunks, its codec, its values' marks.

use crate::error::{ErrorKind, Result};
use crate::store::axes::{Axis, EXPECTED};
use crate::store::tasks::ArrayLayout;
use crate::zarr::array::ZarrArray;
use crate::zarr::chunk_codec::ChunkCodec;
use crate::zarr::chunk_keys::{ChunkKeys, Indices};
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::sharding::Sharding;
use base64::Engine;
use serde_json::Value;

/// A fill value or missing value at least this large is a mark, not a measurement: no field of the
/// ocean, in any unit it is stored in, comes near it. Smaller ones are plausible values, and
/// survive.
pub(crate) const MARK_LIMIT: f64 = 1e15;

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
    /// Value of chunks that are not there.
    pub(crate) fill: f32,
    /// Values that mean "missing", by attribute.
    pub(crate) marks: Vec<f32>,
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
        extents.values().map(|_| extents)
    }

    /// Planes, or parts of planes, that lie in such a box.
    pub(crate) fn planes(&self) -> usize {
        self.time * self.level
    }

    /// Values in each of them.
    pub(crate) fn cells(&self) -> usize {
        self.y * self.x
    }

    /// Bytes of all values as `f32`; computed with checks when the array is opened.
    pub(crate) fn bytes(&self) -> usize {
        self.planes() * self.cells() * 4
    }

    fn values(&self) -> Option<usize> {
        let planes = self.time.checked_mul(self.level)?;
        let cells = self.y.checked_mul(self.x)?;
        planes.checked_mul(cells)?.checked_mul(4)
    }
}

impl PlaneArray {
    /// Opens an array whose axes are known and whose shape agrees with the store's.
    ///
    /// # Errors
    /// Values that are not `f32`, packed values, codecs that cannot be served.
    pub(crate) fn open(group: &ZarrGroup, meta: &ArrayMeta, axes: &[Axis]) -> Result<Self> {
        let bad = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
        if meta.dtype_name() != "float32" {
            return Err(bad("values of this type are not served")
                .expected("float32 (`<f4`, `>f4` or `float32`)")
                .found(&meta.dtype));
        }
        for packing in ["scale_factor", "add_offset"] {
            if let Some(value) = meta.attributes.get(packing) {
                return Err(bad("packed values are not served")
                    .expected(format!("no attribute {packing}"))
                    .found(value));
            }
        }
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
        let fill = array
            .fill_value()
            .ok_or_else(|| bad("the fill value is no float32"))?;
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
            marks: marks(group.format, meta),
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

    /// Where the plane of a row and level lies among the planes of the piece that holds it.
    pub(crate) fn plane_of_piece(&self, row: usize, level: usize) -> usize {
        let (time, level) = (row % self.piece.time, level % self.piece.level);
        match self.layout.level_axis {
            Some(0) => level * self.piece.time + time,
            _ => time * self.piece.level + level,
        }
    }

    /// Storage keys of the first and the last chunk.
    pub(crate) fn outer_keys(&self) -> [String; 2] {
        let last: Vec<u64> = std::iter::zip(&self.layout.shape, &self.layout.chunk)
            .map(|(n, c)| n.div_ceil(*c) - 1)
            .collect();
        let first = vec![0; last.len()];
        [first, last].map(|indices| self.array.chunk_key(&indices))
    }
}

/// Marks of missing values that the attributes name (and in v2, where xarray writes the mark as the
/// array's fill value, that one too), as far as they are beyond any measurement.
fn marks(format: ZarrFormat, meta: &ArrayMeta) -> Vec<f32> {
    let named = ["_FillValue", "missing_value"]
        .into_iter()
        .filter_map(|name| meta.attributes.get(name));
    let fill = match format {
        ZarrFormat::V2 => meta.document.get("fill_value"),
        ZarrFormat::V3 => None,
    };
    let mut marks: Vec<f32> = Vec::new();
    for value in named.chain(fill).filter_map(number) {
        let mark = value as f32;
        if value.is_finite() && value.abs() >= MARK_LIMIT && !marks.contains(&mark) {
            marks.push(mark);
        }
    }
    marks
}

/// A number as an attribute spells it: plain, alone in a list, or as xarray writes `_FillValue` in
/// v3, base64 of a little-endian double.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::Array(list) if list.len() == 1 => number(&list[0]),
        Value::String(text) => {
            let bytes = base64::prelude::BASE64_STANDARD.decode(text).ok()?;
            Some(f64::from_le_bytes(bytes.try_into().ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_as_xarray_writes_them() {
        assert_eq!(number(&json!(1e20)), Some(1e20));
        assert_eq!(number(&json!([-9.97e36])), Some(-9.97e36));
        // base64 of the eight bytes of NaN, as in the fixtures.
        assert!(number(&json!("AAAAAAAA+H8=")).unwrap().is_nan());
        assert_eq!(number(&json!("QIy1eB2vFUQ=")), Some(1e20));
        assert_eq!(number(&json!("NaN")), None);
    }
}
