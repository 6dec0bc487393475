//! Which windows may share a batch, and the batches they are cut into.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Sums and sizes stay in range below this, with room for three times over.
pub(crate) const MAX_WINDOWS: u64 = u64::MAX / 4;

/// Which windows there are, and which may share a batch.
///
/// Windows are numbered `0..windows()`. Each belongs to one group; a batch never mixes groups. Groups
/// are in first-seen order; [`Order::Samudra`](crate::Order::Samudra) may ask for them sorted by key instead.
///
/// ```
/// use burn_om4::order::Groups;
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

    /// The groups of `picks` items for each window: item `window * picks + pick`.
    ///
    /// # Errors
    /// More items than an order can number (2^62 - 1), or none.
    pub(crate) fn repeated(&self, picks: u64) -> Result<Self> {
        if picks == 0 {
            return Err(Error::config("the picks of a window must be at least 1").found(0));
        }
        let windows = self.windows.checked_mul(picks);
        let windows = windows.filter(|n| *n <= MAX_WINDOWS).ok_or_else(|| {
            Error::config("more picks than an order can number").expected(MAX_WINDOWS)
        })?;
        let mut groups = self.groups.clone();
        for range in groups.iter_mut().flat_map(|g| &mut g.ranges) {
            *range = range.start * picks..range.end * picks;
        }
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

/// The groups in the order a schedule takes them, cut into batches.
#[derive(Debug)]
pub(crate) struct BatchedGroups {
    pub(crate) parts: Vec<BatchedGroup>,
    pub(crate) batch_size: u64,
    /// Batches in all parts.
    pub(crate) batches: u64,
}

/// One group's windows, numbered from 0 within the group, and its batches.
#[derive(Debug)]
pub(crate) struct BatchedGroup {
    /// (number within the group of the range's first window, range), ascending.
    ranges: Vec<(u64, Range<u64>)>,
    pub(crate) windows: u64,
    pub(crate) batches: u64,
    /// Batches in the parts before.
    pub(crate) first_batch: u64,
}

impl BatchedGroups {
    pub(crate) fn new(
        groups: &Groups,
        order: GroupOrder,
        batch_size: u64,
        drop_last: bool,
    ) -> Self {
        let mut ordered: Vec<&Group> = groups.groups.iter().collect();
        if order == GroupOrder::Sorted {
            ordered.sort_by_key(|g| g.sorted_place);
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
            BatchedGroup {
                ranges,
                windows,
                batches: own,
                first_batch,
            }
        };
        let parts = ordered.into_iter().map(part).collect();
        Self {
            parts,
            batch_size,
            batches,
        }
    }

    /// The part a batch is of, and its number there. `batch < self.batches`.
    pub(crate) fn locate(&self, batch: u64) -> (usize, u64) {
        // BatchedGroups without a batch share their first_batch with the next one, which comes out here.
        let part = self.parts.partition_point(|p| p.first_batch <= batch) - 1;
        (part, batch - self.parts[part].first_batch)
    }

    /// Slot `slot` of the even mixture of all parts, as [`BatchedGroups::locate`].
    ///
    /// Each part in turn takes its share of the slots that the parts before have left: of `rest`
    /// slots, `batches` in evenly spaced places.
    pub(crate) fn interleave(&self, mut slot: u64) -> (usize, u64) {
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

impl BatchedGroup {
    /// The window at `place < self.windows`. O(log ranges).
    pub(crate) fn window(&self, place: u64) -> u64 {
        let at = self.ranges.partition_point(|(first, _)| *first <= place) - 1;
        let (first, range) = &self.ranges[at];
        range.start + (place - first)
    }
}
