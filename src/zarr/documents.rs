//! The metadata documents of a store, one by one, and what is wrong with them.

use crate::error::{Error, ErrorKind, Result};
use crate::options::StoreLimits;
use crate::zarr::files::storage::LocalStorage;
use crate::zarr::format::ZarrFormat;
use crate::zarr::json;
use serde_json::Value;

/// The metadata documents of a group, or of one of its arrays, which errors then name.
#[derive(Clone, Copy)]
pub(super) struct Documents<'a> {
    pub(super) storage: &'a LocalStorage,
    pub(super) limits: StoreLimits,
    pub(super) format: ZarrFormat,
    pub(super) array: Option<&'a str>,
}

impl Documents<'_> {
    /// A document; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, is longer than the limit, or no JSON.
    pub(super) fn read(&self, key: &str) -> Result<Option<Value>> {
        let bytes = self.storage.read(key, self.limits.document_bytes);
        let bytes = bytes.map_err(|e| {
            let path = self.storage.root().join(key);
            let e = match e.kind() {
                std::io::ErrorKind::FileTooLarge => {
                    let message = format!("{key} is larger than the limit (document_bytes): {e}");
                    Error::new(ErrorKind::Metadata, message).caused_by(e)
                }
                _ => {
                    let message = format!("cannot read {}: {e}", path.display());
                    Error::new(ErrorKind::Io, message).caused_by(e)
                }
            };
            self.place(e)
        })?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let document = json::parse(&bytes);
        document
            .map(Some)
            .map_err(|e| self.error(&format!("{key} is not valid JSON")).caused_by(e))
    }

    /// An error of what the documents say.
    pub(super) fn error(&self, message: &str) -> Error {
        self.place(Error::new(ErrorKind::Metadata, message))
    }

    pub(super) fn place(&self, e: Error) -> Error {
        let e = e.store(self.storage.root());
        match self.array {
            Some(name) => e.array(name),
            None => e,
        }
    }
}
