//! Interleavings of threads that share the pool's bookkeeping. Loom's types take the place of the
//! crate's `sync` module here; the state machine is the very file that the crate is built from. Loom
//! has no clock: a wait ends when it is woken, and never because its time is over.

#![cfg(test)]

mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap()
    }

    pub(crate) fn wait_timeout<'a, T>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        condvar.wait_timeout(guard, timeout).unwrap().0
    }
}
#[path = "../../src/host/slots.rs"]
mod slots;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use slots::{Pooled, Refused, SlotBounds, Slots, Taken};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

struct Buffer {
    bytes: usize,
}

impl Pooled for Buffer {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How many leases are out, by those who have them.
#[derive(Clone)]
struct Out(Arc<AtomicUsize>);

impl Out {
    fn none() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// Between a lease and its return; panics when there is another.
    fn alone(&self) {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0);
        thread::yield_now();
        assert_eq!(self.0.fetch_sub(1, Ordering::SeqCst), 1);
    }
}

fn slots(keep: usize, limit: usize) -> Arc<Slots<Buffer>> {
    let limit = Some(limit);
    Arc::new(Slots::new(SlotBounds { keep, limit }))
}

/// Waits until `n` buffers may be taken.
fn admit(slots: &Slots<Buffer>, n: usize) {
    let admitted = slots.admit(n, LONG, &|| false);
    admitted.expect("somebody gives them back");
}

fn lease(slots: &Slots<Buffer>, bytes: usize) -> Buffer {
    admit(slots, 1);
    match slots.take(bytes) {
        Taken::Free(buffer) => buffer,
        Taken::Allocate(_) => Buffer { bytes },
    }
}

#[test]
fn a_buffer_has_one_holder_and_nobody_waits_for_ever() {
    // All interleavings of three threads take minutes; those with up to three preemptions, seconds.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (slots, out) = (slots(1, 1), Out::none());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (slots, out) = (slots.clone(), out.clone());
                thread::spawn(move || {
                    let buffer = lease(&slots, 10);
                    out.alone();
                    assert!(slots.give_back(buffer).is_none());
                })
            })
            .collect();
        let buffer = lease(&slots, 10);
        out.alone();
        assert!(slots.give_back(buffer).is_none());
        others.into_iter().for_each(|t| t.join().unwrap());
        let counts = slots.counts();
        assert_eq!((counts.leased, counts.free, counts.allocations), (0, 1, 1));
    });
}

#[test]
fn a_buffer_comes_home_on_a_thread_of_its_own() {
    loom::model(|| {
        let (slots, out) = (slots(1, 1), Out::none());
        let buffer = lease(&slots, 10);
        // As the copy queue does: it drops what the reader leased.
        let queue = {
            let (slots, out) = (slots.clone(), out.clone());
            thread::spawn(move || {
                out.alone();
                assert!(slots.give_back(buffer).is_none());
            })
        };
        let next = lease(&slots, 10);
        out.alone();
        queue.join().unwrap();
        assert_eq!(slots.counts().allocations, 1, "the same one");
        assert!(slots.give_back(next).is_none());
    });
}

#[test]
fn a_failed_allocation_lets_the_next_one_in() {
    loom::model(|| {
        let slots = slots(1, 1);
        let failing = {
            let slots = slots.clone();
            thread::spawn(move || {
                admit(&slots, 1);
                match slots.take(10) {
                    Taken::Allocate(_) => slots.allocation_failed(10),
                    Taken::Free(buffer) => drop(slots.give_back(buffer)),
                }
            })
        };
        let buffer = lease(&slots, 10);
        assert!(slots.give_back(buffer).is_none());
        failing.join().unwrap();
        let counts = slots.counts();
        assert_eq!((counts.leased, counts.free, counts.bytes), (0, 1, 10));
    });
}

