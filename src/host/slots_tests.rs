//! Tests of `slots`, in a file of their own: `tests/loom` builds that one with other locks.

use crate::host::slots::{Pooled, Refused, SlotBounds, Slots, Taken};
use crate::sync::{Mutex, lock};
use std::time::Duration;

impl Pooled for Box<[u8]> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

fn slots(keep: usize, limit: Option<usize>) -> Slots<Box<[u8]>> {
    Slots::new(SlotBounds { keep, limit })
}

fn admit(slots: &Slots<Box<[u8]>>, n: usize, timeout: Duration) -> Result<(), Refused> {
    slots.admit(n, timeout, &|| false)
}

/// A buffer of this size, and the size of the one that the caller had to free.
fn take(slots: &Slots<Box<[u8]>>, bytes: usize) -> (Box<[u8]>, Option<usize>) {
    admit(slots, 1, Duration::ZERO).unwrap();
    match slots.take(bytes) {
        Taken::Free(slot) => (slot, None),
        Taken::Allocate(outgrown) => (vec![0; bytes].into(), outgrown.map(|slot| slot.len())),
    }
}

#[test]
fn one_more_than_are_kept_is_freed_and_as_many_as_are_expected_are_kept() {
    for expected in [0, 2] {
        let slots = slots(1, None);
        slots.expect(expected);
        let [small, large] = [10, 100].map(|bytes| take(&slots, bytes).0);
        assert!(slots.give_back(small).is_none());
        let surplus = slots.give_back(large).map(|slot| slot.len());
        let (surplus_is, bytes) = match expected {
            2 => (None, 110),
            _ => (Some(10), 100),
        };
        assert_eq!((surplus, slots.counts().bytes), (surplus_is, bytes));
    }
}

#[test]
fn a_buffer_a_little_too_small_makes_room_and_a_much_smaller_one_stays() {
    let slots = slots(3, None);
    let held = [10, 60].map(|bytes| take(&slots, bytes).0);
    for slot in held {
        assert!(slots.give_back(slot).is_none());
    }
    let (slot, unwanted) = take(&slots, 100);
    assert_eq!(unwanted, Some(60));
    assert!(slots.give_back(slot).is_none());
    // At least, and at most twice, what is asked for.
    assert_eq!(take(&slots, 50).0.len(), 100);
    assert_eq!(take(&slots, 49).0.len(), 49);
    assert_eq!(take(&slots, 10).0.len(), 10);
}

#[test]
fn a_failed_allocation_gives_its_place_back() {
    let slots = slots(1, Some(1));
    admit(&slots, 1, Duration::ZERO).unwrap();
    assert!(matches!(slots.take(10), Taken::Allocate(None)));
    let refused = admit(&slots, 1, Duration::ZERO).unwrap_err();
    assert!(matches!(refused, Refused::Exhausted(counts) if counts.leased == 1));
    let never = admit(&slots, 2, Duration::MAX);
    assert_eq!(never, Err(Refused::Never(1)));
    slots.allocation_failed(10);
    let counts = slots.counts();
    assert_eq!((counts.leased, counts.bytes, counts.allocations), (0, 0, 1));
    assert_eq!(take(&slots, 10).0.len(), 10);
}

#[test]
fn threads_share_fewer_buffers_than_they_are() {
    let slots = slots(2, Some(2));
    let out = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    admit(&slots, 1, Duration::MAX).unwrap();
                    let mut slot = match slots.take(8) {
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
