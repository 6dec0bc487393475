//! Shards: chunks that are containers of smaller chunks, with an index of where each lies.
//!
//! Only the index and the wanted inner chunks are read. Offsets and lengths are checked against the
//! file before anything is read or allocated by them.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::codec::size::without_checksum;
use crate::zarr::files::back_end::{ReadBuffers, check_encoded, read_error};
use crate::zarr::files::chunk_files::OpenFile;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::{ArrayMeta, codec_name};
use serde_json::Value;

/// How an array's chunks are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharding {
    /// Shape of the inner chunks, in the array's dimension order.
    pub(crate) inner: Vec<u64>,
    /// Their codecs, as the metadata lists them.
    pub(crate) codecs: Vec<Value>,
    /// Inner chunks per shard, in the array's dimension order.
    counts: Vec<u64>,
    checksum: bool,
    at_end: bool,
    /// Bytes of an inner chunk, at most: of values as wide as any.
    piece: usize,
}

/// Where an inner chunk lies in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The index of one shard: an extent per inner chunk in C order, `None` where there is none.
pub(crate) type Index = Vec<Option<Extent>>;

/// Bytes of the widest type of numbers.
const WIDEST: u64 = 8;

impl Sharding {
    /// The sharding of an array; `None` when it has none.
    ///
    /// # Errors
    /// Sharding in an arrangement that is not served: within other codecs, nested, or with an index
    /// that is not plain little-endian numbers with or without a CRC-32C.
    pub(crate) fn of_array(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Option<Self>> {
        const NAME: &str = "sharding_indexed";
        let codecs = meta.document.get("codecs").and_then(Value::as_array);
        let Some(codecs) = codecs.filter(|c| c.iter().any(|c| codec_name(c) == Some(NAME))) else {
            return Ok(None);
        };
        let bad = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
        let [only] = &codecs[..] else {
            return Err(bad("shards are combined with other codecs")
                .expected("sharding_indexed alone")
                .found(format!(
                    "{:?}",
                    codecs.iter().map(codec_name).collect::<Vec<_>>()
                )));
        };
        let field = |name: &str| only.pointer(&format!("/configuration/{name}"));
        let list = |name: &str| field(name).and_then(Value::as_array);
        let inner: Option<Vec<u64>> =
            list("chunk_shape").and_then(|l| l.iter().map(Value::as_u64).collect());
        let (Some(inner), Some(inner_codecs), Some(index)) =
            (inner, list("codecs"), list("index_codecs"))
        else {
            return Err(bad("sharding without chunk_shape, codecs or index_codecs"));
        };
        let divides = inner.len() == meta.chunk.len()
            && std::iter::zip(&meta.chunk, &inner).all(|(c, i)| *i > 0 && c % i == 0);
        if !divides {
            return Err(bad("inner chunks do not divide their shard")
                .expected(format!("a divisor of {:?}", meta.chunk))
                .found(format!("{inner:?}")));
        }
        let little = index.first().is_some_and(|c| {
            codec_name(c) == Some("bytes")
                && c.pointer("/configuration/endian").and_then(Value::as_str) == Some("little")
        });
        let rest: Vec<_> = index.iter().skip(1).map(codec_name).collect();
        let checksum = match &rest[..] {
            [] if little => false,
            [Some("crc32c")] if little => true,
            _ => {
                return Err(bad("cannot read the index of these shards")
                    .expected("little-endian bytes, with or without crc32c")
                    .found(Value::from(index.clone())));
            }
        };
        if inner_codecs.iter().any(|c| codec_name(c) == Some(NAME)) {
            return Err(bad("shards within shards are not served"));
        }
        let counts: Vec<u64> = std::iter::zip(&meta.chunk, &inner)
            .map(|(c, i)| c / i)
            .collect();
        let index = limits::values(counts.iter().copied()).and_then(|n| n.checked_mul(16));
        let most = group.limits.chunk_bytes;
        if index.is_none_or(|bytes| bytes > most) {
            return Err(bad("the index of a shard is larger than the limit")
                .expected(format!("at most {most} bytes (chunk_bytes)"))
                .found(format!("16 bytes for each of {counts:?} inner chunks")));
        }
        let piece = limits::values(inner.iter().copied()).and_then(|n| n.checked_mul(WIDEST));
        let piece = piece.and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Some(Self {
            inner,
            codecs: inner_codecs.clone(),
            counts,
            checksum,
            at_end: field("index_location").and_then(Value::as_str) != Some("start"),
            piece: piece.unwrap_or(usize::MAX),
        }))
    }

    /// Position in the index of the inner chunk at these indices within the shard.
    pub(crate) fn position(&self, indices: &[u64]) -> usize {
        let position = std::iter::zip(&self.counts, indices).fold(0, |p, (n, i)| p * n + i);
        position as usize
    }

    /// Reads the index of a shard, and counts its bytes.
    ///
    /// # Errors
    /// The file is shorter than its index, the checksum is wrong, or an extent leaves the file.
    pub(crate) fn read_index(
        &self,
        file: &OpenFile,
        buffers: &mut ReadBuffers,
        stored_bytes: &mut u64,
    ) -> Result<Index> {
        let chunks: u64 = self.counts.iter().product();
        let length = chunks * 16 + if self.checksum { 4 } else { 0 };
        let size = file.size().map_err(read_error)?;
        if size < length {
            return Err(
                Error::new(ErrorKind::Corrupt, "a shard is shorter than its index")
                    .expected(format!("at least {length} bytes"))
                    .found(format!("{size} bytes")),
            );
        }
        let offset = if self.at_end { size - length } else { 0 };
        let bytes = file.bytes_at(offset, length as usize, buffers);
        let mut bytes = bytes.map_err(read_error)?;
        *stored_bytes += length;
        if self.checksum {
            bytes = without_checksum(bytes)?;
        }
        let entry = |(at, entry): (usize, &[[u8; 8]; 2])| {
            let [offset, length] = entry.map(u64::from_le_bytes);
            if offset == u64::MAX && length == u64::MAX {
                return Ok(None);
            }
            let end = offset.checked_add(length);
            if end.is_none_or(|end| end > size) {
                return Err(
                    Error::new(ErrorKind::Corrupt, "a shard's index leaves the shard")
                        .expected(format!("an end within {size} bytes"))
                        .found(format!("inner chunk {at}: {length} bytes at {offset}")),
                );
            }
            check_encoded(length, self.piece)?;
            Ok(Some(Extent { offset, length }))
        };
        let entries = bytes.as_chunks::<8>().0.as_chunks::<2>().0;
        let mut index = Index::new();
        index.try_reserve_exact(entries.len()).map_err(|e| {
            Error::new(ErrorKind::Io, "no memory for the index of a shard").caused_by(e)
        })?;
        for entry_at in entries.iter().enumerate() {
            index.push(entry(entry_at)?);
        }
        Ok(index)
    }
}
