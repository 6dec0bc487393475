//! The order of batches: a pure function of (seed, epoch, world, rank).
//!
//! ```text
//! Groups ----+
//!            +--> Schedule --epoch(e)--> Epoch --batch(k)--> window indices
//! ScheduleSpec
//! ```
//!
//! Nothing here counts, remembers or advances: threads, prefetch depth and where a pass was
//! interrupted cannot change an order. Windows are numbered through all data sets, in the order the
//! data sets are listed.
//!
//! # From an order to the batches of a rank
//! Every order but [`Order::Samudra`] makes one list of batches per epoch, each from one group. Step
//! `k` of rank `r` is batch `k * world + r` of that list. Where the list does not fill the last
//! round, `drop_last` drops that round; otherwise the ranks left over draw again from the beginning
//! of the same list (over and over where the list is shorter than a round). So all ranks take the
//! same number of steps, for every length and world.
//!
//! A group whose length is not a multiple of the batch size has one short batch: `drop_last` drops
//! it too. Which windows it holds changes with the epoch in shuffled orders.

use crate::error::{Error, Result};
use crate::groups::{GroupOrder, Groups, MAX_WINDOWS, Parts};
use crate::permutation::{BlockShuffle, Key, Permutation};
use crate::samudra_order::SamudraPass;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

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
    ///   `(b - 1) / (p * b - 1)`; under a full shuffle it is `(b - 1) / (n - 1)`. The batch mean of a
    ///   quantity that is constant inside blocks has about `1 + (size - 1) * (b - 1) / (p * b - 1)`
    ///   times the variance of that of independent draws: choose p well above the batch size;
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
    /// round is dropped by `drop_last`. So a rank's windows are the same ones in every epoch, but for
    /// padding: only their batches' order changes.
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

/// What a [`Schedule`] is made from, beside the windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleSpec {
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

impl Default for ScheduleSpec {
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

/// The batches of one rank, for every epoch. Cheap to clone.
///
/// ```
/// use burn_om4::{Groups, Order, Schedule, ScheduleSpec};
/// let spec = ScheduleSpec { order: Order::Sequential, batch_size: 4, world: 2, rank: 1, ..Default::default() };
/// let schedule = Schedule::new(spec, Groups::single(10)?)?;
/// // Three batches for two ranks: the second one is padded from the beginning.
/// let batches: Vec<Vec<u64>> = schedule.epoch(0).iter_from(0).collect();
/// assert_eq!(batches, [vec![4, 5, 6, 7], vec![0, 1, 2, 3]]);
/// assert_eq!(schedule.steps(), 2);
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: ScheduleSpec,
    groups: Groups,
    parts: Parts,
    steps: u64,
}

impl Schedule {
    /// Checks the options and cuts the groups into batches. O(data sets), whatever the number of
    /// windows; a custom order is checked in O(its length).
    ///
    /// No window, or fewer than `drop_last` leaves a round of, is a schedule of 0 steps.
    ///
    /// # Errors
    /// A batch size, world, block or pool of 0; a rank outside the world; a custom batch that is
    /// empty, too long, mixes groups, or names a window that is not there.
    pub fn new(spec: ScheduleSpec, groups: Groups) -> Result<Self> {
        check(&spec, &groups)?;
        let (batch_size, world) = (spec.batch_size as u64, spec.world as u64);
        let group_order = match spec.order {
            Order::Samudra { groups, .. } => groups,
            _ => GroupOrder::FirstSeen,
        };
        let parts = Parts::new(&groups, group_order, batch_size, spec.drop_last);
        let rounds = |batches: u64| {
            if spec.drop_last {
                batches / world
            } else {
                batches.div_ceil(world)
            }
        };
        let steps = match &spec.order {
            Order::Samudra { .. } => parts.parts.iter().map(|p| rounds(p.batches)).sum(),
            Order::Custom(batches) => rounds(batches.len() as u64),
            Order::Sequential | Order::Shuffled | Order::Blocks { .. } => rounds(parts.batches),
        };
        Ok(Self(Arc::new(Inner {
            spec,
            groups,
            parts,
            steps,
        })))
    }

