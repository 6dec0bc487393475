//! zlib.

use crate::error::Result;
use crate::zarr::codec::size::{check_size, corrupt};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::Read;

/// Decodes into memory of exactly the decoded size.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): damaged bytes, or another decoded size.
pub(crate) fn decode_into(
    encoded: &[u8],
    out: &mut [u8],
    decoder: &mut Option<Decompress>,
) -> Result<()> {
    let decoder = decoder.get_or_insert_with(|| Decompress::new(true));
    decoder.reset(true);
    let failed = |e| corrupt("a zlib chunk does not decode").caused_by(e);
    let mut status = decoder
        .decompress(encoded, out, FlushDecompress::Finish)
        .map_err(failed)?;
    let mut spare = [0];
    if status != Status::StreamEnd && decoder.total_out() == out.len() as u64 {
        // The memory is full before the end of the stream was seen: the checksum may be all that is
        // left, or there is more data than there should be.
        let rest = &encoded[decoder.total_in() as usize..];
        status = decoder
            .decompress(rest, &mut spare, FlushDecompress::Finish)
            .map_err(failed)?;
    }
    // zlib's own reader takes a stream without its checksum for complete; here it is not.
    let written = usize::try_from(decoder.total_out()).unwrap_or(usize::MAX);
    check_size(out.len(), written)?;
    if status != Status::StreamEnd {
        return Err(corrupt("a zlib chunk is cut short")
            .expected("the end of the stream")
            .found(format!("the end of {} bytes", encoded.len())));
    }
    if decoder.total_in() != encoded.len() as u64 {
        return Err(corrupt("bytes follow a zlib chunk")
            .expected(format!("{} bytes", decoder.total_in()))
            .found(format!("{} bytes", encoded.len())));
    }
    Ok(())
}

/// Decodes piece by piece.
pub(crate) fn reader(encoded: &[u8]) -> impl Read {
    flate2::bufread::ZlibDecoder::new(encoded)
}
