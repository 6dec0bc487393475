//! Decoders that are made once per thread.

/// What one thread keeps between chunks.
#[derive(Default)]
pub(crate) struct Decoders {
    pub(crate) zstd: Option<zstd::bulk::Decompressor<'static>>,
    pub(crate) zlib: Option<flate2::Decompress>,
}
