//! Which windows in which order, and how batches are cut: the options of a schedule.

use crate::error::{Error, Result};
use crate::order::groups::{GroupOrder, Groups, MAX_WINDOWS};
use serde::{Deserialize, Serialize};
use std::fmt;

/// In which order windows are visited, and how batches are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Windows ascending, one group after the other, the same in every epoch. O(1) to set up.
    Sequential,
    /// Every epoch another permutation of each group's windows, cut into batches; with several
    /// groups the batches are permuted too. O(log n) time and memory to set up an epoch of n
    /// windows: a keyed permutation ([swap-or-not](https://eprint.iacr.org/2012/254)) answers for
    /// any batch directly, in O(batch log n).
    #[default]
    Shuffled,
    /// A shuffle that keeps neighbours near each other, so that planes are still cached when the
    /// next window wants them. Each group is cut into blocks of `block` consecutive windows (the
    /// last one shorter), the blocks are permuted, and the windows of each run of `pool` blocks in
    /// that order (a pool) are permuted through and through. Every epoch draws anew; set-up and
    /// access cost what [`Order::Shuffled`] costs.
    ///
    /// Statistics, for n windows, block b and pool p:
    /// * a window is equally likely to come anywhere in the epoch, up to the shift that one short
    ///   block makes;
    /// * between the first and the last window of a pool at most `p * b` windows come, from at most
    ///   p blocks: that bounds what a cache has to hold;
    /// * two windows of a batch inside one pool are from one block with probability
    ///   `(b - 1) / (p * b - 1)`; under a full shuffle it is `(b - 1) / (n - 1)`. The batch mean of
    ///   a quantity that is constant inside blocks has about
    ///   `1 + (size - 1) * (b - 1) / (p * b - 1)` times the variance of that of independent draws: choose p well above the batch size;
    /// * blocks begin at the same windows in every epoch, which blocks share a pool does not.
    ///
    /// With several groups their batches are interleaved evenly, in proportion to their numbers,
    /// the same way in every epoch.
    Blocks {
        /// Consecutive windows kept together. At least 1.
        block: u64,
        /// Blocks mixed with each other. At least 1.
        pool: u64,
    },
    /// What Samudra's Python samplers emit, bit for bit (`utils/samplers.py`): the single-process
    /// sampler for a world of 1, otherwise the distributed one. Its epochs count from 1. O(n) time
    /// and memory per epoch.
    ///
    /// The distributed sampler cuts batches of consecutive windows, never shuffles inside them, and
    /// fills a round of `world` batches from one group; what is missing in a group's last round is
    /// drawn again from that group (shuffled first, if `shuffle`, and repeated if need be), or the
    /// round is dropped by `drop_last`. So a rank's windows are the same ones in every epoch, but
    /// for padding: only their batches' order changes.
    Samudra {
        /// As in training; validation under several processes does not shuffle.
        shuffle: bool,
        /// Which of the two rules of Samudra orders the groups.
        groups: GroupOrder,
    },
    /// These batches in this order, in every epoch. No batch is longer than the batch size; short
    /// ones are kept, and `drop_last` acts on the last round only.
    Custom(Vec<Vec<u64>>),
}

impl Order {
    /// The batches of a custom order; none of any other.
    pub(crate) fn listed(&self) -> &[Vec<u64>] {
        match self {
            Self::Custom(batches) => batches,
            _ => &[],
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Sequential => f.write_str("sequential"),
            Order::Shuffled => f.write_str("shuffled"),
            Order::Blocks { block, pool } => write!(f, "blocks of {block} in pools of {pool}"),
            Order::Samudra { shuffle, groups } => {
                let what = if *shuffle { "shuffled" } else { "unshuffled" };
                let how = match groups {
                    GroupOrder::Sorted => "sorted",
                    GroupOrder::FirstSeen => "first-seen",
                };
                write!(f, "samudra {what}, {how} groups")
            }
            Order::Custom(_) => f.write_str("custom"),
        }
    }
}

/// What a [`Schedule`](crate::Schedule) is made from, beside the windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ScheduleOptions {
    /// Which windows, in which order. Shuffled by default.
    pub order: Order,
    /// Every value is as good as any other. 0 by default.
    pub seed: i64,
    /// Windows per batch and rank, at least 1. 1 by default.
    pub batch_size: usize,
    /// Drop short batches and incomplete rounds instead of keeping the former and padding the
    /// latter. False by default: nothing is lost.
    pub drop_last: bool,
    /// Ranks that share the batches (processes times devices). 1 by default.
    pub world: usize,
    /// Which of them this is, from 0. 0 by default.
    pub rank: usize,
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        Self {
            order: Order::default(),
            seed: 0,
            batch_size: 1,
            drop_last: false,
            world: 1,
            rank: 0,
        }
    }
}

impl ScheduleOptions {
    /// Sets [`order`](Self::order).
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets [`seed`](Self::seed).
    #[must_use]
    pub fn with_seed(mut self, seed: i64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets [`batch_size`](Self::batch_size).
    #[must_use]
    pub fn with_batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = batch_size;
        self
    }

    /// Sets [`drop_last`](Self::drop_last).
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Sets [`world`](Self::world).
    #[must_use]
    pub fn with_world(mut self, world: usize) -> Self {
        self.world = world;
        self
    }

    /// Sets [`rank`](Self::rank).
    #[must_use]
    pub fn with_rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }
}

pub(crate) fn check(options: &ScheduleOptions, groups: &Groups) -> Result<()> {
    let at_least_one = |what: &str, value: u64| match value {
        0 => Err(Error::config(format!("{what} must be at least 1")).found(0)),
        _ => Ok(()),
    };
    at_least_one("the batch size", options.batch_size as u64)?;
    at_least_one("the world size", options.world as u64)?;
    if options.world as u64 > MAX_WINDOWS {
        return Err(Error::config("the world is too large").found(options.world));
    }
    if options.rank >= options.world {
        return Err(Error::config("no such rank")
            .expected(format!("a rank below the world size {}", options.world))
            .found(options.rank));
    }
    match &options.order {
        Order::Sequential | Order::Shuffled | Order::Samudra { .. } => Ok(()),
        Order::Blocks { block, pool } => {
            at_least_one("the block of a block shuffle", *block)?;
            at_least_one("the pool of a block shuffle", *pool)
        }
        Order::Custom(batches) => batches
            .iter()
            .enumerate()
            .try_for_each(|(k, batch)| check_custom(k, batch, options, groups)),
    }
}

pub(crate) fn check_custom(
    k: usize,
    batch: &[u64],
    options: &ScheduleOptions,
    groups: &Groups,
) -> Result<()> {
    if batch.is_empty() || batch.len() > options.batch_size {
        return Err(
            Error::config(format!("batch {k} of the custom order has a bad length"))
                .expected(format!("1 to {}", options.batch_size))
                .found(batch.len()),
        );
    }
    if let Some(missing) = batch.iter().find(|w| **w >= groups.windows()) {
        return Err(
            Error::config(format!("batch {k} of the custom order has no such window"))
                .expected(format!("windows below {}", groups.windows()))
                .found(missing),
        );
    }
    let group = groups.group_of(batch[0]);
    if let Some(other) = batch.iter().find(|w| groups.group_of(**w) != group) {
        return Err(
            Error::config(format!("batch {k} of the custom order mixes groups"))
                .found(format!("windows {} and {other}", batch[0])),
        );
    }
    Ok(())
}

/// One of several equal parts of a schedule, for Burn's strategies with several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: usize,
    /// Parts in all, at least 1.
    pub count: usize,
}
