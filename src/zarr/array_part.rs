//! The bytes of a box of an array, put together from its chunks, whole and in shards. For what is read
//! once: coordinates, masks and statistics.

use crate::error::{Error, Result};
use crate::zarr::array::ZarrArray;
use crate::zarr::chunk_codec::{ChunkCodec, sized};
use crate::zarr::codec::decoders::Decoders;
use crate::zarr::files::back_end::{BackEnd, ReadBuffers, read_error};
use crate::zarr::files::chunk_files::OpenFile;
use crate::zarr::files::pread::Pread;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::sharding::Sharding;
use std::ops::Range;
use std::path::Path;

/// A box of an opened array, one range per dimension, within its limits ([`limits::check_small`]).
pub(crate) struct Part<'a> {
    pub(crate) group: &'a ZarrGroup,
    pub(crate) meta: &'a ArrayMeta,
    pub(crate) array: &'a ZarrArray,
    pub(crate) ranges: &'a [Range<u64>],
}

/// How pieces (chunks, or the chunks inside shards) are decoded, and what that takes.
struct Reader<'a> {
    part: &'a Part<'a>,
    codec: ChunkCodec,
    /// Shape of a piece.
    piece: Vec<u64>,
    /// Bytes of a piece.
    size: usize,
    buffers: ReadBuffers,
    scratch: Vec<u8>,
    decoders: Decoders,
}

impl Part<'_> {
    /// The values in memory order, as they lie in memory; the fill value where a chunk is not there.
    ///
    /// # Errors
    /// Shards in an arrangement that is not served, chunks beyond the limit; one that cannot be read
    /// or decoded.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let Self {
            group, meta, array, ..
        } = *self;
        let shards = match group.format {
            ZarrFormat::V2 => None,
            ZarrFormat::V3 => Sharding::of_array(group, meta)?,
        };
        let (codec, piece) = match &shards {
            None => (ChunkCodec::of_array(group.format, meta, array), &meta.chunk),
            Some(shards) => {
                let codec = ChunkCodec::of_inner(&shards.codecs, &shards.inner, array);
                (codec.map_err(|e| self.place(e))?, &shards.inner)
            }
        };
        let value = array.value_size() as u64;
        limits::check_chunk(group, meta, piece, value)?;
        let bytes = |extents: &mut dyn Iterator<Item = u64>| {
            let values = limits::values(extents).and_then(|n| n.checked_mul(value));
            usize::try_from(values.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
        };
        let mut reader = Reader {
            part: self,
            size: bytes(&mut piece.iter().copied()),
            piece: piece.clone(),
            codec,
            buffers: ReadBuffers::default(),
            scratch: Vec::new(),
            decoders: Decoders::default(),
        };
        let mut out = Vec::new();
        let size = bytes(&mut self.ranges.iter().map(|r| r.end - r.start));
        sized(&mut out, size).map_err(|e| self.place(e))?;
        for value in out.chunks_exact_mut(array.value_size().max(1)) {
            value.copy_from_slice(array.fill_bytes());
        }
        for indices in boxed(&over(self.ranges, &meta.chunk)) {
            let key = array.chunk_key(&indices);
            let read = match &shards {
                None => reader.chunk(&key, &indices, &mut out),
                Some(shards) => reader.shard(shards, &key, &indices, &mut out),
            };
            let name = format!("{}/", meta.name);
            read.map_err(|e| self.place(e.chunk(key.strip_prefix(&name).unwrap_or(&key))))?;
        }
        Ok(out)
    }

    fn place(&self, e: Error) -> Error {
        e.store(self.group.storage.root()).array(&self.meta.name)
    }

    fn path(&self, key: &str) -> Result<std::path::PathBuf> {
        self.group.storage.path_of(key).map_err(read_error)
    }
}

