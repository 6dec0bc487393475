//! Zarr arrays on disk, of any content: metadata, codecs, shards, files. Only this folder, and
//! `synth`, which writes stores, know zarrs.

pub(crate) mod array;
pub(crate) mod array_part;
pub(crate) mod chunk_codec;
pub(crate) mod chunk_keys;
pub(crate) mod codec;
mod consolidated;
mod documents;
pub(crate) mod files;
pub(crate) mod format;
pub(crate) mod group;
mod json;
pub(crate) mod limits;
pub(crate) mod metadata;
pub(crate) mod missing_values;
pub(crate) mod sharding;
pub(crate) mod small_array;
pub(crate) mod values;
