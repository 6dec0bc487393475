//! The versions of the storage format.

/// The version of the Zarr storage format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZarrFormat {
    /// `.zgroup`, `.zarray`, `.zattrs`.
    V2,
    /// `zarr.json`.
    V3,
}

impl ZarrFormat {
    /// The document that every group has.
    pub(crate) fn document(self) -> &'static str {
        match self {
            Self::V2 => ".zgroup",
            Self::V3 => "zarr.json",
        }
    }
}
