//! The hand-over between a pass thread and the consumer: ordered, bounded in batches and bytes.

use crate::sync::{lock, wait};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How far reading may run ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Items waiting in the queue, at least 1.
    pub items: usize,
    /// Their bytes. One item may exceed it: it then waits alone.
    pub bytes: u64,
}

/// What waits in a queue, and may begin its work when it is the next in line.
pub(crate) trait NextInLine: Sized {
    /// What becomes of the item then. Runs under the queue's lock: short.
    fn next_in_line(self) -> Self;
}

struct State<T> {
    waiting: VecDeque<(T, u64)>,
    bytes: u64,
    /// Whether the first item waiting has passed through [`NextInLine`].
    first_started: bool,
    producer_gone: bool,
    consumer_gone: bool,
}

struct Shared<T> {
    bounds: Bounds,
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        wait(&self.changed, state)
    }
}

/// The writing end. Dropping it ends the queue after what is waiting.
pub(crate) struct Producer<T>(Arc<Shared<T>>);

/// The reading end. Dropping it discards what is waiting and stops the producer.
pub(crate) struct Consumer<T>(Arc<Shared<T>>);

/// The consumer is gone: the pass was dropped early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConsumerGone;

/// A queue within the given bounds. An item passes through [`NextInLine`] at most once: when it is
/// pushed into an empty queue, or is the first one waiting at [`Consumer::start_next`]. Work that
/// should be one item ahead of the consumer starts there.
pub(crate) fn bounded<T: NextInLine>(bounds: Bounds) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared {
        bounds,
        state: Mutex::new(State {
            waiting: VecDeque::new(),
            bytes: 0,
            first_started: false,
            producer_gone: false,
            consumer_gone: false,
        }),
        changed: Condvar::new(),
    });
    (Producer(shared.clone()), Consumer(shared))
}

impl<T: NextInLine> Producer<T> {
    /// Waits until an item of `bytes` may be made, before any memory is taken for it.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), ConsumerGone> {
        let bounds = self.0.bounds;
        let mut state = self.0.lock();
        loop {
            if state.consumer_gone {
                return Err(ConsumerGone);
            }
            let fits = state.waiting.len() < bounds.items
                && state.bytes.saturating_add(bytes) <= bounds.bytes;
            if fits || state.waiting.is_empty() {
                return Ok(());
            }
            state = self.0.wait(state);
        }
    }

    /// Appends an item that was reserved.
    pub(crate) fn push(&self, item: T, bytes: u64) -> Result<(), ConsumerGone> {
        let mut state = self.0.lock();
        if state.consumer_gone {
            return Err(ConsumerGone);
        }
        let first = state.waiting.is_empty();
        state.first_started |= first;
        let item = if first { item.next_in_line() } else { item };
        state.waiting.push_back((item, bytes));
        state.bytes += bytes;
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.0.lock().producer_gone = true;
        self.0.changed.notify_all();
    }
}

impl<T> Consumer<T> {
    /// The next item in order; `None` when the producer has ended.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.0.lock();
        loop {
            if let Some((item, bytes)) = state.waiting.pop_front() {
                state.bytes -= bytes;
                state.first_started = false;
                self.0.changed.notify_all();
                return Some(item);
            }
            if state.producer_gone {
                return None;
            }
            state = self.0.wait(state);
        }
    }
}

