//! Small arrays - coordinates, masks, statistics - read whole, whatever number type they have.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Strictness;
use crate::zarr::files::storage::LocalStorage;
use crate::zarr::metadata::{ArrayMeta, Group};
use std::ops::Range;
use zarrs::array::{Array, ArrayError, ArraySubset, ElementOwned};

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

/// Reads a whole array.
///
/// # Errors
/// As [`read_part`].
pub(crate) fn read_numbers(
    group: &Group,
    meta: &ArrayMeta,
    strictness: Strictness,
    warnings: &mut Vec<String>,
) -> Result<Numbers> {
    let all: Vec<Range<u64>> = meta.shape.iter().map(|n| 0..*n).collect();
    read_part(group, meta, &all, strictness, warnings)
}

/// Reads a box of an array, one range per dimension.
///
/// A chunk that is not there is an error in strict mode, and the fill value with a warning otherwise.
///
/// # Errors
/// A data type that is no boolean, integer or float of 32 or 64 bits; a missing chunk in strict
/// mode; a chunk that cannot be read or decoded.
pub(crate) fn read_part(
    group: &Group,
    meta: &ArrayMeta,
    part: &[Range<u64>],
    strictness: Strictness,
    warnings: &mut Vec<String>,
) -> Result<Numbers> {
    let dtype = meta.dtype_name();
    let known = [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64",
    ];
    if !known.contains(&dtype) {
        return Err(group
            .error(
                ErrorKind::Metadata,
                &meta.name,
                "cannot read this data type",
            )
            .expected("booleans, integers, or floats of 32 or 64 bits")
            .found(&meta.dtype));
    }
    let array = group.array(meta)?;
    let part = ArraySubset::new_with_ranges(part);
    check_chunks(group, &array, meta, &part, strictness, warnings)?;
    let wide = |v: Vec<i64>| Numbers::Int(v);
    Ok(match dtype {
        "bool" => Numbers::Bool(values(group, meta, &array, &part)?),
        "int8" => wide(widen(values::<i8>(group, meta, &array, &part)?)),
        "int16" => wide(widen(values::<i16>(group, meta, &array, &part)?)),
        "int32" => wide(widen(values::<i32>(group, meta, &array, &part)?)),
        "int64" => wide(values(group, meta, &array, &part)?),
        "uint8" => wide(widen(values::<u8>(group, meta, &array, &part)?)),
        "uint16" => wide(widen(values::<u16>(group, meta, &array, &part)?)),
        "uint32" => wide(widen(values::<u32>(group, meta, &array, &part)?)),
        "uint64" => {
            let wide_values = values::<u64>(group, meta, &array, &part)?;
            let narrow: std::result::Result<Vec<i64>, _> =
                wide_values.into_iter().map(i64::try_from).collect();
            wide(narrow.map_err(|e| {
                group
                    .error(ErrorKind::Values, &meta.name, "a value is too large")
                    .caused_by(e)
            })?)
        }
        "float32" => Numbers::Float(widen(values::<f32>(group, meta, &array, &part)?)),
        _ => Numbers::Float(values(group, meta, &array, &part)?),
    })
}

fn widen<T, W: From<T>>(values: Vec<T>) -> Vec<W> {
    values.into_iter().map(W::from).collect()
}

fn values<T: ElementOwned>(
    group: &Group,
    meta: &ArrayMeta,
    array: &Array<LocalStorage>,
    part: &ArraySubset,
) -> Result<Vec<T>> {
    array
        .retrieve_array_subset::<Vec<T>>(part)
        .map_err(|e| read_error(group, meta, e))
}

fn read_error(group: &Group, meta: &ArrayMeta, e: ArrayError) -> Error {
    let kind = match &e {
        ArrayError::StorageError(_) => ErrorKind::Io,
        _ => ErrorKind::Corrupt,
    };
    group
        .error(kind, &meta.name, "cannot read the array")
        .caused_by(e)
}

/// Sees that every chunk of the box is there, because zarrs reads a missing one as fill.
fn check_chunks(
    group: &Group,
    array: &Array<LocalStorage>,
    meta: &ArrayMeta,
    part: &ArraySubset,
    strictness: Strictness,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let chunks = array
        .chunks_in_array_subset(part)
        .map_err(|e| read_error(group, meta, e.into()))?
        .unwrap_or_else(|| ArraySubset::new_empty(meta.shape.len()));
    for indices in &chunks.indices() {
        let key = array.chunk_key(&indices);
        let size = group.storage.size(key.as_str()).map_err(|e| {
            group
                .error(ErrorKind::Io, &meta.name, "cannot look at a chunk")
                .chunk(key.as_str())
                .caused_by(e)
        })?;
        if size.is_none() {
            let missing = group
                .error(ErrorKind::MissingChunk, &meta.name, "a chunk is not there")
                .chunk(key.as_str());
            match strictness {
                Strictness::Strict => return Err(missing),
                Strictness::Lenient => warnings.push(format!("{missing}: read as fill value")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::zarr::metadata::canonical_dtype;

    #[test]
    fn byte_order_does_not_change_the_name_of_a_type() {
        assert_eq!(canonical_dtype("<f4"), "float32");
        assert_eq!(canonical_dtype(">f4"), "float32");
        assert_eq!(canonical_dtype("float32"), "float32");
        assert_eq!(canonical_dtype("|b1"), "bool");
        assert_eq!(canonical_dtype("<M8[ns]"), "M8[ns]");
    }
}
