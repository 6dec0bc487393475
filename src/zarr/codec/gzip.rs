//! gzip: one or more members.

use crate::error::Result;
use crate::zarr::codec::size::{check_size, corrupt};
use flate2::bufread::MultiGzDecoder;
use std::io::Read;

/// Decodes into memory of exactly the decoded size.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): damaged bytes, or another decoded size.
pub(crate) fn decode_into(encoded: &[u8], out: &mut [u8]) -> Result<()> {
    let failed = |e| corrupt("a gzip chunk does not decode").caused_by(e);
    let mut decoder = MultiGzDecoder::new(encoded);
    let mut written = 0;
    while written < out.len() {
        match decoder.read(&mut out[written..]).map_err(failed)? {
            0 => break,
            n => written += n,
        }
    }
    check_size(out.len(), written)?;
    // The trailer, with its checksum and size, is read and checked only when more is asked for.
    match decoder.read(&mut [0]).map_err(failed)? {
        0 => Ok(()),
        _ => Err(corrupt("a chunk decodes to the wrong size")
            .expected(format!("{written} bytes"))
            .found("more")),
    }
}

/// Decodes piece by piece.
pub(crate) fn reader(encoded: &[u8]) -> impl Read {
    MultiGzDecoder::new(encoded)
}
