//! How the bytes of a chunk become `f32` values; decided once, when the array is opened.
//!
//! The usual codecs are decoded here, straight into the memory the values are wanted in, and never
//! into more memory than the metadata promises, however damaged the bytes are. Everything else -
//! filters, order F, codecs in another order - goes through zarrs and costs one buffer and one
//! copy; what compresses is decoded here even then, because zarrs believes what the bytes say of
//! their size. To decode another codec directly, add a variant of [`Compression`], an arm in
//! [`DirectCodec`] and a file in `codec`.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::array::ZarrArray;
use crate::zarr::codec::decoders::Decoders;
use crate::zarr::codec::served::is_identity;
use crate::zarr::codec::size::{self, check_size, corrupt, without_checksum};
use crate::zarr::codec::{blosc, gzip, lz4, zlib, zstd};
use crate::zarr::format::ZarrFormat;
use crate::zarr::metadata::{ArrayMeta, codec_name};
use serde_json::Value;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;
use zarrs::array::codec::api::{BytesToBytesCodecTraits, CodecOptions};
use zarrs::array::{ArrayToBytesCodecTraits, BytesRepresentation};
use zarrs::array::{CodecChain, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;

/// The way from stored bytes to values.
#[derive(Clone, Debug)]
pub(crate) enum ChunkCodec {
    /// Decoded here.
    Direct(DirectCodec),
    /// Decoded by zarrs.
    Chain(Chain),
}

/// At most one compressor, then at most one checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectCodec {
    compression: Compression,
    /// A CRC-32C (Castagnoli), little-endian, in the last four bytes.
    checksum: bool,
    /// Bytes of a value where the stored byte order is not this machine's, else 1.
    swap: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
    Gzip,
    Zlib,
    Lz4,
    Blosc,
}

/// A codec chain of zarrs with what it needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Filters, and values as bytes: nothing that changes the size by what the bytes say.
    values: Arc<CodecChain>,
    /// What encodes the bytes further, in that order.
    steps: Vec<Step>,
    shape: Vec<NonZeroU64>,
    dtype: DataType,
    fill: FillValue,
}

/// A codec from bytes to bytes, and the size of what it decodes to, as far as it is known.
#[derive(Clone, Debug)]
struct Step {
    codec: Arc<dyn BytesToBytesCodecTraits>,
    /// `None` for shuffles and checksums, which are zarrs' own business.
    compression: Option<Compression>,
    decoded: BytesRepresentation,
}

impl ChunkCodec {
    /// The codec of an unsharded array.
    pub(crate) fn of_array(format: ZarrFormat, meta: &ArrayMeta, array: &ZarrArray) -> Self {
        let codecs = meta.document.get("codecs").and_then(Value::as_array);
        let direct = match format {
            ZarrFormat::V2 => DirectCodec::of_v2(meta, array.value_size()),
            ZarrFormat::V3 => codecs.and_then(|c| DirectCodec::of_v3(c, array.value_size())),
        };
        match direct {
            Some(direct) => Self::Direct(direct),
            None => Self::Chain(Chain::new(&array.zarrs().codecs(), &meta.chunk, array)),
        }
    }

    /// The codec of the chunks inside a shard.
    ///
    /// # Errors
    /// Codecs that zarrs does not know.
    pub(crate) fn of_inner(codecs: &[Value], shape: &[u64], array: &ZarrArray) -> Result<Self> {
        if let Some(direct) = DirectCodec::of_v3(codecs, array.value_size()) {
            return Ok(Self::Direct(direct));
        }
        let unknown = || {
            Error::new(
                ErrorKind::Metadata,
                "cannot decode the chunks inside shards",
            )
        };
        let metadata: Vec<MetadataV3> = serde_json::from_value(Value::from(codecs.to_vec()))
            .map_err(|e| unknown().caused_by(e))?;
        let chain = CodecChain::from_metadata(&metadata).map_err(|e| unknown().caused_by(e))?;
        Ok(Self::Chain(Chain::new(&chain, shape, array)))
    }

