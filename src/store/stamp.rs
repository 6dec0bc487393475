//! Whether a channel's values may have changed since somebody computed something from them.

use crate::error::{ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::store::array_names::may_hold;
use crate::store::om4_store::Store;
use crate::store::options::OpenOptions;
use crate::zarr::group::ZarrGroup;
use std::path::Path;
use std::time::SystemTime;

/// A file of a channel's array.
pub(crate) struct StampedFile<'a> {
    /// Below the store.
    pub(crate) key: &'a str,
    /// Bytes, and when it was changed last; `None` when it is not there.
    pub(crate) found: Option<(u64, SystemTime)>,
}

impl Store {
    /// Whether the store at `path` has an array whose name says that it holds the channel, usable or
    /// not.
    ///
    /// # Errors
    /// No group.
    pub(crate) fn names(path: &Path, channel: &Channel, options: &OpenOptions) -> Result<bool> {
        let group = ZarrGroup::open(path, options.limits)?;
        let mut names = group.arrays.keys().chain(group.unusable.keys());
        Ok(names.any(|name| may_hold(name, channel)))
    }

    /// Looks at every file that the values of a channel are in: metadata first, then chunks in
    /// order.
    ///
    /// # Errors
    /// The store does not have the channel; a file that cannot be looked at.
    pub(crate) fn stamp(
        &self,
        channel: &Channel,
        each: &mut dyn FnMut(StampedFile<'_>),
    ) -> Result<()> {
        let slot = self.slots[self.position(channel)?];
        let array = &self.arrays[slot.array];
        let name = &array.layout.name;
        let mut look = |key: &str| -> Result<()> {
            let found = self.storage.changed(key).map_err(|e| {
                crate::Error::new(ErrorKind::Io, "cannot look at a file")
                    .store(self.path())
                    .array(name)
                    .chunk(key.strip_prefix(&format!("{name}/")).unwrap_or(key))
                    .caused_by(e)
            })?;
            each(StampedFile { key, found });
            Ok(())
        };
        for document in [".zarray", ".zattrs", "zarr.json"] {
            look(&format!("{name}/{document}"))?;
        }
        let plane = self.grid().shape();
        let chunks = |extent: usize, chunk: usize| extent.div_ceil(chunk) as u64;
        let level = (slot.level / array.chunk.level) as u64;
        let mut key = String::new();
        for time in 0..chunks(self.time().len(), array.chunk.time) {
            for y in 0..chunks(plane.ny, array.chunk.y) {
                for x in 0..chunks(plane.nx, array.chunk.x) {
                    key.clear();
                    array.write_key([time, level, y, x], &mut key);
                    look(&key)?;
                }
            }
        }
        Ok(())
    }
}