    /// The options it was made from.
    pub fn spec(&self) -> &ScheduleSpec {
        &self.0.spec
    }

    /// The windows it orders.
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// Batches per epoch: the same number on every rank and in every epoch.
    pub fn steps(&self) -> u64 {
        self.0.steps
    }

    /// The batches of an epoch. O(log n) for n windows and one group (O(groups * log n) for more);
    /// O(n) for [`Order::Samudra`].
    pub fn epoch(&self, epoch: u64) -> Epoch {
        let Inner { spec, parts, .. } = &*self.0;
        let key = Key::of_pass(spec.seed, epoch);
        let keyed = || parts.parts.iter().zip(1..);
        let draw = match &spec.order {
            Order::Sequential => Draw::Sequential,
            Order::Shuffled => Draw::Shuffled {
                // One group's windows are in random order as it is, and left in place its order
                // does not depend on the batch size.
                batches: (parts.parts.len() > 1)
                    .then(|| Permutation::new(key.child(0), parts.batches)),
                windows: keyed()
                    .map(|(p, tag)| Permutation::new(key.child(tag), p.windows))
                    .collect(),
            },
            Order::Blocks { block, pool } => Draw::Blocks(
                keyed()
                    .map(|(p, tag)| BlockShuffle::new(key.child(tag), p.windows, *block, *pool))
                    .collect(),
            ),
            Order::Samudra { shuffle, .. } => {
                Draw::Samudra(SamudraPass::new(spec, parts, *shuffle, epoch))
            }
            Order::Custom(_) => Draw::Custom,
        };
        Epoch {
            schedule: self.clone(),
            number: epoch,
            draw: Arc::new(draw),
        }
    }

    /// The part of this schedule that one of several devices takes: as if the world were `count`
    /// times as large. Parts are disjoint (but for padding) and equally long, and a shuffled order
    /// deals all windows anew in every epoch ([`Order::Samudra`] does not).
    ///
    /// ```
    /// use burn_om4::{Groups, Schedule, ScheduleSpec, Shard};
    /// let whole = Schedule::new(ScheduleSpec::default(), Groups::single(19)?)?;
    /// let second = whole.shard(Shard { index: 1, count: 2 })?;
    /// assert_eq!((second.spec().world, second.spec().rank, second.steps()), (2, 1, 10));
    /// # Ok::<(), burn_om4::Error>(())
    /// ```
    ///
    /// # Errors
    /// A count of 0, an index not below the count, or a world beyond the address space.
    pub fn shard(&self, shard: Shard) -> Result<Self> {
        let mut spec = self.0.spec.clone();
        if shard.index >= shard.count {
            return Err(Error::config("no such part of a schedule")
                .expected(format!("an index below {}", shard.count))
                .found(shard.index));
        }
        spec.world = (spec.world.checked_mul(shard.count))
            .ok_or_else(|| Error::config("too many parts of a schedule").found(shard.count))?;
        spec.rank = spec.rank * shard.count + shard.index;
        Self::new(spec, self.0.groups.clone())
    }
}

fn check(spec: &ScheduleSpec, groups: &Groups) -> Result<()> {
    let at_least_one = |what: &str, value: u64| match value {
        0 => Err(Error::config(format!("{what} must be at least 1")).found(0)),
        _ => Ok(()),
    };
    at_least_one("the batch size", spec.batch_size as u64)?;
    at_least_one("the world size", spec.world as u64)?;
    if spec.world as u64 > MAX_WINDOWS {
        return Err(Error::config("the world is too large").found(spec.world));
    }
    if spec.rank >= spec.world {
        return Err(Error::config("no such rank")
            .expected(format!("a rank below the world size {}", spec.world))
            .found(spec.rank));
    }
    match &spec.order {
        Order::Sequential | Order::Shuffled | Order::Samudra { .. } => Ok(()),
        Order::Blocks { block, pool } => {
            at_least_one("the block of a block shuffle", *block)?;
            at_least_one("the pool of a block shuffle", *pool)
        }
        Order::Custom(batches) => batches
            .iter()
            .enumerate()
            .try_for_each(|(k, batch)| check_custom(k, batch, spec, groups)),
    }
}