    /// Whether the stored bytes are the values as they lie in memory, so that any part of a chunk
    /// can be read by itself.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Direct(DirectCodec {
                compression: Compression::None,
                checksum: false,
                swap: 1,
            })
        )
    }

    /// Decodes a chunk into memory of exactly its size.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: bytes that are damaged, cut short, or of the wrong decoded size.
    pub(crate) fn decode_into(
        &self,
        encoded: &[u8],
        decoded: &mut [u8],
        decoders: &mut Decoders,
    ) -> Result<()> {
        match self {
            Self::Direct(direct) => direct.decode_into(encoded, decoded, decoders),
            Self::Chain(chain) => {
                decoded.copy_from_slice(&chain.decode(encoded, decoded.len(), decoders)?);
                Ok(())
            }
        }
    }

    /// Decodes a chunk of `size` bytes to wherever that costs least: `encoded` itself, `scratch`,
    /// or a buffer of its own.
    ///
    /// # Errors
    /// As [`ChunkCodec::decode_into`].
    pub(crate) fn decode<'a>(
        &self,
        encoded: &'a [u8],
        size: usize,
        scratch: &'a mut Vec<u8>,
        decoders: &mut Decoders,
    ) -> Result<Cow<'a, [u8]>> {
        match self {
            Self::Direct(_) if self.is_plain() => {
                check_size(size, encoded.len())?;
                Ok(Cow::Borrowed(encoded))
            }
            Self::Direct(direct) => {
                sized(scratch, size)?;
                direct.decode_into(encoded, scratch, decoders)?;
                Ok(Cow::Borrowed(scratch))
            }
            Self::Chain(chain) => Ok(Cow::Owned(chain.decode(encoded, size, decoders)?)),
        }
    }
}

impl DirectCodec {
    fn of_v2(meta: &ArrayMeta, value: usize) -> Option<Self> {
        let field = |name: &str| meta.document.get(name).filter(|v| !v.is_null());
        let no_filters = field("filters")
            .is_none_or(|f| f.as_array().is_some_and(|f| f.iter().all(is_identity)));
        if field("order")?.as_str() != Some("C") || !no_filters {
            return None;
        }
        let compression = match field("compressor") {
            None => Compression::None,
            Some(compressor) => Compression::named(compressor.get("id")?.as_str()?)?,
        };
        Some(Self {
            compression,
            checksum: false,
            swap: swap(meta.dtype.starts_with('>'), value),
        })
    }

    fn of_v3(codecs: &[Value], value: usize) -> Option<Self> {
        let filters = codecs.iter().take_while(|c| is_identity(c)).count();
        let (first, rest) = codecs[filters..].split_first()?;
        if codec_name(first)? != "bytes" {
            return None;
        }
        let endian = first.pointer("/configuration/endian");
        let big = match endian.map(Value::as_str) {
            // One byte has no order.
            None if value == 1 => false,
            Some(Some("little")) => false,
            Some(Some("big")) => true,
            _ => return None,
        };
        let names: Vec<&str> = rest.iter().map(codec_name).collect::<Option<_>>()?;
        let (names, checksum) = match names.split_last() {
            Some((&"crc32c", before)) => (before, true),
            _ => (&names[..], false),
        };
        let compression = match names {
            [] => Compression::None,
            [one] => Compression::named(one.strip_prefix("numcodecs.").unwrap_or(one))?,
            _ => return None,
        };
        Some(Self {
            compression,
            checksum,
            swap: swap(big, value),
        })
    }

    fn decode_into(&self, encoded: &[u8], out: &mut [u8], decoders: &mut Decoders) -> Result<()> {
        let encoded = if self.checksum {
            without_checksum(encoded)?
        } else {
            encoded
        };
        self.compression.decode_into(encoded, out, decoders)?;
        match self.swap {
            2 => reverse::<2>(out),
            4 => reverse::<4>(out),
            8 => reverse::<8>(out),
            _ => {}
        }
        Ok(())
    }
}

/// What the bytes of a value are reversed by: its size, or 1 where it is in this machine's order.
fn swap(big: bool, value: usize) -> usize {
    if big == cfg!(target_endian = "big") {
        1
    } else {
        value
    }
}

