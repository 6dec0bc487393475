//! A group on its way to being opened: how, and what is odd about it so far.

use crate::error::Result;
use crate::store::options::OpenOptions;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::small_array::{Numbers, SmallArray};
use std::ops::Range;

/// What every step of opening needs, and where it leaves its warnings.
pub(crate) struct Opening<'a> {
    pub(crate) group: &'a ZarrGroup,
    pub(crate) options: &'a OpenOptions,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Opening<'a> {
    /// Begins with the warnings of the group.
    pub(crate) fn new(group: &'a ZarrGroup, options: &'a OpenOptions) -> Self {
        Self {
            group,
            options,
            warnings: group.warnings.clone(),
        }
    }

    /// Reads a whole array.
    ///
    /// # Errors
    /// As [`SmallArray::read`].
    pub(crate) fn read(&mut self, meta: &ArrayMeta) -> Result<Numbers> {
        let all: Vec<Range<u64>> = meta.shape.iter().map(|n| 0..*n).collect();
        self.read_part(meta, &all)
    }

    /// Reads a box of an array, one range per dimension.
    ///
    /// # Errors
    /// As [`SmallArray::read`].
    pub(crate) fn read_part(&mut self, meta: &ArrayMeta, part: &[Range<u64>]) -> Result<Numbers> {
        let read = SmallArray::read(self.group, meta, part, self.options.strictness)?;
        self.warnings.extend(read.absent);
        Ok(read.numbers)
    }
}
