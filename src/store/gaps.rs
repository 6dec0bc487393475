//! Chunks that are not there. xarray and Zarr leave out a chunk that holds nothing but the fill value; a copy
//! that was interrupted lacks chunks as well. What tells them apart is the mask: nothing is lost where every
//! cell is dry and the fill value means "missing".

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::options::Strictness;
use crate::store::masks::WetMasks;
use crate::store::plane_array::{Patch, PlaneArray};
use crate::store::tasks::ChannelSlot;
use crate::zarr::group::ZarrGroup;

/// A chunk, or an inner chunk, that is not there.
#[derive(Clone, Copy)]
pub(crate) struct Absent<'a> {
    pub(crate) array: &'a PlaneArray,
    /// Indices of an inner chunk within its shard.
    pub(crate) inner: Option<&'a [u64]>,
    /// What it has of every plane.
    pub(crate) patch: Patch,
}

impl Absent<'_> {
    /// What it takes from a plane of a channel: an error without its place, or `None` where it is
    /// nothing but land.
    pub(crate) fn loss(&self, masks: &WetMasks, channel: &Channel) -> Option<Error> {
        let fill = &self.array.fill_text;
        let mask = masks.own_or_surface(channel);
        let expected = match mask.map(|mask| self.patch.wet_cells(mask)) {
            Some(0) if self.array.leaves_out_missing => return None,
            Some(0) => format!("the chunk: its fill value {fill} is not named as missing"),
            Some(wet) => format!("the chunk: {wet} of its cells are wet in channel {channel}"),
            None => format!("the chunk: no mask says that channel {channel} has only land in it"),
        };
        let message = match self.inner {
            None => "a chunk is not there".to_owned(),
            Some(indices) => format!("inner chunk {indices:?} of a shard is not there"),
        };
        let found = format!(
            "none: an interrupted copy, or a writer that leaves out chunks of nothing but the fill \
             value {fill}; with Strictness::Lenient (--lenient) it is read as that"
        );
        let lost = Error::new(ErrorKind::MissingChunk, message);
        Some(lost.expected(expected).found(found))
    }
}

/// Sees that the first and the last chunk of every array are there, unless they are nothing but land: two looks
/// per array that find a writer that was killed, or a store whose metadata was extended first. A lenient store
/// has warnings of those that are not.
///
/// # Errors
/// One is not there, in strict mode; one cannot be looked at.
pub(crate) fn check_outer_chunks(
    group: &ZarrGroup,
    arrays: &[PlaneArray],
    channels: &[(Channel, ChannelSlot)],
    masks: &WetMasks,
    strictness: Strictness,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for (position, array) in arrays.iter().enumerate() {
        let name = &array.layout.name;
        for chunk in array.outer_chunks() {
            let key = &chunk.key;
            let size = group.storage.size(key).map_err(|e| {
                group
                    .error(ErrorKind::Io, name, "cannot look at a chunk")
                    .chunk(key)
                    .caused_by(e)
            })?;
            if size.is_some() {
                continue;
            }
            let inside =
                |slot: &ChannelSlot| slot.array == position && chunk.levels.contains(&slot.level);
            let mut there = channels.iter().filter(|(_, slot)| inside(slot));
            let absent = Absent {
                array,
                inner: None,
                patch: chunk.patch,
            };
            let Some(lost) = there.find_map(|(channel, _)| absent.loss(masks, channel)) else {
                continue;
            };
            let lost = lost
                .store(group.storage.root())
                .array(name)
                .chunk(key.strip_prefix(&format!("{name}/")).unwrap_or(key))
                .row(chunk.row);
            match strictness {
                Strictness::Strict => return Err(lost),
                Strictness::Lenient => warnings.push(lost.to_string()),
            }
        }
    }
    Ok(warnings)
}
