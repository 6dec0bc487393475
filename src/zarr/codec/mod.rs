//! Codecs: bytes in, bytes out, into memory of exactly the decoded size. One file for each.

pub(crate) mod blosc;
pub(crate) mod decoders;
pub(crate) mod gzip;
pub(crate) mod lz4;
pub(crate) mod served;
pub(crate) mod size;
pub(crate) mod zlib;
pub(crate) mod zstd;
