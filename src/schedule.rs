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
use crate::permutation::{BlockShuffle, Key, Permutation};
use crate::samudra_order::SamudraPass;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// Sums and sizes stay in range below this, with room for three times over.
const MAX_WINDOWS: u64 = u64::MAX / 4;

/// Which windows there are, and which may share a batch.
///
/// Windows are numbered `0..windows()`. Each belongs to one group; a batch never mixes groups. Groups
/// are in first-seen order; [`Order::Samudra`] may ask for them sorted by key instead.
///
/// ```
/// use burn_om4::Groups;
/// let grids = [(10, [12, 24]), (7, [6, 14]), (8, [12, 24])];
/// let groups = Groups::by_key(grids)?;
/// assert_eq!((groups.windows(), groups.len()), (25, 2));
/// assert_eq!(groups.group_of(17), Some(0));
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    windows: u64,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Ascending and apart from each other.
    ranges: Vec<Range<u64>>,
    /// Place of the group's key among all keys, sorted.
    sorted_place: usize,
}

impl Groups {
    /// One group of `windows` windows.
    ///
    /// # Errors
    /// More windows than an order can number (2^62 - 1).
    pub fn single(windows: u64) -> Result<Self> {
        Self::by_key([(windows, ())])
    }

    /// Data sets as (number of windows, key), in their order. Those with equal keys form one group.
    ///
    /// A group without windows is no group, but an empty data set is where its key was first seen.
    /// O(d log d) for d data sets.
    ///
    /// # Errors
    /// More windows than an order can number (2^62 - 1).
    pub fn by_key<K: Ord + Hash + Clone>(
        data_sets: impl IntoIterator<Item = (u64, K)>,
    ) -> Result<Self> {
        let mut windows = 0u64;
        let mut ranges: Vec<Vec<Range<u64>>> = Vec::new();
        let mut keys: Vec<K> = Vec::new();
        let mut place_of: HashMap<K, usize> = HashMap::new();
        for (length, key) in data_sets {
            let end = windows.checked_add(length).filter(|n| *n <= MAX_WINDOWS);
            let end = end.ok_or_else(|| {
                Error::config("more windows than an order can number").expected(MAX_WINDOWS)
            })?;
            let place = *place_of.entry(key.clone()).or_insert_with(|| {
                keys.push(key);
                ranges.push(Vec::new());
                keys.len() - 1
            });
            match ranges[place].last_mut() {
                Some(last) if last.end == windows => last.end = end,
                _ if length == 0 => {}
                _ => ranges[place].push(windows..end),
            }
            windows = end;
        }
        let mut by_key: Vec<usize> = (0..keys.len()).collect();
        by_key.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        let mut sorted_place = vec![0; keys.len()];
        for (place, first_seen) in by_key.into_iter().enumerate() {
            sorted_place[first_seen] = place;
        }
        let groups = (ranges.into_iter().zip(sorted_place))
            .map(|(ranges, sorted_place)| Group {
                ranges,
                sorted_place,
            })
            .filter(|group| !group.ranges.is_empty())
            .collect();
        Ok(Self { windows, groups })
    }

    /// Windows in all groups.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Groups that have windows.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no window at all.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The group (in first-seen order) a window belongs to; `None` where there is no such window.
    pub fn group_of(&self, window: u64) -> Option<usize> {
        let holds = |g: &Group| g.ranges.iter().any(|r| r.contains(&window));
        self.groups.iter().position(holds)
    }

    /// The ranges of every group, in first-seen order, with the group's place among sorted keys.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, &[Range<u64>])> {
        self.groups.iter().map(|g| (g.sorted_place, &*g.ranges))
    }
}

/// The order that groups come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOrder {
    /// By key: Samudra's main branch, whose key is the grid `(ny, nx)`.
    #[default]
    Sorted,
    /// As the data sets list them: Samudra's shard branch, where every shard is a group.
    FirstSeen,
}

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
    /// round is dropped by `drop_last`.
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

/// The groups in the order a schedule takes them, cut into batches.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) batch_size: u64,
    /// Batches in all parts.
    pub(crate) batches: u64,
}

/// One group's windows, numbered from 0 within the group, and its batches.
#[derive(Debug)]
pub(crate) struct Part {
    /// (number within the group of the range's first window, range), ascending.
    ranges: Vec<(u64, Range<u64>)>,
    pub(crate) windows: u64,
    pub(crate) batches: u64,
    /// Batches in the parts before.
    pub(crate) first_batch: u64,
}

