//! The LZ4 codec of numcodecs, which zarrs lacks: four bytes of decoded size, little-endian, then
//! one LZ4 block. Zarr v2 calls it `lz4`, v3 `numcodecs.lz4`.

use crate::error::Result;
use crate::zarr::codec::size::corrupt;
use std::borrow::Cow;
use std::sync::{Arc, Once};
use zarrs::array::codec::api::{
    BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecRuntimePluginV2, CodecRuntimePluginV3, CodecTraits, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency, register_codec_v2, register_codec_v3,
};
use zarrs::array::{ArrayBytesRaw, BytesRepresentation};
use zarrs::metadata::Configuration;
use zarrs::plugin::{ExtensionName, ZarrVersion};

const V2_NAME: &str = "lz4";
const V3_NAME: &str = "numcodecs.lz4";

/// Bytes of the size that stands before the block.
const HEADER: usize = 4;

/// Makes zarrs know the codec; once per process.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let codec = || Codec::BytesToBytes(Arc::new(Lz4Codec));
        register_codec_v2(CodecRuntimePluginV2::new(
            |name| name == V2_NAME,
            move |_| Ok(codec()),
        ));
        register_codec_v3(CodecRuntimePluginV3::new(
            |name| name == V3_NAME || name == V2_NAME,
            move |_| Ok(codec()),
        ));
    });
}

/// Decodes into memory of exactly the decoded size.
///
/// # Errors
/// Another decoded size than `decoded` has room for, or bytes that are no LZ4 block.
pub(crate) fn decode_into(encoded: &[u8], decoded: &mut [u8]) -> Result<()> {
    let (size, block) = split(encoded)?;
    if size != decoded.len() {
        return Err(corrupt("a chunk decodes to the wrong size")
            .expected(format!("{} bytes", decoded.len()))
            .found(format!("{size} bytes")));
    }
    let written = lz4_flex::block::decompress_into(block, decoded)
        .map_err(|e| corrupt("not an LZ4 block").caused_by(e))?;
    if written != size {
        return Err(corrupt("an LZ4 block ends early")
            .expected(format!("{size} bytes"))
            .found(format!("{written} bytes")));
    }
    Ok(())
}

/// The size that a chunk says it decodes to.
///
/// # Errors
/// It is too short to say one.
pub(crate) fn decoded_size(encoded: &[u8]) -> Result<u64> {
    split(encoded).map(|(size, _)| size as u64)
}

fn split(encoded: &[u8]) -> Result<(usize, &[u8])> {
    let Some((header, block)) = encoded.split_first_chunk::<HEADER>() else {
        return Err(corrupt("an LZ4 chunk is too short")
            .expected("at least 4 bytes")
            .found(encoded.len()));
    };
    Ok((u32::from_le_bytes(*header) as usize, block))
}

#[derive(Debug)]
struct Lz4Codec;

impl ExtensionName for Lz4Codec {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match version {
            ZarrVersion::V2 => V2_NAME,
            ZarrVersion::V3 => V3_NAME,
        }))
    }
}

impl CodecTraits for Lz4Codec {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn configuration(&self, _: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        Some(Configuration::default())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability {
            partial_read: false,
            partial_decode: false,
        }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability {
            partial_encode: false,
        }
    }
}

impl BytesToBytesCodecTraits for Lz4Codec {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(
        &self,
        _: &BytesRepresentation,
    ) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }

    fn encoded_representation(&self, decoded: &BytesRepresentation) -> BytesRepresentation {
        let bound = |size: u64| {
            // LZ4_COMPRESSBOUND: incompressible bytes cost one more per 255, and 16.
            BytesRepresentation::BoundedSize(size + size / 255 + 16 + HEADER as u64)
        };
        let size = decoded.size();
        size.map_or(BytesRepresentation::UnboundedSize, bound)
    }

    fn encode<'a>(
        &self,
        decoded: ArrayBytesRaw<'a>,
        _: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let size = u32::try_from(decoded.len())
            .map_err(|_| CodecError::Other("an LZ4 chunk has 4 GiB or more".to_owned()))?;
        let mut encoded = size.to_le_bytes().to_vec();
        encoded.extend(lz4_flex::block::compress(&decoded));
        Ok(Cow::Owned(encoded))
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        representation: &BytesRepresentation,
        _: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        // The size comes from the metadata: a damaged header must not decide how much to allocate.
        let size = match representation {
            BytesRepresentation::FixedSize(size) => usize::try_from(*size).ok(),
            _ => None,
        };
        let size =
            size.ok_or_else(|| CodecError::Other("LZ4 needs a known decoded size".to_owned()))?;
        let mut decoded = vec![0; size];
        decode_into(&encoded, &mut decoded).map_err(|e| CodecError::Other(e.to_string()))?;
        Ok(Cow::Owned(decoded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn encoded(values: &[u8]) -> Vec<u8> {
        let raw = Cow::Borrowed(values);
        Lz4Codec
            .encode(raw, &CodecOptions::default())
            .unwrap()
            .into_owned()
    }

    #[test]
    fn decodes_what_numcodecs_writes() {
        // numcodecs.lz4.compress(b"abcabcabcabcabcabc"): size 18, token, 3 literals, a match.
        let mut out = [0; 18];
        let bytes = encoded(b"abcabcabcabcabcabc");
        assert_eq!(bytes[..4], [18, 0, 0, 0]);
        decode_into(&bytes, &mut out).unwrap();
        assert_eq!(&out, b"abcabcabcabcabcabc");
        // A block written by hand: token 0x30 = 3 literals and the end.
        let mut out = [0; 3];
        decode_into(&[3, 0, 0, 0, 0x30, b'x', b'y', b'z'], &mut out).unwrap();
        assert_eq!(&out, b"xyz");
    }

    #[test]
    fn damage_is_an_error_at_every_length() {
        let values: Vec<u8> = (0..400u32).map(|i| (i * i % 251) as u8).collect();
        let bytes = encoded(&values);
        let mut out = vec![0; values.len()];
        decode_into(&bytes, &mut out).unwrap();
        assert_eq!(out, values);
        for n in 0..bytes.len() {
            let e = decode_into(&bytes[..n], &mut out).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{n} bytes");
        }
        let mut small = vec![0; values.len() - 4];
        let e = decode_into(&bytes, &mut small).unwrap_err();
        assert!(
            e.to_string()
                .contains("expected 396 bytes, found 400 bytes")
        );
    }
}
