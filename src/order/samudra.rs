//! The batches that Samudra's Python samplers emit (SEMANTICS.md 3.9; `utils/samplers.py`).
//!
//! Both samplers draw from one `random.Random(seed + epoch)`, and every call of `shuffle` moves it
//! on: what matters is the order of the calls and the lengths of the lists, not what is in them. So
//! lists of batches are shuffled as lists of batch numbers, and a rank keeps its own column of the
//! rounds.

use crate::order::batched_groups::{BatchedGroup, BatchedGroups};
use crate::order::cpython_random::CpythonRandom;
use crate::order::options::ScheduleOptions;
use std::ops::Range;

/// One epoch on one rank.
pub(crate) struct SamudraPass {
    /// Numbers of this rank's batches, through all groups.
    batches: Vec<u64>,
    /// Windows of each group in shuffled order, where the order inside a group is shuffled.
    shuffled: Option<Vec<Vec<u64>>>,
}

impl SamudraPass {
    pub(crate) fn new(
        options: &ScheduleOptions,
        groups: &BatchedGroups,
        shuffle: bool,
        epoch: u64,
    ) -> Self {
        let seed = i128::from(options.seed) + i128::from(epoch);
        let rng = shuffle.then(|| CpythonRandom::new(seed));
        if options.world == 1 {
            Self::single_process(groups, rng)
        } else {
            Self::distributed(options, groups, rng)
        }
    }

    /// Shuffles the windows of each group, then the batches cut from them.
    fn single_process(groups: &BatchedGroups, rng: Option<CpythonRandom>) -> Self {
        let mut batches: Vec<u64> = (0..groups.batches).collect();
        let shuffled = rng.map(|mut rng| {
            let mut shuffle = |group: &BatchedGroup| {
                let mut windows: Vec<u64> = (0..group.windows).map(|p| group.window(p)).collect();
                rng.shuffle(&mut windows);
                windows
            };
            let windows = groups.groups.iter().map(&mut shuffle).collect();
            rng.shuffle(&mut batches);
            windows
        });
        Self { batches, shuffled }
    }

    /// Deals consecutive batches to the ranks in rounds, then shuffles the rounds: those of each
    /// group first, then all of them.
    fn distributed(
        options: &ScheduleOptions,
        groups: &BatchedGroups,
        mut rng: Option<CpythonRandom>,
    ) -> Self {
        let (world, rank) = (options.world as u64, options.rank as u64);
        let mut rounds: Vec<u64> = Vec::new();
        for group in &groups.groups {
            let first_round = rounds.len();
            let end = group.first_batch + group.batches;
            let whole = group.batches / world;
            rounds.extend((0..whole).map(|round| group.first_batch + round * world + rank));
            let left = group.batches % world;
            if left > 0 && !options.drop_last {
                let mut padding: Vec<u64> = (group.first_batch..end).collect();
                if let Some(rng) = &mut rng {
                    rng.shuffle(&mut padding);
                }
                rounds.push(match rank.checked_sub(left) {
                    None => end - left + rank,
                    Some(missing) => padding[(missing % group.batches) as usize],
                });
            }
            if let Some(rng) = &mut rng {
                rng.shuffle(&mut rounds[first_round..]);
            }
        }
        if let Some(rng) = &mut rng {
            rng.shuffle(&mut rounds);
        }
        Self {
            batches: rounds,
            shuffled: None,
        }
    }

    /// The number of this rank's batch `k`, through all groups.
    pub(crate) fn batch(&self, k: u64) -> u64 {
        self.batches[k as usize]
    }

    /// The windows at these places of a group.
    pub(crate) fn windows(
        &self,
        groups: &BatchedGroups,
        group: usize,
        places: Range<u64>,
    ) -> Vec<u64> {
        match &self.shuffled {
            Some(windows) => windows[group][places.start as usize..places.end as usize].to_vec(),
            None => places.map(|p| groups.groups[group].window(p)).collect(),
        }
    }
}
