//! How the bytes of a chunk become `f32` values; decided once, when the array is opened.
//!
//! The usual codecs are decoded here, straight into the memory the values are wanted in, and never
//! into more memory than the metadata promises, however damaged the bytes are. Everything else -
//! filters, order F, codecs in another order - goes through zarrs and costs one buffer and one
//! copy. To decode another codec directly, add a variant of [`Compression`], an arm in
//! [`DirectCodec::decompress`] and a file in `codec`.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::array::ZarrArray;
use crate::zarr::codec::decoders::Decoders;
use crate::zarr::codec::size::{check_size, corrupt, without_checksum};
use crate::zarr::codec::{blosc, gzip, lz4, zlib, zstd};
use crate::zarr::metadata::{ArrayMeta, ZarrFormat, codec_name};
use serde_json::Value;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;
use zarrs::array::codec::api::CodecOptions;
use zarrs::array::{ArrayToBytesCodecTraits, CodecChain, DataType, FillValue};
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
    /// The stored byte order is not this machine's.
    swap: bool,
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
    codecs: Arc<CodecChain>,
    shape: Vec<NonZeroU64>,
    dtype: DataType,
    fill: FillValue,
    /// The bytes begin with a blosc header whose size can be checked before blosc trusts it.
    blosc: bool,
}

impl ChunkCodec {
    /// The codec of an unsharded array.
    pub(crate) fn of_array(format: ZarrFormat, meta: &ArrayMeta, array: &ZarrArray) -> Self {
        let codecs = meta.document.get("codecs").and_then(Value::as_array);
        let direct = match format {
            ZarrFormat::V2 => DirectCodec::of_v2(meta),
            ZarrFormat::V3 => codecs.and_then(|codecs| DirectCodec::of_v3(codecs)),
        };
        if let Some(direct) = direct {
            return Self::Direct(direct);
        }
        let blosc = match format {
            ZarrFormat::V2 => {
                let filters = meta.document.get("filters").and_then(Value::as_array);
                filters.is_none_or(Vec::is_empty)
                    && meta.document.pointer("/compressor/id") == Some(&Value::from("blosc"))
            }
            ZarrFormat::V3 => codecs.is_some_and(|codecs| ends_in_blosc(codecs)),
        };
        Self::Chain(Chain::new(
            array.zarrs().codecs(),
            &meta.chunk,
            array,
            blosc,
        ))
    }

    /// The codec of the chunks inside a shard.
    ///
    /// # Errors
    /// Codecs that zarrs does not know.
    pub(crate) fn of_inner(codecs: &[Value], shape: &[u64], array: &ZarrArray) -> Result<Self> {
        if let Some(direct) = DirectCodec::of_v3(codecs) {
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
        let blosc = ends_in_blosc(codecs);
        Ok(Self::Chain(Chain::new(
            Arc::new(chain),
            shape,
            array,
            blosc,
        )))
    }

    /// Whether the stored bytes are the values as they lie in memory, so that any part of a chunk
    /// can be read by itself.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Direct(DirectCodec {
                compression: Compression::None,
                checksum: false,
                swap: false,
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
                decoded.copy_from_slice(&chain.decode(encoded, decoded.len())?);
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
                scratch.resize(size, 0);
                direct.decode_into(encoded, scratch, decoders)?;
                Ok(Cow::Borrowed(scratch))
            }
            Self::Chain(chain) => Ok(Cow::Owned(chain.decode(encoded, size)?)),
        }
    }
}

impl DirectCodec {
    fn of_v2(meta: &ArrayMeta) -> Option<Self> {
        let field = |name: &str| meta.document.get(name).filter(|v| !v.is_null());
        let no_filters = field("filters").is_none_or(|f| f.as_array().is_some_and(Vec::is_empty));
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
            swap: meta.dtype.starts_with('>') != cfg!(target_endian = "big"),
        })
    }

    fn of_v3(codecs: &[Value]) -> Option<Self> {
        let (first, rest) = codecs.split_first()?;
        if codec_name(first)? != "bytes" {
            return None;
        }
        let endian = first.pointer("/configuration/endian");
        let big = match endian.and_then(Value::as_str)? {
            "little" => false,
            "big" => true,
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
            swap: big != cfg!(target_endian = "big"),
        })
    }

    fn decode_into(&self, encoded: &[u8], out: &mut [u8], decoders: &mut Decoders) -> Result<()> {
        let encoded = if self.checksum {
            without_checksum(encoded)?
        } else {
            encoded
        };
        self.decompress(encoded, out, decoders)?;
        if self.swap {
            for value in out.as_chunks_mut::<4>().0 {
                value.reverse();
            }
        }
        Ok(())
    }

    fn decompress(&self, encoded: &[u8], out: &mut [u8], decoders: &mut Decoders) -> Result<()> {
        match self.compression {
            Compression::None => {
                check_size(out.len(), encoded.len())?;
                out.copy_from_slice(encoded);
                Ok(())
            }
            Compression::Zstd => zstd::decode_into(encoded, out, &mut decoders.zstd),
            Compression::Gzip => gzip::decode_into(encoded, out),
            Compression::Zlib => zlib::decode_into(encoded, out, &mut decoders.zlib),
            Compression::Lz4 => lz4::decode_into(encoded, out),
            Compression::Blosc => blosc::decode_into(encoded, out),
        }
    }
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
}

impl Chain {
    fn new(codecs: Arc<CodecChain>, shape: &[u64], array: &ZarrArray, blosc: bool) -> Self {
        Self {
            codecs,
            shape: shape.iter().filter_map(|n| NonZeroU64::new(*n)).collect(),
            dtype: array.zarrs().data_type().clone(),
            fill: array.zarrs().fill_value().clone(),
            blosc,
        }
    }

    fn decode(&self, encoded: &[u8], size: usize) -> Result<Vec<u8>> {
        if self.blosc {
            blosc::check_header(encoded, size)?;
        }
        // One thread per chunk: the parallelism is across chunks, in the reader's pool.
        let options = CodecOptions::default().with_concurrent_target(1);
        let decoded = self
            .codecs
            .decode(
                Cow::Borrowed(encoded),
                &self.shape,
                &self.dtype,
                &self.fill,
                &options,
            )
            .map_err(|e| corrupt("a chunk does not decode").caused_by(e))?
            .into_fixed()
            .map_err(|e| corrupt("a chunk does not decode").caused_by(e))?;
        check_size(size, decoded.len())?;
        Ok(decoded.into_owned())
    }
}

/// Whether the only compressor of these v3 codecs is blosc, and comes last.
fn ends_in_blosc(codecs: &[Value]) -> bool {
    let [bytes, blosc] = codecs else {
        return false;
    };
    codec_name(bytes) == Some("bytes")
        && matches!(codec_name(blosc), Some("blosc" | "numcodecs.blosc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn direct(compression: Compression, checksum: bool) -> DirectCodec {
        DirectCodec {
            compression,
            checksum,
            swap: false,
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
            DirectCodec::of_v3(&codecs)
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
        let lz4 = json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}});
        assert_eq!(of(&[&bytes, &lz4]), Some(direct(Compression::Lz4, false)));
    }
}
