//! Small arrays - coordinates, masks, statistics - read whole, whatever number type they have.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Strictness;
use crate::zarr::array::ZarrArray;
use crate::zarr::array_part::Part;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::missing_values::{Number, named};
use crate::zarr::values::{Stored, StoredValue, Values, for_type};
use serde_json::Value;
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
    /// NaN where the array's metadata names the stored value as missing, which makes floats of all.
    pub(crate) numbers: Numbers,
    /// The first such value, and where it stands.
    pub(crate) first_missing: Option<Missing>,
    /// Chunks that are not there and read as fill value, one line each.
    pub(crate) absent: Vec<String>,
}

/// A value that its array names as missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Missing {
    /// Position in C order.
    pub(crate) at: usize,
    /// As it is stored.
    pub(crate) value: f64,
}

impl SmallArray {
    /// Reads a box of an array, one range per dimension. Packed values are unpacked.
    ///
    /// A chunk that is not there is the fill value, as for every reader of Zarr: writers leave out
    /// chunks that hold nothing else. It is noted in `absent`. Where Zarr v2 has no fill value it is
    /// an error in strict mode, and otherwise 0.
    ///
    /// # Errors
    /// A data type that is no boolean, integer or float of 16 bits or more; more values or chunks than
    /// the limits allow; attributes about missing
    /// or packed values that are no numbers; codecs that are not served; a missing chunk without
    /// fill value in strict mode; a chunk that cannot be read or decoded.
    pub(crate) fn read(
        group: &ZarrGroup,
        meta: &ArrayMeta,
        part: &[Range<u64>],
        strictness: Strictness,
    ) -> Result<Self> {
        let values = Values::of(group, meta)?;
        if values.is_none() && meta.dtype_name() != "bool" {
            return Err(group
                .error(
                    ErrorKind::Metadata,
                    &meta.name,
                    "cannot read this data type",
                )
                .expected("booleans, integers, or floats of 16, 32 or 64 bits")
                .found(&meta.dtype));
        }
        limits::check_small(group, meta, part)?;
        let open = Opened {
            group,
            meta,
            array: ZarrArray::open(group, meta)?,
            ranges: part,
        };
        let absent = open.check_chunks(strictness)?;
        let mut read = match values {
            None => open.booleans()?,
            Some(values) => open.numbers(&values)?,
        };
        read.absent = absent;
        Ok(read)
    }
}

/// A box of an opened array.
struct Opened<'a> {
    group: &'a ZarrGroup,
    meta: &'a ArrayMeta,
    array: ZarrArray,
    ranges: &'a [Range<u64>],
}

impl Opened<'_> {
    fn numbers(&self, values: &Values) -> Result<SmallArray> {
        for_type!(&values.stored, marks => self.numbers_of(marks, values))
    }

    fn numbers_of<T: StoredValue>(&self, marks: &[T], values: &Values) -> Result<SmallArray> {
        let stored: Vec<T> = self.collect(T::of_bytes)?;
        let first_missing = stored.iter().position(|value| marks.contains(value));
        let whole = !matches!(
            values.stored,
            Stored::Float16(_) | Stored::Float32(_) | Stored::Float64(_)
        );
        let numbers = if whole && values.packing.is_none() && first_missing.is_none() {
            let whole: Option<Vec<i64>> = stored.iter().map(|value| value.to_i64()).collect();
            Numbers::Int(whole.ok_or_else(|| {
                self.error(ErrorKind::Values, "a value is too large")
                    .expected(format!("at most {}", i64::MAX))
            })?)
        } else {
            let number = |value: &T| match marks.contains(value) {
                true => f64::NAN,
                false => values.packing.unpack(value.to_f64()),
            };
            Numbers::Float(stored.iter().map(number).collect())
        };
        Ok(SmallArray {
            numbers,
            first_missing: first_missing.map(|at| Missing {
                at,
                value: stored[at].to_f64(),
            }),
            absent: Vec::new(),
        })
    }

    fn booleans(&self) -> Result<SmallArray> {
        let stored = self.collect(|byte: &[u8]| *byte != [0])?;
        let named = named(self.group, self.meta)?;
        let is_mark = |value: &bool| {
            let value = i128::from(*value);
            named.contains(&Number::Int(value)) || named.contains(&Number::Float(value as f64))
        };
        let first_missing = stored.iter().position(is_mark);
        let number = |value: &bool| match is_mark(value) {
            true => f64::NAN,
            false => f64::from(*value),
        };
        Ok(SmallArray {
            first_missing: first_missing.map(|at| Missing {
                at,
                value: f64::from(stored[at]),
            }),
            numbers: match first_missing {
                None => Numbers::Bool(stored),
                Some(_) => Numbers::Float(stored.iter().map(number).collect()),
            },
            absent: Vec::new(),
        })
    }

    /// Reads the values, each from its bytes.
    fn collect<T>(&self, value: impl Fn(&[u8]) -> T) -> Result<Vec<T>> {
        let part = Part {
            group: self.group,
            meta: self.meta,
            array: &self.array,
            ranges: self.ranges,
        };
        let bytes = part.read()?;
        let values = bytes.chunks_exact(self.array.value_size().max(1));
        let mut out = Vec::new();
        out.try_reserve_exact(values.len()).map_err(|e| {
            self.error(ErrorKind::Io, "no memory for the array")
                .caused_by(e)
        })?;
        out.extend(values.map(value));
        Ok(out)
    }

    /// Looks which chunks of the box are there, because zarrs reads a missing one as fill without a
    /// word.
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
        let fill = self.meta.document.get("fill_value");
        let fill = fill.filter(|fill| !fill.is_null());
        let no_fill = self.group.format == ZarrFormat::V2 && fill.is_none();
        for indices in &chunks.indices() {
            let key = self.array.chunk_key(&indices);
            let size = self.group.storage.size(&key).map_err(|e| {
                self.error(ErrorKind::Io, "cannot look at a chunk")
                    .chunk(&key)
                    .caused_by(e)
            })?;
            if size.is_some() {
                continue;
            }
            let absent = self
                .error(ErrorKind::MissingChunk, "a chunk is not there")
                .chunk(key);
            if no_fill && strictness == Strictness::Strict {
                return Err(absent
                    .expected("the chunk, because the array has no fill value to stand for it")
                    .found("none, as an interrupted copy leaves it"));
            }
            let fill = fill.map_or_else(|| "0".to_owned(), Value::to_string);
            lines.push(format!("{absent}: read as the fill value {fill}"));
        }
        Ok(lines)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        self.group.error(kind, &self.meta.name, message)
    }
}
