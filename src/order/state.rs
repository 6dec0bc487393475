//! Where a run was interrupted: a small JSON document, and the rules for going on from it.

use crate::error::{Error, Result};
use crate::order::fingerprint::{Fingerprint, FingerprintPart};
use crate::order::options::{Order, Shard};
use crate::order::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// The version of the document, and of the orders themselves: either changes, this does.
const VERSION: u32 = 1;

/// How far a run is: everything before has been delivered, and nothing after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The epoch, as [`Schedule::epoch`] counts.
    pub epoch: u64,
    /// Batches of that epoch that every rank has delivered: the next one is batch `delivered`.
    /// Batches read ahead do not count.
    pub delivered: u64,
}

/// A run's [`Position`], with what must not have changed for it to mean the same. As JSON it is a
/// few hundred bytes, the same on every rank.
///
/// # What a state may be resumed with
/// Thread counts and prefetch depths are not part of it. Order, seed, `drop_last`, windows and the
/// store's [`Fingerprint`] must be the same. Beyond that:
///
/// | order | another world | another batch size |
/// |---|---|---|
/// | sequential, shuffled, blocks; one group | yes | yes |
/// | the same; several groups | yes | no: batches are cut within groups |
/// | Samudra | no: the draws depend on the world | no |
/// | custom | no | no |
///
/// where "yes" needs the windows delivered so far to be a whole number of rounds of the new run:
/// `delivered * batch_size * world` is a multiple of the new `batch_size * world`. At the end of an
/// epoch it always is: the new run starts with the next one.
///
/// Slices count as that many more ranks: what two slices of a loader saved is of a world twice as large,
/// and two slices go on from it in every order ([`OceanLoader::resume`](crate::OceanLoader::resume)).
///
/// ```
/// use burn_om4::{LoaderState, Schedule, ScheduleOptions};
/// use burn_om4::order::{Fingerprint, Groups, Position};
/// let store = Fingerprint::default();
/// let with = |batch_size, world| {
///     let options = ScheduleOptions::default().with_batch_size(batch_size).with_world(world);
///     Schedule::new(options, Groups::single(100)?)
/// };
/// let at = Position { epoch: 3, delivered: 6 };
/// let text = LoaderState::new(&with(4, 1)?, at, store.clone()).to_json();
///
/// let state = LoaderState::from_json(&text)?;
/// assert_eq!(state.resume(&with(4, 1)?, &store)?, at);
/// assert_eq!(state.resume(&with(2, 3)?, &store)?, Position { epoch: 3, delivered: 4 });
/// assert!(state.resume(&with(5, 1)?, &store).is_err());
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    version: u32,
    seed: i64,
    epoch: u64,
    delivered: u64,
    order: String,
    batch_size: usize,
    drop_last: bool,
    world: usize,
    /// Digest of the groups, and of the batches of a custom order.
    windows: String,
    store: Fingerprint,
}

impl LoaderState {
    /// The state of a run that is at `position`.
    pub fn new(schedule: &Schedule, position: Position, store: Fingerprint) -> Self {
        let options = schedule.options();
        Self {
            version: VERSION,
            seed: options.seed,
            epoch: position.epoch,
            delivered: position.delivered,
            order: options.order.to_string(),
            batch_size: options.batch_size,
            drop_last: options.drop_last,
            world: options.world,
            windows: windows_digest(schedule),
            store,
        }
    }

    /// The position it was made with, in steps of the batch size and world it was made with.
    pub fn position(&self) -> Position {
        Position {
            epoch: self.epoch,
            delivered: self.delivered,
        }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }

