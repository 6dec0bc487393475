//! Tests of `slots`, in a file of their own: `tests/loom` builds that one with other locks.

use crate::host::slots::{Pooled, SlotBounds, Slots, Taken};
use crate::sync::{Mutex, lock};
use std::time::Duration;

impl Pooled for Box<[u8]> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

fn slots(keep: usize, limit: Option<usize>, freed_later: bool) -> Slots<Box<[u8]>> {
    Slots::new(SlotBounds {
        keep,
        limit,
        freed_later,
    })
}

/// A buffer of this size, and the sizes of those that the caller had to free.
fn take(slots: &Slots<Box<[u8]>>, bytes: usize) -> (Box<[u8]>, Vec<usize>) {
    match slots.take(bytes, Duration::ZERO).unwrap() {
        Taken::Free(slot) => (slot, Vec::new()),
        Taken::Allocate(unwanted) => {
            let unwanted = unwanted.iter().map(|slot| slot.len()).collect();
            (vec![0; bytes].into(), unwanted)
        }
    }
}

#[test]
fn one_more_than_are_kept_is_freed_at_once_or_by_the_next_that_allocates() {
    for freed_later in [false, true] {
        let slots = slots(1, None, freed_later);
        let [small, large] = [10, 100].map(|bytes| take(&slots, bytes).0);
        assert!(slots.give_back(small).is_none());
        let surplus = slots.give_back(large).map(|slot| slot.len());
        let (_, unwanted) = take(&slots, 1000);
        match freed_later {
            false => assert_eq!((surplus, unwanted), (Some(10), vec![])),
            true => assert_eq!((surplus, unwanted), (None, vec![10])),
        }
        assert_eq!(slots.counts().bytes, 1100, "the largest stays");
    }
}

#[test]
fn a_buffer_a_little_too_small_makes_room_and_a_much_smaller_one_stays() {
    let slots = slots(3, None, false);
    let held = [10, 60].map(|bytes| take(&slots, bytes).0);
    for slot in held {
        assert!(slots.give_back(slot).is_none());
    }
    let (slot, unwanted) = take(&slots, 100);
    assert_eq!(unwanted, [60]);
    assert!(slots.give_back(slot).is_none());
    // At least, and at most twice, what is asked for.
    assert_eq!(take(&slots, 50).0.len(), 100);
    assert_eq!(take(&slots, 49).0.len(), 49);
    assert_eq!(take(&slots, 10).0.len(), 10);
}

#[test]
fn a_failed_allocation_gives_its_place_back() {
    let slots = slots(1, Some(1), false);
    assert!(matches!(
        slots.take(10, Duration::ZERO),
        Ok(Taken::Allocate(_))
    ));
    assert!(slots.take(10, Duration::ZERO).is_err());
    slots.allocation_failed(10);
    let counts = slots.counts();
    assert_eq!((counts.leased, counts.bytes, counts.allocations), (0, 0, 1));
    assert_eq!(take(&slots, 10).0.len(), 10);
}

#[test]
fn threads_share_fewer_buffers_than_they_are() {
    let slots = slots(2, Some(2), false);
    let out = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let taken = slots.take(8, Duration::MAX).unwrap();
                    let mut slot = match taken {
                        Taken::Free(slot) => slot,
                        Taken::Allocate(_) => vec![0; 8].into(),
                    };
                    let now = {
                        let mut out = lock(&out);
                        *out += 1;
                        *out
                    };
                    assert!(now <= 2, "{now} at once");
                    slot.fill(now);
                    *lock(&out) -= 1;
                    assert!(slots.give_back(slot).is_none());
                }
            });
        }
    });
    let counts = slots.counts();
    // One, if they happened to come one after the other.
    assert!(
        counts.leased == 0 && [1, 2].contains(&counts.free),
        "{counts:?}"
    );
    assert_eq!(
        (counts.bytes, slots.drain().len()),
        (8 * counts.free, counts.free)
    );
}
