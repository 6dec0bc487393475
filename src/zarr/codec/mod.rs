//! Codecs: bytes in, bytes out.

pub(crate) mod blosc;
pub(crate) mod lz4;
pub(crate) mod size;
