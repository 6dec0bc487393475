//! Statistics computed from a store's planes, in one pass over them, on the reader threads.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::{PlaneRequest, PlaneSource};
use crate::options::Strictness;
use crate::store::om4_store::Store;
use crate::store::statistics::{ChannelStats, Statistics};
use crate::survey::blocks::{block_rows, blocks, each_plane};
use crate::survey::moments::Moments;
use std::ops::Range;
use std::sync::Arc;

/// Means and standard deviations computed from a store.
#[derive(Clone, Debug)]
pub struct ComputedStatistics {
    /// Of each channel's values in wet cells that are not NaN, over rows and cells alike.
    pub channels: Vec<(Channel, Moments)>,
    /// Of each level's mask, ocean being 1 and land 0, as they are published beside the channels'.
    pub masks: Vec<(usize, Moments)>,
    /// What is odd: a channel without values, or with one value throughout; a mask that took another's
    /// place.
    pub warnings: Vec<String>,
}

/// Computes the statistics of `channels` over `rows`, as they are made for the published stores: `X_k` in
/// the cells that are wet in the mask of level k, others in those of level 0; NaN is left out; the standard
/// deviation is that of the population.
///
/// Each chunk is read once. `progress` is told how many rows were done, a block at a time.
///
/// # Errors
/// A channel or rows that the store does not have, no mask, a plane that cannot be read, an infinite value
/// in a wet cell ([`ErrorKind::Values`]).
pub fn compute_statistics(
    store: &Store,
    channels: &[Channel],
    rows: Range<usize>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<ComputedStatistics> {
    let positions = store.positions(channels)?;
    if rows.is_empty() || rows.end > store.rows() {
        return Err(Error::config("no rows to compute statistics of")
            .store(store.path())
            .expected(format!("rows below {}", store.rows()))
            .found(format!("{rows:?}")));
    }
    let mut warnings = Vec::new();
    let masks: Vec<Arc<WetMask>> = channels
        .iter()
        .map(|channel| mask_of(store, channel, &mut warnings))
        .collect::<Result<_>>()?;
    let mut moments = vec![Moments::default(); channels.len()];
    for block in blocks(rows, block_rows(store, channels.len())) {
        let block: Vec<usize> = block.collect();
        let request = PlaneRequest {
            rows: &block,
            channels: &positions,
        };
        let found = each_plane(store, &request, |plane, values| {
            Moments::of_plane(values, masks[plane % channels.len()].as_slice())
        })?;
        for (row, found) in std::iter::zip(&block, found.chunks_exact(channels.len())) {
            for ((channel, whole), plane) in channels.iter().zip(&mut moments).zip(found) {
                if plane.count() > 0 && !(plane.mean().is_finite() && plane.std().is_finite()) {
                    let message = format!("channel {channel} has an infinite value in the ocean");
                    return Err(Error::new(ErrorKind::Values, message)
                        .store(store.path())
                        .array(channel.name())
                        .row(*row));
                }
                whole.merge(plane);
            }
        }
        progress(block.len());
    }
    for (channel, moments) in std::iter::zip(channels, &moments) {
        if moments.count() == 0 {
            warnings.push(format!("channel {channel} has no value in the ocean"));
        } else if moments.std() == 0.0 {
            let mean = moments.mean();
            warnings.push(format!(
                "channel {channel} is {mean} throughout: it cannot normalise"
            ));
        }
    }
    Ok(ComputedStatistics {
        channels: std::iter::zip(channels.iter().cloned(), moments).collect(),
        masks: store
            .masks()
            .levels()
            .map(|k| Ok((k, of_mask(&*store.wet_mask(k)?))))
            .collect::<Result<_>>()?,
        warnings,
    })
}

impl ComputedStatistics {
    /// Statistics to open a data set with, in place of a pair of stores.
    pub fn statistics(&self, strictness: Strictness) -> Statistics {
        let values = self.channels.iter().map(|(channel, moments)| {
            let stats = ChannelStats {
                mean: moments.mean() as f32,
                std: moments.std() as f32,
            };
            (channel.clone(), stats)
        });
        Statistics::from_values(values, strictness)
    }

    /// Whether every channel has values, and more than one.
    pub fn can_normalise(&self) -> bool {
        self.channels.iter().all(|(_, moments)| moments.std() > 0.0)
    }
}

/// The mask of a channel's level; that of the surface where the level has none, as for a boundary channel
/// whose name ends in digits.
fn mask_of(store: &Store, channel: &Channel, warnings: &mut Vec<String>) -> Result<Arc<WetMask>> {
    let level = channel.mask_level();
    let mut levels = store.masks().levels();
    if level > 0 && !levels.any(|k| k == level) && store.masks().levels().any(|k| k == 0) {
        warnings.push(format!(
            "no mask of level {level} for channel {channel}: the surface's is used"
        ));
        return store.wet_mask(0);
    }
    store.wet_mask(level)
}

fn of_mask(mask: &WetMask) -> Moments {
    let cells = mask.as_slice();
    let ones: Vec<f32> = cells.iter().map(|wet| f32::from(u8::from(*wet))).collect();
    Moments::of_plane(&ones, &vec![true; ones.len()])
}
