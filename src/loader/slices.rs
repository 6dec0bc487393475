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

/// The splits of one loader, of which the latest may still grow.
#[derive(Default)]
pub(crate) struct SliceSets(Mutex<Option<Arc<SliceSet>>>);

impl SliceSets {
    /// Notes a slice. One that starts where the slice before ended belongs with it; after the slice
    /// that ends at `items` a new split begins.
    pub fn add(&self, items: usize, slice: Range<usize>) -> Slice {
        let mut latest = lock(&self.0);
        let growing = latest
            .take()
            .filter(|split| split.continues(items, slice.start));
        let split = growing.unwrap_or_else(|| Arc::new(SliceSet::new(items)));
        let index = split.push(slice);
        *latest = Some(split.clone());
        Slice {
            split,
            index,
            nested: false,
        }
    }
}

/// The slices of one split, from the first to the one that ends at the last item.
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
    place: Option<Cursor>,
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
        inner.slices.push(SliceEntry { range, place: None });
        inner.slices.len() - 1
    }

    /// Batches that every slice has delivered; `start` for slices that have not begun.
    pub fn slowest(&self, start: Position) -> Position {
        let inner = self.lock();
        let places = inner.slices.iter().map(|slice| {
            let place = slice.place.as_ref();
            place.map_or(start, Cursor::get)
        });
        places.min().unwrap_or(start)
    }
}

/// One slice of a split.
#[derive(Clone)]
pub(crate) struct Slice {
    split: Arc<SliceSet>,
    index: usize,
    nested: bool,
}

impl Slice {
    /// A slice of this slice, which nobody serves: [`Slice::shard`] says so.
    pub fn nested(&self) -> Self {
        Self {
            nested: true,
            ..self.clone()
        }
    }

    /// The split it is of.
    pub fn split(&self) -> &Arc<SliceSet> {
        &self.split
    }

    /// Items between the two numbers it was cut with.
    pub fn items(&self) -> usize {
        self.split.lock().slices[self.index].range.len()
    }

    /// Which part of how many.
    ///
    /// # Errors
    /// The slices made so far are not n equal ones (the last with what is left over), or this is a
    /// slice of a slice.
    pub fn shard(&self) -> Result<Shard> {
        if self.nested {
            return Err(Error::config("a slice of a loader cannot be sliced again"));
        }
        let items = self.split.items;
        let inner = self.split.lock();
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

    /// A new iterator of this slice begins at `place`.
    pub fn begins(&self, place: &Cursor) {
        self.split.lock().slices[self.index].place = Some(place.clone());
    }

    /// Tells the other slices that batch `at` failed here. The earliest failure is kept.
    pub fn failed(&self, at: Position, error: &Error) {
        let mut inner = self.split.lock();
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
    /// failed, a split stays so.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`], with the failure.
    pub fn check(&self, at: Position) -> Result<()> {
        let inner = self.split.lock();
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
    fn cut(splits: &SliceSets, items: usize, devices: usize) -> Vec<Slice> {
        let step = items / devices;
        let slice = |i| match i + 1 == devices {
            true => i * step..items,
            false => i * step..(i + 1) * step,
        };
        (0..devices).map(|i| splits.add(items, slice(i))).collect()
    }

    #[test]
    fn every_slice_knows_its_part_whatever_the_number_of_items() {
        let splits = SliceSets::default();
        for items in 1..60 {
            for devices in 1..20 {
                // The same loader is split again and again.
                let parts = cut(&splits, items, devices);
                for (index, part) in parts.iter().enumerate() {
                    let count = devices;
                    assert_eq!(part.shard().unwrap(), Shard { index, count });
                }
            }
        }
    }

    #[test]
    fn other_slices_are_refused() {
        let splits = SliceSets::default();
        // A tenth is no way to shorten an epoch.
        let alone = splits.add(100, 0..10);
        let error = alone.shard().unwrap_err().to_string();
        assert!(
            error.contains("100 items") && error.contains("0..10"),
            "{error}"
        );
        let uneven = [splits.add(100, 0..10), splits.add(100, 10..100)];
        assert!(uneven.iter().all(|part| part.shard().is_err()));
        let parts = cut(&splits, 100, 2);
        assert!(parts[0].nested().shard().is_err());
        assert_eq!(parts[1].shard().unwrap().index, 1);
        // A split that was left unfinished does not spoil the next one.
        splits.add(100, 0..25);
        assert_eq!(cut(&splits, 100, 4)[3].shard().unwrap().index, 3);
    }

    #[test]
    fn a_failure_stops_the_others_at_its_place_and_names_its_cause() {
        let at = |delivered| Position {
            epoch: 2,
            delivered,
        };
        let parts = cut(&SliceSets::default(), 9, 3);
        parts[1].failed(at(5), &Error::config("the disk is gone"));
        parts[2].failed(at(7), &Error::config("a later one"));
        for part in &parts {
            assert!(part.check(at(4)).is_ok());
            let error = part.check(at(6)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert!(error.to_string().contains("the disk is gone"), "{error}");
        }
        assert!(parts[0].check(at(5)).is_err());
        assert!(
            parts[1].check(at(5)).is_ok(),
            "it has its own error to tell"
        );
        assert!(
            cut(&SliceSets::default(), 9, 3)[0].check(at(6)).is_ok(),
            "another split"
        );
    }
}