fn reverse<const N: usize>(bytes: &mut [u8]) {
    for value in bytes.as_chunks_mut::<N>().0 {
        value.reverse();
    }
}

/// Gives `bytes` this size.
///
/// # Errors
/// The system has no such memory.
pub(crate) fn sized(bytes: &mut Vec<u8>, size: usize) -> Result<()> {
    let lacking = size.saturating_sub(bytes.len());
    bytes.try_reserve_exact(lacking).map_err(|e| {
        let message = format!("no memory for a chunk of {size} bytes");
        Error::new(ErrorKind::Io, message).caused_by(e)
    })?;
    bytes.resize(size, 0);
    Ok(())
}

impl Compression {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "zstd" => Self::Zstd,
            "gzip" => Self::Gzip,
            "zlib" => Self::Zlib,
            "lz4" => Self::Lz4,
            "blosc" => Self::Blosc,
            _ => return None,
        })
    }

    /// Decodes into memory of exactly the decoded size.
    fn decode_into(self, encoded: &[u8], out: &mut [u8], decoders: &mut Decoders) -> Result<()> {
        match self {
            Self::None => {
                check_size(out.len(), encoded.len())?;
                out.copy_from_slice(encoded);
                Ok(())
            }
            Self::Zstd => zstd::decode_into(encoded, out, &mut decoders.zstd),
            Self::Gzip => gzip::decode_into(encoded, out),
            Self::Zlib => zlib::decode_into(encoded, out, &mut decoders.zlib),
            Self::Lz4 => lz4::decode_into(encoded, out),
            Self::Blosc => blosc::decode_into(encoded, out),
        }
    }

    /// Decodes to at most `most` bytes.
    fn decode_at_most(self, encoded: &[u8], most: u64, decoders: &mut Decoders) -> Result<Vec<u8>> {
        let size = match self {
            Self::None => encoded.len() as u64,
            Self::Lz4 => lz4::decoded_size(encoded)?,
            Self::Blosc => blosc::decoded_size(encoded)?,
            Self::Zstd => return size::read_at_most(zstd::reader(encoded)?, most),
            Self::Gzip => return size::read_at_most(gzip::reader(encoded), most),
            Self::Zlib => return size::read_at_most(zlib::reader(encoded), most),
        };
        if size > most {
            return Err(corrupt("a chunk decodes to more bytes than it can")
                .expected(format!("at most {most} bytes"))
                .found(format!("{size} bytes")));
        }
        let mut out = Vec::new();
        sized(&mut out, size as usize)?;
        self.decode_into(encoded, &mut out, decoders)?;
        Ok(out)
    }
}

impl Chain {
    fn new(codecs: &CodecChain, shape: &[u64], array: &ZarrArray) -> Self {
        let shape: Vec<NonZeroU64> = shape.iter().filter_map(|n| NonZeroU64::new(*n)).collect();
        let (dtype, fill) = (array.zarrs().data_type(), array.zarrs().fill_value());
        let values = CodecChain::new(
            codecs.array_to_array_codecs().to_vec(),
            codecs.array_to_bytes_codec().clone(),
            Vec::new(),
        );
        let bytes = values.encoded_representation(&shape, dtype, fill);
        let mut decoded = bytes.unwrap_or(BytesRepresentation::UnboundedSize);
        let steps = codecs.bytes_to_bytes_codecs().iter().map(|codec| {
            let name = codec.name_v3().unwrap_or_default();
            let step = Step {
                codec: codec.clone(),
                compression: Compression::named(name.strip_prefix("numcodecs.").unwrap_or(&name)),
                decoded,
            };
            decoded = codec.encoded_representation(&decoded);
            step
        });
        Self {
            steps: steps.collect(),
            values: Arc::new(values),
            shape,
            dtype: dtype.clone(),
            fill: fill.clone(),
        }
    }

