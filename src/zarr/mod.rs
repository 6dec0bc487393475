//! Zarr arrays on disk, of any content: metadata, codecs, shards, files. Only this folder, and
//! `synth`, which writes stores, know zarrs.

pub(crate) mod array;
pub(crate) mod chunk_codec;
pub(crate) mod chunk_keys;
pub(crate) mod codec;
pub(crate) mod files;
pub(crate) mod metadata;
pub(crate) mod sharding;
pub(crate) mod small_array;
