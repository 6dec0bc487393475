//! An array as zarrs opened it.

use crate::error::{ErrorKind, Result};
use crate::zarr::codec::lz4;
use crate::zarr::files::storage::LocalStorage;
use crate::zarr::metadata::{ArrayMeta, ZarrFormat, ZarrGroup};
use zarrs::array::Array;
use zarrs::config::MetadataRetrieveVersion;

/// What only zarrs knows of an array: its fill value and the keys of its chunks, however they are
/// encoded.
#[derive(Debug)]
pub(crate) struct ZarrArray(Array<LocalStorage>);

impl ZarrArray {
    /// Opens an array of a group.
    ///
    /// # Errors
    /// Codecs, data types or other metadata that cannot be served.
    pub(crate) fn open(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Self> {
        lz4::register();
        let version = match group.format {
            ZarrFormat::V2 => MetadataRetrieveVersion::V2,
            ZarrFormat::V3 => MetadataRetrieveVersion::V3,
        };
        let path = format!("/{}", meta.name);
        let array = Array::open_opt(group.storage.clone(), &path, &version);
        array.map(Self).map_err(|e| {
            group
                .error(ErrorKind::Metadata, &meta.name, "cannot open the array")
                .caused_by(e)
        })
    }

    /// The array itself, for the rest of this folder.
    pub(super) fn zarrs(&self) -> &Array<LocalStorage> {
        &self.0
    }

    /// The fill value; `None` where it is no `f32`.
    pub(crate) fn fill_value(&self) -> Option<f32> {
        let bytes = self.0.fill_value().as_ne_bytes();
        bytes.first_chunk::<4>().map(|b| f32::from_ne_bytes(*b))
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