    /// Reads what [`LoaderState::to_json`] wrote.
    ///
    /// # Errors
    /// No JSON, another version, a field too many or too few.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let refused = |e: serde_json::Error| Error::config("not a saved state").caused_by(e);
        let Versioned { version } = serde_json::from_str(text).map_err(refused)?;
        if version != u64::from(VERSION) {
            return Err(Error::config("a saved state of another version")
                .expected(VERSION)
                .found(version));
        }
        serde_json::from_str(text).map_err(refused)
    }

    /// Where a run with this schedule and store goes on. An epoch that was delivered to its end
    /// gives batch 0 of the next one.
    ///
    /// # Errors
    /// Anything in the table above that forbids it, named with what was saved and what is there.
    pub fn resume(&self, schedule: &Schedule, store: &Fingerprint) -> Result<Position> {
        let options = schedule.options();
        // A state inside another document was not read by `from_json`.
        same("version", &self.version, &VERSION)?;
        self.store.check(store)?;
        same("order", &self.order, &options.order.to_string())?;
        same("seed", &self.seed, &options.seed)?;
        same("drop_last", &self.drop_last, &options.drop_last)?;
        let windows = windows_digest(schedule);
        if self.windows != windows {
            return Err(Error::config("the saved state orders other windows")
                .expected(&self.windows)
                .found(windows));
        }
        let saved = Schedule::new(
            options
                .clone()
                .with_batch_size(self.batch_size)
                .with_world(self.world)
                .with_rank(0),
            schedule.groups().clone(),
        )?;
        if self.delivered > saved.steps() {
            return Err(
                Error::config("the saved state counts more batches than an epoch has")
                    .expected(format!("at most {}", saved.steps()))
                    .found(self.delivered),
            );
        }
        let rebatched = self.batch_size != options.batch_size;
        let resized = self.world != options.world;
        if !rebatched && !resized {
            return match self.delivered {
                d if d == saved.steps() => self.next_epoch(),
                _ => Ok(self.position()),
            };
        }
        match options.order {
            Order::Sequential | Order::Shuffled | Order::Blocks { .. } => {}
            Order::Samudra { .. } | Order::Custom(_) => {
                same("batch size", &self.batch_size, &options.batch_size)?;
                same("world size", &self.world, &options.world)?;
            }
        }
        if schedule.groups().len() > 1 {
            same("batch size", &self.batch_size, &options.batch_size)?;
        }
        if self.delivered == saved.steps() {
            return self.next_epoch();
        }
        self.in_rounds_of(schedule)
    }

    /// Whether it is the state of slices of a loader with this schedule, and of no use to the loader as a
    /// whole: its order depends on the number of ranks, which slices multiply.
    pub(crate) fn fits_slices_of(&self, schedule: &Schedule, store: &Fingerprint) -> bool {
        let world = schedule.options().world;
        let count = self.world / world;
        if count < 2 || !self.world.is_multiple_of(world) {
            return false;
        }
        let slice = schedule.shard(Shard { index: 0, count });
        slice.is_ok_and(|slice| self.resume(&slice, store).is_ok())
            && self.resume(schedule, store).is_err()
    }

    fn next_epoch(&self) -> Result<Position> {
        let epoch = self.epoch.checked_add(1);
        let epoch = epoch
            .ok_or_else(|| Error::config("no epoch follows the saved one").found(self.epoch))?;
        Ok(Position {
            epoch,
            delivered: 0,
        })
    }

    /// The position within its epoch, counted in rounds of another batch size or world.
    fn in_rounds_of(&self, schedule: &Schedule) -> Result<Position> {
        let options = schedule.options();
        // Short batches and padding are in the last round, and that one is not among the delivered.
        // With several groups the batches are of one size on both sides, and count as if all full.
        let round = |batch_size: usize, world: usize| batch_size as u128 * world as u128;
        let delivered = u128::from(self.delivered) * round(self.batch_size, self.world);
        let new_round = round(options.batch_size, options.world);
        if delivered % new_round != 0 {
            return Err(Error::config(
                "the saved state is not between two rounds of this batch size and world",
            )
            .expected(format!(
                "a divisor of the {delivered} windows delivered ({} batches of {} on each of {} \
                 ranks)",
                self.delivered, self.batch_size, self.world
            ))
            .found(format!(
                "{new_round} (batches of {} on {} ranks)",
                options.batch_size, options.world
            )));
        }
        let delivered = (delivered / new_round) as u64;
        if delivered >= schedule.steps() {
            // What this batch size would still have delivered, it drops.
            return self.next_epoch();
        }
        Ok(Position {
            epoch: self.epoch,
            delivered,
        })
    }
}

fn same<T: PartialEq + std::fmt::Display>(what: &str, saved: &T, here: &T) -> Result<()> {
    if saved == here {
        return Ok(());
    }
    Err(Error::config(format!(
        "the saved state has another {what}, and cannot be resumed with this one"
    ))
    .expected(saved)
    .found(here))
}

fn windows_digest(schedule: &Schedule) -> String {
    let mut digest = FingerprintPart::default();
    for (sorted_place, ranges) in schedule.groups().ranges() {
        let ends: Vec<u64> = ranges.iter().flat_map(|r| [r.start, r.end]).collect();
        digest.u64s(&[sorted_place as u64]).u64s(&ends);
    }
    if let Order::Custom(batches) = &schedule.options().order {
        for batch in batches {
            digest.u64s(batch);
        }
    }
    digest.finish()
}
