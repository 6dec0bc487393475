//! Small arrays - coordinates, masks, statistics - read whole, whatever number type they have.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Strictness;
use crate::zarr::array::ZarrArray;
use crate::zarr::array_part::Part;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::ArrayMeta;
use bytemuck::AnyBitPattern;
use std::ops::Range;
use zarrs::array::ArraySubset;

/// All values of an array in C order, without loss: `f32` widens to `f64`, integers to `i64`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
}

impl Numbers {
    /// The values as `f64` (exact for booleans, floats and integers below 2^53).
    pub(crate) fn into_f64(self) -> Vec<f64> {
        match self {
            Self::Bool(v) => v.into_iter().map(f64::from).collect(),
            Self::Int(v) => v.into_iter().map(|n| n as f64).collect(),
            Self::Float(v) => v,
        }
    }
}

/// What was read of an array.
#[derive(Debug)]
pub(crate) struct SmallArray {
    pub(crate) numbers: Numbers,
    /// Chunks that are not there and read as fill value, one line each.
    pub(crate) missing: Vec<String>,
}

impl SmallArray {
    /// Reads a box of an array, one range per dimension.
    ///
    /// A chunk that is not there is an error in strict mode, and otherwise the fill value, noted in
    /// `missing`.
    ///
    /// # Errors
    /// A data type that is no boolean, integer or float of 32 or 64 bits; more values or chunks than
    /// the limits allow; a missing chunk in strict mode; a chunk that cannot be read or decoded.
    pub(crate) fn read(
        group: &ZarrGroup,
        meta: &ArrayMeta,
        part: &[Range<u64>],
        strictness: Strictness,
    ) -> Result<Self> {
        let dtype = meta.dtype_name();
        if !KNOWN_TYPES.contains(&dtype) {
            return Err(group
                .error(
                    ErrorKind::Metadata,
                    &meta.name,
                    "cannot read this data type",
                )
                .expected("booleans, integers, or floats of 32 or 64 bits")
                .found(&meta.dtype));
        }
        limits::check_small(group, meta, part)?;
        let open = Opened {
            group,
            meta,
            array: ZarrArray::open(group, meta)?,
            ranges: part,
        };
        let missing = open.check_chunks(strictness)?;
        let numbers = open.numbers(dtype)?;
        Ok(Self { numbers, missing })
    }
}

const KNOWN_TYPES: [&str; 11] = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64",
];

/// A box of an opened array.
struct Opened<'a> {
    group: &'a ZarrGroup,
    meta: &'a ArrayMeta,
    array: ZarrArray,
    ranges: &'a [Range<u64>],
}

impl Opened<'_> {
    /// The values, of one of [`KNOWN_TYPES`].
    fn numbers(&self, dtype: &str) -> Result<Numbers> {
        let part = Part {
            group: self.group,
            meta: self.meta,
            array: &self.array,
            ranges: self.ranges,
        };
        let bytes = part.read()?;
        Ok(match dtype {
            "bool" => Numbers::Bool(self.collect(&bytes, |v: u8| v != 0)?),
            "int8" => Numbers::Int(self.collect(&bytes, |v: i8| v.into())?),
            "int16" => Numbers::Int(self.collect(&bytes, |v: i16| v.into())?),
            "int32" => Numbers::Int(self.collect(&bytes, |v: i32| v.into())?),
            "int64" => Numbers::Int(self.collect(&bytes, |v: i64| v)?),
            "uint8" => Numbers::Int(self.collect(&bytes, |v: u8| v.into())?),
            "uint16" => Numbers::Int(self.collect(&bytes, |v: u16| v.into())?),
            "uint32" => Numbers::Int(self.collect(&bytes, |v: u32| v.into())?),
            "uint64" => {
                let narrow = self.collect(&bytes, |v: u64| i64::try_from(v).unwrap_or(-1))?;
                if narrow.contains(&-1) {
                    return Err(self.error(ErrorKind::Values, "a value is too large"));
                }
                Numbers::Int(narrow)
            }
            "float32" => Numbers::Float(self.collect(&bytes, |v: f32| v.into())?),
            _ => Numbers::Float(self.collect(&bytes, |v: f64| v)?),
        })
    }

    fn collect<T: AnyBitPattern, W>(&self, bytes: &[u8], widen: impl Fn(T) -> W) -> Result<Vec<W>> {
        let values = bytes.chunks_exact(size_of::<T>());
        let mut out = Vec::new();
        out.try_reserve_exact(values.len()).map_err(|e| {
            self.error(ErrorKind::Io, "no memory for the array")
                .caused_by(e)
        })?;
        out.extend(values.map(|v| widen(bytemuck::pod_read_unaligned(v))));
        Ok(out)
    }

    /// Sees that every chunk of the box is there, because zarrs reads a missing one as fill.
    fn check_chunks(&self, strictness: Strictness) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let chunks = self
            .array
            .zarrs()
            .chunks_in_array_subset(&ArraySubset::new_with_ranges(self.ranges))
            .map_err(|e| {
                self.error(ErrorKind::Metadata, "no such chunks")
                    .caused_by(e)
            })?
            .unwrap_or_else(|| ArraySubset::new_empty(self.meta.shape.len()));
        for indices in &chunks.indices() {
            let key = self.array.chunk_key(&indices);
            let size = self.group.storage.size(&key).map_err(|e| {
                self.error(ErrorKind::Io, "cannot look at a chunk")
                    .chunk(&key)
                    .caused_by(e)
            })?;
            if size.is_none() {
                let missing = self
                    .error(ErrorKind::MissingChunk, "a chunk is not there")
                    .chunk(key);
                match strictness {
                    Strictness::Strict => return Err(missing),
                    Strictness::Lenient => lines.push(format!("{missing}: read as fill value")),
                }
            }
        }
        Ok(lines)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        self.group.error(kind, &self.meta.name, message)
    }
}
