//! What an epoch draws, and which windows a batch gets from it.

use crate::order::batched_groups::BatchedGroups;
use crate::order::options::{Order, ScheduleOptions};
use crate::order::permutation::{BlockShuffle, Key, Permutation};
use crate::order::samudra::SamudraPass;

/// The random choices of one epoch.
pub(crate) enum Draw {
    Sequential,
    Shuffled {
        batches: Option<Permutation>,
        windows: Vec<Permutation>,
    },
    Blocks(Vec<BlockShuffle>),
    Samudra(SamudraPass),
    Custom,
}

impl Draw {
    /// Draws an epoch. O(log n) for n windows and one group (O(groups * log n) for more); O(n) for
    /// [`Order::Samudra`].
    pub(crate) fn new(options: &ScheduleOptions, groups: &BatchedGroups, epoch: u64) -> Self {
        let key = Key::of_pass(options.seed, epoch);
        let keyed = || groups.groups.iter().zip(1..);
        match &options.order {
            Order::Sequential => Self::Sequential,
            Order::Shuffled => Self::Shuffled {
                // One group's windows are in random order as it is, and left in place its order
                // does not depend on the batch size.
                batches: (groups.groups.len() > 1)
                    .then(|| Permutation::new(key.child(0), groups.batches)),
                windows: keyed()
                    .map(|(group, tag)| Permutation::new(key.child(tag), group.windows))
                    .collect(),
            },
            Order::Blocks { block, pool } => {
                let shuffle = |(key, windows)| BlockShuffle::new(key, windows, *block, *pool);
                let keyed = keyed().map(|(group, tag)| (key.child(tag), group.windows));
                Self::Blocks(keyed.map(shuffle).collect())
            }
            Order::Samudra { shuffle, .. } => {
                Self::Samudra(SamudraPass::new(options, groups, *shuffle, epoch))
            }
            Order::Custom(_) => Self::Custom,
        }
    }

    /// The windows of a rank's batch `k`, in their order.
    pub(crate) fn batch(
        &self,
        options: &ScheduleOptions,
        groups: &BatchedGroups,
        k: u64,
    ) -> Vec<u64> {
        // The slot in the list that all ranks share, and for padding the beginning again.
        let slot = |batches: u64| (k * options.world as u64 + options.rank as u64) % batches;
        let slot_of_groups = || slot(groups.batches);
        match self {
            Self::Sequential => {
                let (i, number) = groups.locate(slot_of_groups());
                let group = &groups.groups[i];
                groups.places(i, number).map(|p| group.window(p)).collect()
            }
            Self::Shuffled { batches, windows } => {
                let slot = slot_of_groups();
                let batch = batches.as_ref().map_or(slot, |b| b.apply(slot));
                let (i, number) = groups.locate(batch);
                let (group, order) = (&groups.groups[i], &windows[i]);
                let window = |place| group.window(order.apply(place));
                groups.places(i, number).map(window).collect()
            }
            Self::Blocks(shuffles) => {
                let (i, number) = groups.interleave(slot_of_groups());
                let (group, shuffle) = (&groups.groups[i], &shuffles[i]);
                let places = groups.places(i, number);
                let mut pool = shuffle.pool_at(places.start);
                let window = |place| {
                    if !pool.holds(place) {
                        pool = shuffle.pool_at(place);
                    }
                    group.window(shuffle.apply(&pool, place))
                };
                places.map(window).collect()
            }
            Self::Samudra(pass) => {
                let (i, number) = groups.locate(pass.batch(k));
                pass.windows(groups, i, groups.places(i, number))
            }
            Self::Custom => {
                let batches = options.order.listed();
                batches[slot(batches.len() as u64) as usize].clone()
            }
        }
    }
}