#[test]
fn surplus_is_freed_once_by_whoever_brings_it_back() {
    loom::model(|| {
        let slots = slots(0, 2);
        let freed = Arc::new(AtomicUsize::new(0));
        let turn = {
            let (slots, freed) = (slots.clone(), freed.clone());
            move || {
                let buffer = lease(&slots, 10);
                let surplus = slots.give_back(buffer).into_iter().count();
                freed.fetch_add(surplus, Ordering::SeqCst);
            }
        };
        let other = thread::spawn(turn.clone());
        turn();
        other.join().unwrap();
        assert_eq!(slots.drain().len(), 0);
        assert_eq!(freed.load(Ordering::SeqCst), 2, "each of two, once");
    });
}

#[test]
fn two_that_need_several_never_wait_for_each_other() {
    loom::model(|| {
        let slots = slots(2, 2);
        let turn = {
            let slots = slots.clone();
            move || {
                admit(&slots, 2);
                let take = || match slots.take(10) {
                    Taken::Free(buffer) => buffer,
                    Taken::Allocate(_) => Buffer { bytes: 10 },
                };
                let both = [take(), take()];
                for buffer in both {
                    assert!(slots.give_back(buffer).is_none());
                }
            }
        };
        let other = thread::spawn(turn.clone());
        turn();
        other.join().unwrap();
        assert_eq!(slots.counts().allocations, 2);
    });
}

#[test]
fn promises_that_are_not_kept_let_the_next_one_in() {
    loom::model(|| {
        let slots = slots(1, 1);
        let other = {
            let slots = slots.clone();
            thread::spawn(move || {
                admit(&slots, 1);
                slots.dismiss(1);
            })
        };
        let buffer = lease(&slots, 10);
        assert!(slots.give_back(buffer).is_none());
        other.join().unwrap();
        assert_eq!(slots.counts().leased, 0);
    });
}

#[test]
fn as_many_stay_as_are_expected() {
    loom::model(|| {
        let slots = slots(0, 2);
        slots.expect(2);
        let other = {
            let slots = slots.clone();
            thread::spawn(move || {
                let buffer = lease(&slots, 10);
                assert!(slots.give_back(buffer).is_none());
            })
        };
        let buffer = lease(&slots, 10);
        slots.no_longer_expect(2);
        assert!(slots.give_back(buffer).is_none());
        other.join().unwrap();
        let counts = slots.counts();
        assert_eq!(counts.free as u64, counts.allocations);
    });
}

#[test]
fn whoever_is_told_to_stop_stops_waiting() {
    loom::model(|| {
        let slots = slots(1, 1);
        let stop = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let held = lease(&slots, 10);
        let waiting = {
            let (slots, stop) = (slots.clone(), stop.clone());
            thread::spawn(move || slots.admit(1, LONG, &|| stop.load(Ordering::SeqCst)))
        };
        stop.store(true, Ordering::SeqCst);
        slots.wake();
        assert_eq!(waiting.join().unwrap(), Err(Refused::Stopped));
        assert!(slots.give_back(held).is_none());
        assert_eq!(slots.counts().leased, 0);
    });
}

#[test]
fn whoever_cannot_wait_is_told_and_changes_nothing() {
    loom::model(|| {
        let (slots, out) = (slots(1, 1), Out::none());
        let turn = {
            let (slots, out) = (slots.clone(), out.clone());
            move || match slots.admit(1, Duration::ZERO, &|| false) {
                Err(Refused::Exhausted(counts)) => assert_eq!(counts.leased, 1),
                Err(refused) => panic!("{refused:?}"),
                Ok(()) => {
                    out.alone();
                    let buffer = match slots.take(10) {
                        Taken::Free(buffer) => buffer,
                        Taken::Allocate(_) => Buffer { bytes: 10 },
                    };
                    assert!(slots.give_back(buffer).is_none());
                }
            }
        };
        let other = thread::spawn(turn.clone());
        turn();
        other.join().unwrap();
        let counts = slots.counts();
        assert_eq!((counts.leased, counts.free, counts.bytes), (0, 1, 10));
    });
}