impl Reader<'_> {
    fn chunk(&mut self, key: &str, indices: &[u64], out: &mut [u8]) -> Result<()> {
        let path: &Path = &self.part.path(key)?;
        let origin = origin(indices, &self.piece);
        let Self {
            part,
            codec,
            piece,
            size,
            buffers,
            scratch,
            decoders,
        } = self;
        let mut decode = |encoded: &[u8]| {
            let decoded = codec.decode(encoded, *size, scratch, decoders)?;
            copy(&decoded, &origin, piece, out, part);
            Ok(())
        };
        Pread
            .decode_whole(path, *size, buffers, &mut decode)
            .map(drop)
    }

    fn shard(
        &mut self,
        shards: &Sharding,
        key: &str,
        indices: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let Some(file) = Pread.open(&self.part.path(key)?).map_err(read_error)? else {
            return Ok(());
        };
        let file = OpenFile::Plain(file);
        let index = shards.read_index(&file, &mut self.buffers, &mut 0)?;
        let chunk = &self.part.meta.chunk;
        let first = origin(indices, chunk);
        let inside: Vec<Range<u64>> = overlap(&first, chunk, self.part.ranges);
        for piece in boxed(&over(&inside, &self.piece)) {
            let within = std::iter::zip(std::iter::zip(&piece, &self.piece), &first);
            let within: Vec<u64> = within.map(|((i, n), first)| i - first / n).collect();
            let Some(extent) = index.get(shards.position(&within)).copied().flatten() else {
                continue;
            };
            let bytes = file.bytes_at(extent.offset, extent.length as usize, &mut self.buffers);
            let bytes = bytes.map_err(read_error)?;
            let decoded =
                self.codec
                    .decode(bytes, self.size, &mut self.scratch, &mut self.decoders)?;
            copy(
                &decoded,
                &origin(&piece, &self.piece),
                &self.piece,
                out,
                self.part,
            );
        }
        Ok(())
    }
}

/// Where the box with these indices begins, of boxes of this shape.
fn origin(indices: &[u64], shape: &[u64]) -> Vec<u64> {
    std::iter::zip(indices, shape)
        .map(|(i, n)| i.saturating_mul(*n))
        .collect()
}

/// Indices of the boxes of this shape that the ranges touch.
fn over(ranges: &[Range<u64>], shape: &[u64]) -> Vec<Range<u64>> {
    let along = |(range, n): (&Range<u64>, &u64)| range.start / n..range.end.div_ceil(*n);
    std::iter::zip(ranges, shape).map(along).collect()
}

/// What a box and the ranges share, in the array's own indices; some range is empty where it is
/// nothing.
fn overlap(origin: &[u64], shape: &[u64], ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let along = |((first, n), range): ((&u64, &u64), &Range<u64>)| {
        let start = range.start.max(*first);
        start..range.end.min(first.saturating_add(*n)).max(start)
    };
    std::iter::zip(std::iter::zip(origin, shape), ranges)
        .map(along)
        .collect()
}

/// Every index in a box, in C order; one of no numbers where it has no dimensions.
fn boxed(ranges: &[Range<u64>]) -> impl Iterator<Item = Vec<u64>> {
    let empty = ranges.iter().any(Range::is_empty);
    let first = ranges.iter().map(|r| r.start).collect();
    let next = move |at: &Vec<u64>| {
        let mut next = at.clone();
        for (index, range) in std::iter::zip(&mut next, ranges).rev() {
            *index += 1;
            if *index < range.end {
                return Some(next);
            }
            *index = range.start;
        }
        None
    };
    std::iter::successors((!empty).then_some(first), next)
}

/// Copies what a piece and the box share, row by row.
fn copy(from: &[u8], origin: &[u64], shape: &[u64], to: &mut [u8], part: &Part<'_>) {
    let value = part.array.value_size();
    let shared = overlap(origin, shape, part.ranges);
    let run = shared.last().map_or(1, |r| r.end - r.start) as usize * value;
    let mut rows = shared.clone();
    if let Some(last) = rows.last_mut() {
        *last = last.start..last.end.min(last.start + 1);
    }
    let first: Vec<u64> = part.ranges.iter().map(|r| r.start).collect();
    let extents: Vec<u64> = part.ranges.iter().map(|r| r.end - r.start).collect();
    let offset = |at: &[u64], first: &[u64], shape: &[u64]| {
        let along = std::iter::zip(std::iter::zip(at, first), shape);
        along.fold(0, |n, ((at, first), extent)| n * extent + (at - first)) as usize * value
    };
    for at in boxed(&rows) {
        let (source, target) = (offset(&at, origin, shape), offset(&at, &first, &extents));
        to[target..target + run].copy_from_slice(&from[source..source + run]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_walked_in_order() {
        let all: Vec<_> = boxed(&[1..3, 0..2]).collect();
        assert_eq!(all, [[1, 0], [1, 1], [2, 0], [2, 1]]);
        assert_eq!(boxed(&[]).count(), 1);
        assert_eq!(boxed(&[1..3, 2..2]).count(), 0);
    }

    #[test]
    fn only_boxes_that_are_touched_are_listed() {
        assert_eq!(over(&[3..7, 0..u64::MAX], &[3, u64::MAX]), [1..3, 0..1]);
        assert_eq!(overlap(&[3, 0], &[3, 9], &[4..20, 2..3]), [4..6, 2..3]);
        assert!(overlap(&[6, 0], &[3, 9], &[0..4, 2..3])[0].is_empty());
    }
}
