//! Blosc, decoded by the C library straight into the memory the values are wanted in.
//!
//! The one place outside `host` with unsafe code: zarrs wraps the same library, but only into a
//! buffer of its own, whose copy costs a twelfth of the whole read.

use crate::error::Result;
use crate::zarr::codec::size::{check_size, corrupt};

/// Bytes of the header: version, format, flags and type size, then decoded size, block size and
/// encoded size, each `u32` little-endian.
const HEADER: usize = 16;

/// Decodes into memory of exactly the decoded size.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): another encoded or decoded size than the
/// header says, or bytes that the library refuses.
pub(crate) fn decode_into(encoded: &[u8], decoded: &mut [u8]) -> Result<()> {
    check_header(encoded, decoded.len())?;
    // One thread per chunk: the parallelism is across chunks, in the reader's pool.
    //
    // SAFETY: the library reads only the bytes that the header counts, and the header was just seen
    // to count exactly those of `encoded`, which stay what they are while they are borrowed (of
    // mapped files, `ReadMethod::Mmap` asks that of its user); it writes at most the size given,
    // which is that of `decoded`, and promises memory safety for damaged input. The slices cannot
    // overlap. This entry point uses no global state and needs no initialisation.
    let written = unsafe {
        decompress(
            encoded.as_ptr().cast(),
            decoded.as_mut_ptr().cast(),
            decoded.len(),
            1,
        )
    };
    match usize::try_from(written) {
        Ok(written) if written > 0 || decoded.is_empty() => check_size(decoded.len(), written),
        _ => Err(corrupt("a blosc chunk does not decode").found(format!("blosc error {written}"))),
    }
}

#[cfg(not(miri))]
use blosc_src::blosc_decompress_ctx as decompress;

/// Miri runs no C. This touches all that the library may touch, so that Miri sees whether it was lent:
/// it reads as many bytes as the header counts, and writes as many as it is told.
///
/// # Safety
/// As of the library: so many bytes may be read and written.
#[cfg(miri)]
unsafe fn decompress(
    encoded: *const std::ffi::c_void,
    decoded: *mut std::ffi::c_void,
    size: usize,
    _threads: std::ffi::c_int,
) -> std::ffi::c_int {
    // SAFETY: by contract.
    unsafe {
        let header = encoded.cast::<[u8; HEADER]>().read();
        let counted = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
        let encoded = std::slice::from_raw_parts(encoded.cast::<u8>(), counted as usize);
        let sum = encoded
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        decoded.cast::<u8>().write_bytes(sum, size);
    }
    size as std::ffi::c_int
}

/// Compares the sizes in a header with those of the chunk.
fn check_header(encoded: &[u8], size: usize) -> Result<()> {
    check_size(size, decoded_size(encoded)? as usize)
}

/// The size that a chunk says it decodes to.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): there is no whole header, or the chunk is not
/// as long as it says.
pub(crate) fn decoded_size(encoded: &[u8]) -> Result<u64> {
    let Some(header) = encoded.first_chunk::<HEADER>() else {
        return Err(corrupt("a blosc chunk is too short")
            .expected(format!("at least {HEADER} bytes"))
            .found(format!("{} bytes", encoded.len())));
    };
    let [_, decoded, _, stored] =
        [0, 1, 2, 3].map(|word| u32::from_le_bytes(header.as_chunks::<4>().0[word]) as usize);
    if stored != encoded.len() {
        return Err(corrupt("a blosc chunk is cut short or too long")
            .expected(format!("{stored} bytes, as its header says"))
            .found(format!("{} bytes", encoded.len())));
    }
    Ok(decoded as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As zarr writes it: lz4, level 5, byte shuffle of 4-byte values.
    pub(crate) fn encode(values: &[u8]) -> Vec<u8> {
        let mut out = vec![0; values.len() + HEADER];
        // SAFETY: source and destination are as long as the call is told, and do not overlap.
        let written = unsafe {
            blosc_src::blosc_compress_ctx(
                5,
                1,
                4,
                values.len(),
                values.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                c"lz4".as_ptr(),
                0,
                1,
            )
        };
        out.truncate(usize::try_from(written).unwrap());
        out
    }

    /// A chunk that counts itself right, of nothing.
    fn header(decoded: u32, encoded: &mut [u8]) {
        let length = encoded.len() as u32;
        let words = [0x0102_0304, decoded, decoded, length];
        for (word, bytes) in words.iter().zip(encoded.as_chunks_mut::<4>().0) {
            *bytes = word.to_le_bytes();
        }
    }

    #[test]
    fn the_library_is_lent_what_the_header_counts_and_nothing_is_called_for_another_size() {
        let mut encoded = [7; 40];
        header(64, &mut encoded);
        let mut memory = [1; 96];
        // Whatever comes of it: these bytes are no blosc, but in Miri, which watches.
        let _ = decode_into(&encoded, &mut memory[16..80]);
        assert_eq!((&memory[..16], &memory[80..]), (&[1; 16][..], &[1; 16][..]));
        let before = memory;
        for size in [0, 63, 65] {
            assert!(decode_into(&encoded, &mut memory[..size]).is_err());
        }
        for length in [0, 15, 16, 39] {
            assert!(decode_into(&encoded[..length], &mut memory[16..80]).is_err());
        }
        for counted in [0, 15, 39, 41, u32::MAX] {
            encoded[12..16].copy_from_slice(&counted.to_le_bytes());
            assert!(decode_into(&encoded, &mut memory[16..80]).is_err());
        }
        assert_eq!(memory, before);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri runs no C")]
    fn damage_anywhere_is_an_error_or_another_value_but_never_more() {
        let values: Vec<u8> = (0..4000u32)
            .flat_map(|i| ((i % 97) as f32).sqrt().to_le_bytes())
            .collect();
        let bytes = encode(&values);
        assert!(bytes.len() < values.len());
        let mut memory = vec![7; values.len() + 64];
        for at in 0..bytes.len().min(400) {
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                let (out, guard) = memory.split_at_mut(values.len());
                let _ = decode_into(&bad, out);
                assert!(guard.iter().all(|byte| *byte == 7), "byte {at}");
            }
        }
        let (out, _) = memory.split_at_mut(values.len());
        decode_into(&bytes, out).unwrap();
        assert_eq!(out, values);
    }
}