impl<T: NextInLine> Consumer<T> {
    /// Passes the first item waiting through [`NextInLine`], if there is one that has not yet: to
    /// be called when the item before it needs nothing any more that this one could get ahead of.
    pub(crate) fn start_next(&self) {
        let mut state = self.0.lock();
        if state.first_started {
            return;
        }
        if let Some((next, bytes)) = state.waiting.pop_front() {
            state.waiting.push_front((next.next_in_line(), bytes));
            state.first_started = true;
        }
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.consumer_gone = true;
        let waiting = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        self.0.changed.notify_all();
        drop(state);
        // Buffers go home outside the lock.
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NextInLine for u64 {
        fn next_in_line(self) -> Self {
            self
        }
    }

    impl NextInLine for Arc<()> {
        fn next_in_line(self) -> Self {
            self
        }
    }

    /// A number that is noted, and becomes another, when it is the next in line.
    struct Noted(u32, Arc<Mutex<Vec<u32>>>);

    impl NextInLine for Noted {
        fn next_in_line(self) -> Self {
            self.1.lock().unwrap().push(self.0);
            Self(self.0 + 100, self.1)
        }
    }

    #[test]
    fn the_first_in_line_is_one_ahead_and_only_one() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (producer, consumer) = bounded(Bounds {
            items: 8,
            bytes: 100,
        });
        let push = |i| producer.push(Noted(i, seen.clone()), 1).unwrap();
        let pop = || consumer.pop().map(|noted| noted.0);
        let noted = || seen.lock().unwrap().clone();
        (0..3).for_each(push);
        assert_eq!(noted(), [0]);
        assert_eq!(pop(), Some(100));
        assert_eq!(noted(), [0], "not before the consumer says so");
        consumer.start_next();
        consumer.start_next();
        assert_eq!(noted(), [0, 1], "once");
        assert_eq!((pop(), pop()), (Some(101), Some(2)));
        // The queue was empty: the next one is first in line at once.
        push(3);
        assert_eq!(noted(), [0, 1, 3]);
        drop(producer);
        assert_eq!((pop(), pop()), (Some(103), None));
    }

    #[test]
    fn order_is_kept_and_the_end_is_seen() {
        let (producer, consumer) = bounded(Bounds {
            items: 8,
            bytes: 100,
        });
        for i in 0..5 {
            producer.reserve(10).unwrap();
            producer.push(i, 10).unwrap();
        }
        drop(producer);
        assert_eq!(
            std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
    }

    /// The largest number of items and bytes that were ever reserved or waiting, against `bounds`.
    fn high_water(bounds: Bounds, sizes: &[u64]) -> (usize, u64) {
        let (producer, consumer) = bounded(bounds);
        let (mut items, mut bytes) = (0, 0);
        std::thread::scope(|s| {
            s.spawn(move || {
                for &size in sizes {
                    producer.reserve(size).unwrap();
                    producer.push(size, size).unwrap();
                }
            });
            for _ in sizes {
                let state = consumer.0.lock();
                items = items.max(state.waiting.len());
                bytes = bytes.max(state.bytes);
                drop(state);
                consumer.pop().unwrap();
            }
            assert!(consumer.pop().is_none());
        });
        (items, bytes)
    }

    #[test]
    fn both_bounds_hold() {
        let sizes = [3u64; 200];
        let (items, bytes) = high_water(
            Bounds {
                items: 2,
                bytes: 1000,
            },
            &sizes,
        );
        assert!(items <= 2 && bytes <= 6, "{items} items, {bytes} bytes");
        let (_, bytes) = high_water(
            Bounds {
                items: 100,
                bytes: 7,
            },
            &sizes,
        );
        assert!(bytes <= 7, "{bytes} bytes");
        // Larger than the bound: alone, but not stuck.
        let (items, _) = high_water(
            Bounds {
                items: 100,
                bytes: 2,
            },
            &sizes,
        );
        assert!(items <= 1, "{items} items");
    }

    #[test]
    fn a_gone_consumer_stops_a_waiting_producer_and_frees_what_waits() {
        let (producer, consumer) = bounded(Bounds { items: 1, bytes: 1 });
        let witness = Arc::new(());
        producer.push(witness.clone(), 1).unwrap();
        std::thread::scope(|s| {
            let waiting = s.spawn(|| producer.reserve(1));
            drop(consumer);
            assert_eq!(waiting.join().unwrap(), Err(ConsumerGone));
        });
        assert_eq!(Arc::strong_count(&witness), 1);
        assert_eq!(producer.push(witness, 1), Err(ConsumerGone));
    }
}
