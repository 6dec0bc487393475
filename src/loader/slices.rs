//! One loader for several devices: which part each slice is, how far the slowest is, and that all
//! fail together.
//!
//! Burn cuts a loader with `slice(start, end)`, once per device, and does not say how many devices
//! there are. All slices are made before the first one is iterated, so the loader notes them, and a
//! slice looks up which of how many it is when it starts.

use crate::error::{Error, ErrorKind, Result};
use crate::loader::cursor::Cursor;
use crate::order::options::Shard;
use crate::order::state::Position;
use crate::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// The slice sets of one loader, of which the latest may still grow.
#[derive(Default)]
pub(crate) struct SliceSets(Mutex<Option<Arc<SliceSet>>>);

impl SliceSets {
    /// Notes a slice. One that starts where the slice before ended belongs with it; after the slice
    /// that ends at `items` a new set begins.
    pub(crate) fn add(&self, items: usize, slice: Range<usize>) -> Slice {
        let mut latest = lock(&self.0);
        let growing = latest
            .take()
            .filter(|set| set.continues(items, slice.start));
        let set = growing.unwrap_or_else(|| Arc::new(SliceSet::new(items)));
        let index = set.push(slice);
        *latest = Some(set.clone());
        Slice {
            set,
            index,
            nested: false,
        }
    }
}

/// The slices of one loader, from the first to the one that ends at the last item.
pub(crate) struct SliceSet {
    items: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slices: Vec<SliceEntry>,
    failure: Option<Failure>,
}

struct SliceEntry {
    range: Range<usize>,
    /// Of its latest iterator.
    cursor: Option<Cursor>,
}

struct Failure {
    index: usize,
    at: Position,
    what: String,
}

