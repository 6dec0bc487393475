//! An array as zarrs opened it.

use crate::error::{ErrorKind, Result};
use crate::zarr::codec::{lz4, served};
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use serde_json::Value;
use std::sync::Arc;
use zarrs::array::{Array, ArrayMetadata};

/// What only zarrs knows of an array: its codecs, its fill value and the keys of its chunks, however
/// they are encoded. It has no storage: zarrs reads nothing.
#[derive(Debug)]
pub(crate) struct ZarrArray(Array<()>);

impl ZarrArray {
    /// Opens an array of a group.
    ///
    /// # Errors
    /// Codecs, data types or other metadata that cannot be served.
    pub(crate) fn open(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Self> {
        lz4::register();
        let refused = || group.error(ErrorKind::Metadata, &meta.name, "cannot open the array");
        let mut document = served::document(group, meta)?;
        if let (ZarrFormat::V2, Value::Object(fields)) = (group.format, &mut document) {
            // In v2 they stand beside it.
            let attributes = Value::Object(meta.attributes.clone());
            fields.insert("attributes".to_owned(), attributes);
        }
        let metadata = match group.format {
            ZarrFormat::V2 => serde_json::from_value(document).map(ArrayMetadata::V2),
            ZarrFormat::V3 => serde_json::from_value(document).map(ArrayMetadata::V3),
        };
        let metadata = metadata.map_err(|e| refused().caused_by(e))?;
        let path = format!("/{}", meta.name);
        let array = Array::new_with_metadata(Arc::new(()), &path, metadata);
        array.map(Self).map_err(|e| refused().caused_by(e))
    }

    /// The array itself, for the rest of this folder.
    pub(super) fn zarrs(&self) -> &Array<()> {
        &self.0
    }

    /// Bytes of a value in memory; 0 where they have no one size.
    pub(super) fn value_size(&self) -> usize {
        self.0.data_type().fixed_size().unwrap_or(0)
    }

    /// The fill value as it lies in memory.
    pub(crate) fn fill_bytes(&self) -> &[u8] {
        self.0.fill_value().as_ne_bytes()
    }

    /// The storage key of a chunk.
    pub(crate) fn chunk_key(&self, indices: &[u64]) -> String {
        self.0.chunk_key(indices).as_str().to_owned()
    }

    /// Replaces what `key` held by the storage key of a chunk.
    pub(crate) fn write_key(&self, indices: &[u64], key: &mut String) {
        key.clear();
        key.push_str(self.0.chunk_key(indices).as_str());
    }
}
