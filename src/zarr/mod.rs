//! Zarr arrays on disk, of any content: metadata, codecs, shards, files. The only place that knows zarrs.

pub(crate) mod chunk_codec;
pub(crate) mod chunk_keys;
pub(crate) mod codec;
pub(crate) mod files;
pub(crate) mod metadata;
pub(crate) mod sharding;
pub(crate) mod small_array;
