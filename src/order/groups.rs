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
/// Windows are numbered `0..windows()`. Each belongs to one group; a batch never mixes groups.
/// Groups are in first-seen order; [`Order::Samudra`](crate::Order::Samudra) may ask for them
/// sorted by key instead.
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
