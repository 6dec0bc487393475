//! Groups of windows cut into batches.

use crate::order::groups::{GroupOrder, Groups};
use std::ops::Range;

/// The groups in the order a schedule takes them, cut into batches.
#[derive(Debug)]
pub(crate) struct BatchedGroups {
    pub(crate) groups: Vec<BatchedGroup>,
    pub(crate) batch_size: u64,
    /// Batches in all groups.
    pub(crate) batches: u64,
}

/// One group's windows, numbered from 0 within the group, and its batches.
#[derive(Debug)]
pub(crate) struct BatchedGroup {
    /// (number within the group of the range's first window, range), ascending.
    ranges: Vec<(u64, Range<u64>)>,
    pub(crate) windows: u64,
    pub(crate) batches: u64,
    /// Batches in the groups before.
    pub(crate) first_batch: u64,
}

impl BatchedGroups {
    pub(crate) fn new(
        groups: &Groups,
        order: GroupOrder,
        batch_size: u64,
        drop_last: bool,
    ) -> Self {
        let mut ordered: Vec<(usize, &[Range<u64>])> = groups.ranges().collect();
        if order == GroupOrder::Sorted {
            ordered.sort_by_key(|(sorted_place, _)| *sorted_place);
        }
        let mut batches = 0;
        let cut = |(_, of_group): (usize, &[Range<u64>])| {
            let mut windows = 0;
            let mut ranges = Vec::with_capacity(of_group.len());
            for range in of_group {
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
        let groups = ordered.into_iter().map(cut).collect();
        Self {
            groups,
            batch_size,
            batches,
        }
    }

    /// The group a batch is of, and its number there. `batch < self.batches`.
    pub(crate) fn locate(&self, batch: u64) -> (usize, u64) {
        // Groups without a batch share their first_batch with the next one, which comes out here.
        let group = self.groups.partition_point(|p| p.first_batch <= batch) - 1;
        (group, batch - self.groups[group].first_batch)
    }

    /// Slot `slot` of the even mixture of all groups, as [`BatchedGroups::locate`].
    ///
    /// Each group in turn takes its share of the slots that the groups before have left: of `rest`
    /// slots, `batches` in evenly spaced places.
    pub(crate) fn interleave(&self, mut slot: u64) -> (usize, u64) {
        let mut rest = self.batches;
        let others = &self.groups[..self.groups.len().saturating_sub(1)];
        for (i, group) in others.iter().enumerate() {
            let share = |slots: u64| {
                (u128::from(slots) * u128::from(group.batches) / u128::from(rest.max(1))) as u64
            };
            let before = share(slot);
            if share(slot + 1) > before {
                return (i, before);
            }
            slot -= before;
            rest -= group.batches;
        }
        // The last group takes every slot that is left.
        (others.len(), slot)
    }

    /// Where in its group batch `number` lies.
    pub(crate) fn places(&self, group: usize, number: u64) -> Range<u64> {
        let start = number * self.batch_size;
        start..(start.saturating_add(self.batch_size)).min(self.groups[group].windows)
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