    fn decode(&self, encoded: &[u8], size: usize, decoders: &mut Decoders) -> Result<Vec<u8>> {
        // One thread per chunk: the parallelism is across chunks, in the reader's pool.
        let options = CodecOptions::default().with_concurrent_target(1);
        let mut bytes = Cow::Borrowed(encoded);
        for step in self.steps.iter().rev() {
            bytes = step.decode(bytes, &options, decoders)?;
        }
        let decoded = self
            .values
            .decode(bytes, &self.shape, &self.dtype, &self.fill, &options)
            .map_err(|e| corrupt("a chunk does not decode").caused_by(e))?
            .into_fixed()
            .map_err(|e| corrupt("a chunk does not decode").caused_by(e))?;
        check_size(size, decoded.len())?;
        Ok(decoded.into_owned())
    }
}

impl Step {
    fn decode<'a>(
        &self,
        encoded: Cow<'a, [u8]>,
        options: &CodecOptions,
        decoders: &mut Decoders,
    ) -> Result<Cow<'a, [u8]>> {
        let Some(compression) = self.compression else {
            let decoded = self.codec.decode(encoded, &self.decoded, options);
            return decoded.map_err(|e| corrupt("a chunk does not decode").caused_by(e));
        };
        if let BytesRepresentation::FixedSize(size) = self.decoded {
            let mut out = Vec::new();
            sized(&mut out, usize::try_from(size).unwrap_or(usize::MAX))?;
            compression.decode_into(&encoded, &mut out, decoders)?;
            return Ok(Cow::Owned(out));
        }
        let most = self.decoded.size().unwrap_or(MOST_UNKNOWN);
        Ok(Cow::Owned(
            compression.decode_at_most(&encoded, most, decoders)?,
        ))
    }
}