impl Parts {
    fn new(groups: &Groups, order: &Order, batch_size: u64, drop_last: bool) -> Self {
        let mut sorted: Vec<&Group> = groups.groups.iter().collect();
        if let Order::Samudra {
            groups: GroupOrder::Sorted,
            ..
        } = order
        {
            sorted.sort_by_key(|g| g.sorted_place);
        }
        let mut batches = 0;
        let part = |group: &Group| {
            let mut windows = 0;
            let mut ranges = Vec::with_capacity(group.ranges.len());
            for range in &group.ranges {
                ranges.push((windows, range.clone()));
                windows += range.end - range.start;
            }
            let first_batch = batches;
            let own = if drop_last {
                windows / batch_size
            } else {
                windows.div_ceil(batch_size)
            };
            batches += own;
            Part {
                ranges,
                windows,
                batches: own,
                first_batch,
            }
        };
        let parts = sorted.into_iter().map(part).collect();
        Self {
            parts,
            batch_size,
            batches,
        }
    }

    /// The part a batch is of, and its number there. `batch < self.batches`.
    fn locate(&self, batch: u64) -> (usize, u64) {
        // Parts without a batch share their first_batch with the next one, which comes out here.
        let part = self.parts.partition_point(|p| p.first_batch <= batch) - 1;
        (part, batch - self.parts[part].first_batch)
    }

    /// Slot `slot` of the even mixture of all parts, as [`Parts::locate`].
    ///
    /// Each part in turn takes its share of the slots that the parts before have left: of `rest`
    /// slots, `batches` in evenly spaced places.
    fn interleave(&self, mut slot: u64) -> (usize, u64) {
        let mut rest = self.batches;
        for (i, part) in self.parts.iter().enumerate() {
            let share = |slots: u64| {
                (u128::from(slots) * u128::from(part.batches) / u128::from(rest.max(1))) as u64
            };
            let before = share(slot);
            if share(slot + 1) > before {
                return (i, before);
            }
            slot -= before;
            rest -= part.batches;
        }
        unreachable!("the last part takes every slot that is left")
    }

    /// Where in its part batch `number` lies.
    pub(crate) fn places(&self, part: usize, number: u64) -> Range<u64> {
        let start = number * self.batch_size;
        start..(start.saturating_add(self.batch_size)).min(self.parts[part].windows)
    }
}

impl Part {
    /// The window at `place < self.windows`. O(log ranges).
    pub(crate) fn window(&self, place: u64) -> u64 {
        let at = self.ranges.partition_point(|(first, _)| *first <= place) - 1;
        let (first, range) = &self.ranges[at];
        range.start + (place - first)
    }
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
        let parts = Parts::new(&groups, &spec.order, batch_size, spec.drop_last);
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
    /// times as large. Parts are disjoint (but for padding), equally long, and every epoch deals all
    /// windows anew.
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
    if let Some(missing) = batch.iter().find(|w| **w >= groups.windows) {
        return Err(
            Error::config(format!("batch {k} of the custom order has no such window"))
                .expected(format!("windows below {}", groups.windows))
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

impl Shard {
    /// Which device of how many Burn means by `DataLoader::slice(start, end)`.
    ///
    /// Burn's `split_dataloader` cuts `items` into `count` runs of `items / count`, the last one
    /// with the remainder, and does not say `count`. This is the smallest count that gives such a
    /// slice. It is the count Burn had, on all devices alike, if there are at least `count³` items;
    /// with fewer, tell the schedule its [`Shard`] directly.
    ///
    /// ```
    /// use burn_om4::Shard;
    /// assert_eq!(Shard::of_slice(4745, 1186, 2372)?, Shard { index: 1, count: 4 });
    /// assert_eq!(Shard::of_slice(4745, 3558, 4745)?, Shard { index: 3, count: 4 });
    /// assert!(Shard::of_slice(4745, 100, 200).is_ok());
    /// assert!(Shard::of_slice(4745, 100, 201).is_err());
    /// # Ok::<(), burn_om4::Error>(())
    /// ```
    ///
    /// # Errors
    /// No equal split has this slice, or it is empty because there are fewer items than devices.
    pub fn of_slice(items: usize, start: usize, end: usize) -> Result<Self> {
        let refused = || {
            Error::config("not a slice that splits the items equally between devices")
                .expected(format!(
                    "one of n slices of {items} items, {items} / n long each"
                ))
                .found(format!("{start}..{end}"))
        };
        if start >= end || end > items {
            return Err(refused());
        }
        if (start, end) == (0, items) {
            return Ok(Self { index: 0, count: 1 });
        }
        if end == items {
            // The last one: `start` is `count - 1` steps.
            let last = |count: &usize| {
                start.is_multiple_of(count - 1) && items / count == start / (count - 1)
            };
            let count = (2..=start + 1).find(last).ok_or_else(refused)?;
            return Ok(Self {
                index: count - 1,
                count,
            });
        }
        let step = end - start;
        let index = start / step;
        // Counts with `items / count == step`, and not the last slice.
        let count = (items / (step + 1) + 1).max(index + 2);
        if !start.is_multiple_of(step) || items / count != step {
            return Err(refused());
        }
        Ok(Self { index, count })
    }
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
