//! Zstandard.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::codec::size::{check_size, corrupt};
use std::io::Read;
use zstd::bulk::Decompressor;

/// Decodes into memory of exactly the decoded size.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: damaged bytes, or another decoded size.
pub(crate) fn decode_into(
    encoded: &[u8],
    out: &mut [u8],
    decoder: &mut Option<Decompressor<'static>>,
) -> Result<()> {
    if let Ok(Some(size)) = zstd::zstd_safe::get_frame_content_size(encoded)
        && size > out.len() as u64
    {
        return Err(corrupt("a chunk decodes to the wrong size")
            .expected(format!("{} bytes", out.len()))
            .found(format!("{size} bytes")));
    }
    let decoder = match decoder {
        Some(decoder) => decoder,
        None => decoder.insert(
            Decompressor::new()
                .map_err(|e| Error::new(ErrorKind::Io, "cannot start zstd").caused_by(e))?,
        ),
    };
    let written = decoder
        .decompress_to_buffer(encoded, out)
        .map_err(|e| corrupt("a zstd chunk does not decode").caused_by(e))?;
    check_size(out.len(), written)
}

/// Decodes piece by piece.
///
/// # Errors
/// The library has no memory for it.
pub(crate) fn reader(encoded: &[u8]) -> Result<impl Read> {
    zstd::stream::read::Decoder::with_buffer(encoded)
        .map_err(|e| Error::new(ErrorKind::Io, "cannot start zstd").caused_by(e))
}