/// What a codec may decode to where the ones before it say nothing of their size.
const MOST_UNKNOWN: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn direct(compression: Compression, checksum: bool) -> DirectCodec {
        DirectCodec {
            compression,
            checksum,
            swap: 1,
        }
    }

    fn values() -> Vec<u8> {
        (0..1200u32)
            .flat_map(|i| (i as f32).sin().to_le_bytes())
            .collect()
    }

    fn encode(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::new(4);
        match compression {
            Compression::None => bytes.to_vec(),
            Compression::Zstd => ::zstd::bulk::compress(bytes, 1).unwrap(),
            Compression::Gzip => {
                let mut w = flate2::write::GzEncoder::new(Vec::new(), level);
                w.write_all(bytes).unwrap();
                w.finish().unwrap()
            }
            Compression::Zlib => {
                let mut w = flate2::write::ZlibEncoder::new(Vec::new(), level);
                w.write_all(bytes).unwrap();
                w.finish().unwrap()
            }
            Compression::Lz4 => {
                let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
                out.extend(lz4_flex::block::compress(bytes));
                out
            }
            Compression::Blosc => crate::zarr::codec::blosc::tests::encode(bytes),
        }
    }

    const ALL: [Compression; 6] = [
        Compression::None,
        Compression::Zstd,
        Compression::Gzip,
        Compression::Zlib,
        Compression::Lz4,
        Compression::Blosc,
    ];

    #[test]
    fn every_direct_codec_round_trips_and_refuses_every_truncation() {
        let values = values();
        let mut decoders = Decoders::default();
        for compression in ALL {
            let codec = direct(compression, false);
            let bytes = encode(compression, &values);
            let mut out = vec![0; values.len()];
            codec.decode_into(&bytes, &mut out, &mut decoders).unwrap();
            assert_eq!(out, values, "{compression:?}");
            for n in 0..bytes.len() {
                let e = codec.decode_into(&bytes[..n], &mut out, &mut decoders);
                let e = e.expect_err(&format!("{compression:?} cut to {n} bytes"));
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{compression:?} {n}: {e}");
            }
            // A failure leaves the decoder fit for the next chunk.
            codec.decode_into(&bytes, &mut out, &mut decoders).unwrap();
            assert_eq!(out, values, "{compression:?}");
        }
    }

    #[test]
    fn a_wrong_decoded_size_names_both_sizes_or_is_corrupt() {
        let values = values();
        let mut decoders = Decoders::default();
        for compression in ALL {
            let codec = direct(compression, false);
            let bytes = encode(compression, &values);
            for size in [values.len() - 4, values.len() + 4, 0] {
                let e = codec
                    .decode_into(&bytes, &mut vec![0; size], &mut decoders)
                    .expect_err(&format!("{compression:?} into {size} bytes"));
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{compression:?}: {e}");
            }
            let e = codec
                .decode_into(&bytes, &mut vec![0; values.len() + 4], &mut decoders)
                .unwrap_err()
                .to_string();
            assert!(e.contains("4804 bytes") && e.contains("4800 bytes"), "{e}");
        }
    }

    #[test]
    fn no_compression_decodes_to_more_than_it_may() {
        let values = values();
        let mut decoders = Decoders::default();
        let size = values.len() as u64;
        for compression in ALL {
            let bytes = encode(compression, &values);
            for most in [size, size + 1, 1 << 40] {
                let found = compression.decode_at_most(&bytes, most, &mut decoders);
                assert_eq!(found.unwrap(), values, "{compression:?}");
            }
            for most in [0, 1, size - 1] {
                let e = compression.decode_at_most(&bytes, most, &mut decoders);
                let e = e.expect_err(&format!("{compression:?} to {most} bytes"));
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{compression:?}: {e}");
                assert!(
                    e.to_string().contains(&format!("at most {most} bytes")),
                    "{e}"
                );
            }
        }
    }

    #[test]
    fn values_of_every_size_are_reversed() {
        for (size, expected) in [
            (1, [1, 2, 3, 4, 5, 6, 7, 8]),
            (2, [2, 1, 4, 3, 6, 5, 8, 7]),
            (4, [4, 3, 2, 1, 8, 7, 6, 5]),
            (8, [8, 7, 6, 5, 4, 3, 2, 1]),
        ] {
            let codec = DirectCodec {
                swap: size,
                ..direct(Compression::None, false)
            };
            let mut out = [0; 8];
            let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
            codec
                .decode_into(&bytes, &mut out, &mut Decoders::default())
                .unwrap();
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_flipped_byte_is_found_by_the_checksum() {
        let values = values();
        let mut bytes = values.clone();
        bytes.extend(crc32c::crc32c(&values).to_le_bytes());
        let codec = direct(Compression::None, true);
        let mut out = vec![0; values.len()];
        let mut decoders = Decoders::default();
        codec.decode_into(&bytes, &mut out, &mut decoders).unwrap();
        assert_eq!(out, values);
        for at in [0, 777, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            let e = codec
                .decode_into(&bad, &mut out, &mut decoders)
                .unwrap_err();
            assert!(e.to_string().contains("checksum"), "{e}");
        }
    }

    #[test]
    fn v3_codec_lists_are_direct_only_where_they_are_understood() {
        let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let zstd = json!({"name": "zstd", "configuration": {"level": 0, "checksum": false}});
        let crc = json!({"name": "crc32c"});
        let of = |codecs: &[&Value]| {
            let codecs: Vec<Value> = codecs.iter().map(|c| (*c).clone()).collect();
            DirectCodec::of_v3(&codecs, 4)
        };
        assert_eq!(of(&[&bytes]), Some(direct(Compression::None, false)));
        assert_eq!(of(&[&bytes, &zstd]), Some(direct(Compression::Zstd, false)));
        assert_eq!(
            of(&[&bytes, &zstd, &crc]),
            Some(direct(Compression::Zstd, true))
        );
        assert_eq!(of(&[&bytes, &crc, &zstd]), None);
        assert_eq!(of(&[&json!({"name": "transpose"}), &bytes]), None);
        assert_eq!(of(&[&json!({"name": "bytes"})]), None);
        assert_eq!(of(&[]), None);
        let one_byte = [json!({"name": "bytes"})];
        let plain = direct(Compression::None, false);
        assert_eq!(DirectCodec::of_v3(&one_byte, 1), Some(plain));
        // It has done its work when a chunk was written.
        let bitround = json!({"name": "numcodecs.bitround", "configuration": {"keepbits": 9}});
        assert_eq!(of(&[&bitround, &bytes]), Some(plain));
        let lz4 = json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}});
        assert_eq!(of(&[&bytes, &lz4]), Some(direct(Compression::Lz4, false)));
    }
}