fn check_custom(k: usize, batch: &[u64], spec: &ScheduleSpec, groups: &Groups) -> Result<()> {
    if batch.is_empty() || batch.len() > spec.batch_size {
        return Err(
            Error::config(format!("batch {k} of the custom order has a bad length"))
                .expected(format!("1 to {}", spec.batch_size))
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

/// The batches of one epoch on one rank. Cheap to clone, and to send to another thread.
#[derive(Clone)]
pub struct Epoch {
    schedule: Schedule,
    number: u64,
    draw: Arc<Draw>,
}

enum Draw {
    Sequential,
    Shuffled {
        batches: Option<Permutation>,
        windows: Vec<Permutation>,
    },
    Blocks(Vec<BlockShuffle>),
    Samudra(SamudraPass),
    Custom,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("spec", self.schedule.spec())
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Epoch {
    /// Which epoch this is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The schedule it is an epoch of.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Batches: [`Schedule::steps`].
    pub fn len(&self) -> u64 {
        self.schedule.0.steps
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The windows of batch `k`, in their order. The time is that of the batch's windows, whatever
    /// `k` is: see [`Order`].
    ///
    /// # Panics
    /// `k` is not below [`Epoch::len`].
    pub fn batch(&self, k: u64) -> Vec<u64> {
        let Inner {
            spec, parts, steps, ..
        } = &*self.schedule.0;
        assert!(k < *steps, "batch {k} of an epoch of {steps} batches");
        // The slot in the list that all ranks share, and for padding the beginning again.
        let slot = |batches: u64| (k * spec.world as u64 + spec.rank as u64) % batches;
        let slot_of_parts = || slot(parts.batches);
        match &*self.draw {
            Draw::Sequential => {
                let (i, number) = parts.locate(slot_of_parts());
                let part = &parts.parts[i];
                parts.places(i, number).map(|p| part.window(p)).collect()
            }
            Draw::Shuffled { batches, windows } => {
                let slot = slot_of_parts();
                let batch = batches.as_ref().map_or(slot, |b| b.apply(slot));
                let (i, number) = parts.locate(batch);
                let (part, order) = (&parts.parts[i], &windows[i]);
                let window = |place| part.window(order.apply(place));
                parts.places(i, number).map(window).collect()
            }
            Draw::Blocks(shuffles) => {
                let (i, number) = parts.interleave(slot_of_parts());
                let (part, shuffle) = (&parts.parts[i], &shuffles[i]);
                let places = parts.places(i, number);
                let mut pool = shuffle.pool_at(places.start);
                let window = |place| {
                    if !pool.holds(place) {
                        pool = shuffle.pool_at(place);
                    }
                    part.window(shuffle.apply(&pool, place))
                };
                places.map(window).collect()
            }
            Draw::Samudra(pass) => {
                let (i, number) = parts.locate(pass.batch(k));
                pass.windows(parts, i, parts.places(i, number))
            }
            Draw::Custom => match &spec.order {
                Order::Custom(batches) => batches[slot(batches.len() as u64) as usize].clone(),
                _ => unreachable!("only a custom order draws from one"),
            },
        }
    }

    /// Batch `k` and all that follow.
    pub fn iter_from(&self, k: u64) -> Batches {
        Batches {
            epoch: self.clone(),
            next: k,
        }
    }
}

/// Iterator over the batches of an [`Epoch`]. Owns what it needs.
#[derive(Clone, Debug)]
pub struct Batches {
    epoch: Epoch,
    next: u64,
}

impl Iterator for Batches {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let batch = (self.next < self.epoch.len()).then(|| self.epoch.batch(self.next))?;
        self.next += 1;
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.epoch.len().saturating_sub(self.next);
        let left = usize::try_from(left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}
