//! The order of batches: a pure function of (seed, epoch, world, rank).
//!
//! ```text
//! Groups ----+
//!            +--> Schedule --epoch(e)--> Epoch --batch(k)--> window indices
//! ScheduleOptions
//! ```
//!
//! Nothing here counts, remembers or advances: threads, prefetch depth and where a pass was
//! interrupted cannot change an order. Windows are numbered through all data sets, in the order the
//! data sets are listed.
//!
//! # From an order to the batches of a rank
//! Every order but [`Order::Samudra`] makes one list of batches per epoch, each from one group.
//! Step `k` of rank `r` is batch `k * world + r` of that list. Where the list does not fill the
//! last round, `drop_last` drops that round; otherwise the ranks left over draw again from the
//! beginning of the same list (over and over where the list is shorter than a round). So all ranks
//! take the same number of steps, for every length and world.
//!
//! A group whose length is not a multiple of the batch size has one short batch: `drop_last` drops
//! it too. Which windows it holds changes with the epoch in shuffled orders.

use crate::error::{Error, Result};
use crate::order::batched_groups::BatchedGroups;
use crate::order::draw::Draw;
use crate::order::groups::{GroupOrder, Groups};
use crate::order::options::{Order, ScheduleOptions, Shard, check};
use std::fmt;
use std::sync::Arc;

/// The batches of one rank, for every epoch. Cheap to clone.
///
/// ```
/// use burn_om4::{Order, Schedule, ScheduleOptions};
/// use burn_om4::order::Groups;
/// let options = ScheduleOptions::default()
///     .with_order(Order::Sequential)
///     .with_batch_size(4)
///     .with_world(2)
///     .with_rank(1);
/// let schedule = Schedule::new(options, Groups::single(10)?)?;
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
    options: ScheduleOptions,
    groups: Groups,
    batched: BatchedGroups,
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
    pub fn new(options: ScheduleOptions, groups: Groups) -> Result<Self> {
        check(&options, &groups)?;
        let (batch_size, world) = (options.batch_size as u64, options.world as u64);
        let group_order = match options.order {
            Order::Samudra { groups, .. } => groups,
            _ => GroupOrder::FirstSeen,
        };
        let batched = BatchedGroups::new(&groups, group_order, batch_size, options.drop_last);
        let rounds = |batches: u64| {
            if options.drop_last {
                batches / world
            } else {
                batches.div_ceil(world)
            }
        };
        let steps = match &options.order {
            Order::Samudra { .. } => batched.groups.iter().map(|g| rounds(g.batches)).sum(),
            Order::Custom(batches) => rounds(batches.len() as u64),
            Order::Sequential | Order::Shuffled | Order::Blocks { .. } => rounds(batched.batches),
        };
        Ok(Self(Arc::new(Inner {
            options,
            groups,
            batched,
            steps,
        })))
    }

    /// The options it was made from.
    pub fn options(&self) -> &ScheduleOptions {
        &self.0.options
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
        let draw = Draw::new(&self.0.options, &self.0.batched, epoch);
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
    /// use burn_om4::{Schedule, ScheduleOptions};
    /// use burn_om4::order::{Groups, Shard};
    /// let whole = Schedule::new(ScheduleOptions::default(), Groups::single(19)?)?;
    /// let second = whole.shard(Shard { index: 1, count: 2 })?;
    /// assert_eq!((second.options().world, second.options().rank, second.steps()), (2, 1, 10));
    /// # Ok::<(), burn_om4::Error>(())
    /// ```
    ///
    /// # Errors
    /// A count of 0, an index not below the count, or a world beyond the address space.
    pub fn shard(&self, shard: Shard) -> Result<Self> {
        let mut options = self.0.options.clone();
        if shard.index >= shard.count {
            return Err(Error::config("no such part of a schedule")
                .expected(format!("an index below {}", shard.count))
                .found(shard.index));
        }
        options.world = (options.world.checked_mul(shard.count))
            .ok_or_else(|| Error::config("too many parts of a schedule").found(shard.count))?;
        options.rank = options.rank * shard.count + shard.index;
        Self::new(options, self.0.groups.clone())
    }
}

/// The batches of one epoch on one rank. Cheap to clone, and to send to another thread.
#[derive(Clone)]
pub struct Epoch {
    schedule: Schedule,
    number: u64,
    draw: Arc<Draw>,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("options", self.schedule.options())
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
            options,
            batched,
            steps,
            ..
        } = &*self.schedule.0;
        assert!(k < *steps, "batch {k} of an epoch of {steps} batches");
        self.draw.batch(options, batched, k)
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
