//! What the numbers of a document may ask for, before anything is allocated by them.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use std::ops::Range;

/// Chunks that are looked at to read a coordinate, mask or statistic: more would take minutes.
const MOST_SMALL_CHUNKS: u64 = 1 << 20;

/// Values in a box of these extents; `None` beyond 2^64.
pub(crate) fn values(extents: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut extents = extents.into_iter();
    extents.try_fold(1u64, |n, extent| n.checked_mul(extent))
}

/// Sees that what is decoded at once is within the limit for chunks: `chunk` values of `value` bytes.
///
/// # Errors
/// [`ErrorKind::Metadata`], with both sizes.
pub(crate) fn check_chunk(
    group: &ZarrGroup,
    meta: &ArrayMeta,
    chunk: &[u64],
    value: u64,
) -> Result<()> {
    let bytes = values(chunk.iter().copied()).and_then(|n| n.checked_mul(value));
    let most = group.limits.chunk_bytes;
    if bytes.is_some_and(|bytes| bytes <= most && usize::try_from(bytes).is_ok()) {
        return Ok(());
    }
    Err(beyond(group, meta, "a chunk is larger than the limit")
        .expected(format!("at most {most} bytes (chunk_bytes)"))
        .found(format!("{} of {chunk:?} values", in_bytes(bytes))))
}

/// Sees that a box of an array is small enough to be read whole, and lies in few enough chunks.
///
/// # Errors
/// [`ErrorKind::Metadata`], with both sizes.
pub(crate) fn check_small(group: &ZarrGroup, meta: &ArrayMeta, part: &[Range<u64>]) -> Result<()> {
    let bytes = values(part.iter().map(|r| r.end - r.start)).and_then(|n| n.checked_mul(8));
    let most = group.limits.small_bytes;
    if bytes.is_none_or(|bytes| bytes > most) {
        return Err(beyond(group, meta, "an array is larger than the limit")
            .expected(format!("at most {most} bytes (small_bytes)"))
            .found(format!("{} for shape {:?}", in_bytes(bytes), meta.shape)));
    }
    let along =
        |(range, chunk): (&Range<u64>, &u64)| range.end.div_ceil(*chunk) - range.start / chunk;
    let chunks = values(std::iter::zip(part, &meta.chunk).map(along));
    if chunks.is_none_or(|chunks| chunks > MOST_SMALL_CHUNKS) {
        return Err(beyond(
            group,
            meta,
            "an array lies in more chunks than can be looked at",
        )
        .expected(format!("at most {MOST_SMALL_CHUNKS} chunks"))
        .found(format!(
            "chunks of {:?} in shape {:?}",
            meta.chunk, meta.shape
        )));
    }
    Ok(())
}

fn beyond(group: &ZarrGroup, meta: &ArrayMeta, message: &str) -> Error {
    group.error(ErrorKind::Metadata, &meta.name, message)
}

fn in_bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(
        || "more than 2^64 bytes".to_owned(),
        |n| format!("{n} bytes"),
    )
}