impl SliceSet {
    fn new(items: usize) -> Self {
        Self {
            items,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    fn continues(&self, items: usize, start: usize) -> bool {
        let inner = self.lock();
        let end = inner.slices.last().map_or(0, |last| last.range.end);
        items == self.items && start == end && end < items
    }

    fn push(&self, range: Range<usize>) -> usize {
        let mut inner = self.lock();
        inner.slices.push(SliceEntry {
            range,
            cursor: None,
        });
        inner.slices.len() - 1
    }

    /// Batches that every slice has delivered; `start` for slices that have not begun.
    pub(crate) fn slowest(&self, start: Position) -> Position {
        let inner = self.lock();
        let positions = inner.slices.iter().map(|slice| {
            let cursor = slice.cursor.as_ref();
            cursor.map_or(start, Cursor::get)
        });
        positions.min().unwrap_or(start)
    }
}

/// One slice of a set.
#[derive(Clone)]
pub(crate) struct Slice {
    set: Arc<SliceSet>,
    index: usize,
    nested: bool,
}

impl Slice {
    /// A slice of this slice, which nobody serves: [`Slice::shard`] says so.
    pub(crate) fn nested(&self) -> Self {
        Self {
            nested: true,
            ..self.clone()
        }
    }

    /// The set it is of.
    pub(crate) fn set(&self) -> &Arc<SliceSet> {
        &self.set
    }

    /// Items between the two numbers it was cut with.
    pub(crate) fn items(&self) -> usize {
        self.set.lock().slices[self.index].range.len()
    }

    /// Which part of how many.
    ///
    /// # Errors
    /// The slices made so far are not n equal ones (the last with what is left over), or this is a
    /// slice of a slice.
    pub(crate) fn shard(&self) -> Result<Shard> {
        if self.nested {
            return Err(Error::config("a slice of a loader cannot be sliced again"));
        }
        let items = self.set.items;
        let inner = self.set.lock();
        let count = inner.slices.len();
        let step = items / count;
        let expected = |i: usize| match i + 1 == count {
            true => i * step..items,
            false => i * step..(i + 1) * step,
        };
        let ranges = || inner.slices.iter().map(|slice| &slice.range);
        if ranges().enumerate().all(|(i, range)| *range == expected(i)) {
            return Ok(Shard {
                index: self.index,
                count,
            });
        }
        let shown: Vec<_> = ranges().take(8).map(|r| format!("{r:?}")).collect();
        Err(
            Error::config("the slices of a loader do not split it equally between devices")
                .expected(format!(
                    "n slices of {items} items, {items} / n each and the rest with the last, all \
                     made before one is iterated"
                ))
                .found(format!("{count} slices: {}", shown.join(", "))),
        )
    }

    /// A new iterator of this slice begins; `cursor` shows its place.
    pub(crate) fn begins(&self, cursor: &Cursor) {
        self.set.lock().slices[self.index].cursor = Some(cursor.clone());
    }

    /// Tells the other slices that batch `at` failed here. The earliest failure is kept.
    pub(crate) fn failed(&self, at: Position, error: &Error) {
        let mut inner = self.set.lock();
        if inner.failure.as_ref().is_none_or(|f| at < f.at) {
            inner.failure = Some(Failure {
                index: self.index,
                at,
                what: error.to_string(),
            });
        }
    }

    /// Whether batch `at` may be delivered: no other slice's failed there or before.
    ///
    /// Good batches before a failure are delivered, so that all devices stop at the same step. Once
    /// failed, a set stays so.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`], with the failure.
    pub(crate) fn check(&self, at: Position) -> Result<()> {
        let inner = self.set.lock();
        match &inner.failure {
            Some(f) if f.at < at || f.at == at && f.index != self.index => Err(Error::new(
                ErrorKind::Interrupted,
                format!(
                    "device {} of {} could not get batch {} of epoch {}, so all stop",
                    f.index,
                    inner.slices.len(),
                    f.at.delivered,
                    f.at.epoch
                ),
            )
            .found(&f.what)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Burn's `split_dataloader` cuts.
    fn cut(sets: &SliceSets, items: usize, devices: usize) -> Vec<Slice> {
        let step = items / devices;
        let range = |i| match i + 1 == devices {
            true => i * step..items,
            false => i * step..(i + 1) * step,
        };
        (0..devices).map(|i| sets.add(items, range(i))).collect()
    }

    #[test]
    fn every_slice_knows_its_part_whatever_the_number_of_items() {
        let sets = SliceSets::default();
        for items in 1..60 {
            for devices in 1..20 {
                // The same loader is split again and again.
                let slices = cut(&sets, items, devices);
                for (index, slice) in slices.iter().enumerate() {
                    let count = devices;
                    assert_eq!(slice.shard().unwrap(), Shard { index, count });
                }
            }
        }
    }

    #[test]
    fn other_slices_are_refused() {
        let sets = SliceSets::default();
        // A tenth is no way to shorten an epoch.
        let alone = sets.add(100, 0..10);
        let error = alone.shard().unwrap_err().to_string();
        assert!(
            error.contains("100 items") && error.contains("0..10"),
            "{error}"
        );
        let uneven = [sets.add(100, 0..10), sets.add(100, 10..100)];
        assert!(uneven.iter().all(|slice| slice.shard().is_err()));
        let slices = cut(&sets, 100, 2);
        assert!(slices[0].nested().shard().is_err());
        assert_eq!(slices[1].shard().unwrap().index, 1);
        // A set that was left unfinished does not spoil the next one.
        sets.add(100, 0..25);
        assert_eq!(cut(&sets, 100, 4)[3].shard().unwrap().index, 3);
    }

    #[test]
    fn a_failure_stops_the_others_at_its_place_and_names_its_cause() {
        let at = |delivered| Position {
            epoch: 2,
            delivered,
        };
        let slices = cut(&SliceSets::default(), 9, 3);
        slices[1].failed(at(5), &Error::config("the disk is gone"));
        slices[2].failed(at(7), &Error::config("a later one"));
        for slice in &slices {
            assert!(slice.check(at(4)).is_ok());
            let error = slice.check(at(6)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert!(error.to_string().contains("the disk is gone"), "{error}");
        }
        assert!(slices[0].check(at(5)).is_err());
        assert!(
            slices[1].check(at(5)).is_ok(),
            "it has its own error to tell"
        );
        assert!(
            cut(&SliceSets::default(), 9, 3)[0].check(at(6)).is_ok(),
            "another set"
        );
    }
}
