//! Sizes and checksums of decoded bytes, and how damage is told.

use crate::error::{Error, ErrorKind, Result};
use std::io::Read;

pub(crate) fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

/// Both sizes, as every codec reports them.
pub(crate) fn check_size(expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(corrupt("a chunk decodes to the wrong size")
        .expected(format!("{expected} bytes"))
        .found(format!("{found} bytes")))
}

/// All bytes of a decoder that has at most `most`.
pub(crate) fn read_at_most(decoder: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = decoder.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| corrupt("a chunk does not decode").caused_by(e))?;
    if bytes.len() as u64 > most {
        return Err(corrupt("a chunk decodes to more bytes than it can")
            .expected(format!("at most {most} bytes"))
            .found("more"));
    }
    Ok(bytes)
}

/// Cuts off and checks a CRC-32C.
pub(crate) fn without_checksum(encoded: &[u8]) -> Result<&[u8]> {
    let Some((bytes, stored)) = encoded.split_last_chunk::<4>() else {
        return Err(corrupt("a chunk is shorter than its checksum")
            .expected("at least 4 bytes")
            .found(format!("{} bytes", encoded.len())));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c::crc32c(bytes));
    if stored != computed {
        return Err(corrupt("the checksum of a chunk is wrong")
            .expected(format!("{stored:#010x} over bytes 0..{}", bytes.len()))
            .found(format!("{computed:#010x}")));
    }
    Ok(bytes)
}
