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
use slots::{Exhausted, Pooled, SlotBounds, Slots, Taken};
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

fn slots(keep: usize, limit: usize, freed_later: bool) -> Arc<Slots<Buffer>> {
    let limit = Some(limit);
    Arc::new(Slots::new(SlotBounds {
        keep,
        limit,
        freed_later,
    }))
}

fn lease(slots: &Slots<Buffer>, bytes: usize) -> Buffer {
    match slots.take(bytes, LONG).expect("somebody gives one back") {
        Taken::Free(buffer) => buffer,
        Taken::Allocate(_) => Buffer { bytes },
    }
}

#[test]
fn a_buffer_has_one_holder_and_nobody_waits_for_ever() {
    loom::model(|| {
        let (slots, out) = (slots(1, 1, false), Out::none());
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
        let (slots, out) = (slots(1, 1, true), Out::none());
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
        let slots = slots(1, 1, false);
        let failing = {
            let slots = slots.clone();
            thread::spawn(move || match slots.take(10, LONG).unwrap() {
                Taken::Allocate(_) => slots.allocation_failed(10),
                Taken::Free(buffer) => drop(slots.give_back(buffer)),
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
fn surplus_is_freed_once_whoever_frees_it() {
    for freed_later in [false, true] {
        loom::model(move || {
            let slots = slots(0, 2, freed_later);
            let freed = Arc::new(AtomicUsize::new(0));
            let turn = {
                let (slots, freed) = (slots.clone(), freed.clone());
                move || {
                    let buffer = match slots.take(10, LONG).unwrap() {
                        Taken::Free(_) => unreachable!("none is kept"),
                        Taken::Allocate(unwanted) => {
                            freed.fetch_add(unwanted.len(), Ordering::SeqCst);
                            Buffer { bytes: 10 }
                        }
                    };
                    let surplus = slots.give_back(buffer).into_iter().count();
                    freed.fetch_add(surplus, Ordering::SeqCst);
                }
            };
            let other = thread::spawn(turn.clone());
            turn();
            other.join().unwrap();
            let left = slots.drain().len();
            assert_eq!(freed.load(Ordering::SeqCst) + left, 2, "each of two, once");
            assert_eq!(freed_later, left > 0);
        });
    }
}

#[test]
fn whoever_cannot_wait_is_told_and_changes_nothing() {
    loom::model(|| {
        let (slots, out) = (slots(1, 1, false), Out::none());
        let turn = {
            let (slots, out) = (slots.clone(), out.clone());
            move || match slots.take(10, Duration::ZERO) {
                Err(Exhausted(counts)) => assert_eq!(counts.leased, 1),
                Ok(taken) => {
                    out.alone();
                    let buffer = match taken {
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
