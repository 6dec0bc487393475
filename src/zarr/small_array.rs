//! Small arrays - coordinates, masks, statistics - read whole, whatever number type they have.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Strictness;
use crate::zarr::array::ZarrArray;
use crate::zarr::metadata::{ArrayMeta, ZarrGroup};
use std::ops::Range;
use zarrs::array::{ArrayError, ArraySubset, ElementOwned};

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
    /// A data type that is no boolean, integer or float of 32 or 64 bits; a missing chunk in strict
    /// mode; a chunk that cannot be read or decoded.
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
        let open = Opened {
            group,
            meta,
            array: ZarrArray::open(group, meta)?,
            part: ArraySubset::new_with_ranges(part),
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
    part: ArraySubset,
}

impl Opened<'_> {
    /// The values, of one of [`KNOWN_TYPES`].
    fn numbers(&self, dtype: &str) -> Result<Numbers> {
        let wide = |v: Vec<i64>| Numbers::Int(v);
        Ok(match dtype {
            "bool" => Numbers::Bool(self.values()?),
            "int8" => wide(widen(self.values::<i8>()?)),
            "int16" => wide(widen(self.values::<i16>()?)),
            "int32" => wide(widen(self.values::<i32>()?)),
            "int64" => wide(self.values()?),
            "uint8" => wide(widen(self.values::<u8>()?)),
            "uint16" => wide(widen(self.values::<u16>()?)),
            "uint32" => wide(widen(self.values::<u32>()?)),
            "uint64" => {
                let narrow = self.values::<u64>()?.into_iter().map(i64::try_from);
                let narrow: Result<Vec<i64>, _> = narrow.collect();
                wide(narrow.map_err(|e| {
                    self.error(ErrorKind::Values, "a value is too large")
                        .caused_by(e)
                })?)
            }
            "float32" => Numbers::Float(widen(self.values::<f32>()?)),
            _ => Numbers::Float(self.values()?),
        })
    }

    fn values<T: ElementOwned>(&self) -> Result<Vec<T>> {
        let values = self.array.zarrs().retrieve_array_subset(&self.part);
        values.map_err(|e| self.read_error(e))
    }

    /// Sees that every chunk of the box is there, because zarrs reads a missing one as fill.
    fn check_chunks(&self, strictness: Strictness) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let chunks = self
            .array
            .zarrs()
            .chunks_in_array_subset(&self.part)
            .map_err(|e| self.read_error(e.into()))?
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

    fn read_error(&self, e: ArrayError) -> Error {
        let kind = match &e {
            ArrayError::StorageError(_) => ErrorKind::Io,
            _ => ErrorKind::Corrupt,
        };
        self.error(kind, "cannot read the array").caused_by(e)
    }
}

fn widen<T, W: From<T>>(values: Vec<T>) -> Vec<W> {
    values.into_iter().map(W::from).collect()
}
