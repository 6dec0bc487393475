//! Memory that many threads fill, each its own part: parts are cut off when they are claimed.

use crate::sync::lock;
use std::ops::Range;
use std::sync::Mutex;

/// A buffer of planes side by side, each of which can be claimed once.
pub(crate) struct Claims<'a, T = f32> {
    cells: usize,
    /// What nobody has claimed yet, ascending. Threads claim along the buffer, so the pieces are
    /// about as many as the threads.
    unclaimed: Mutex<Vec<Piece<'a, T>>>,
}

struct Piece<'a, T> {
    first: usize,
    memory: &'a mut [T],
}

impl<'a, T> Claims<'a, T> {
    /// # Panics
    /// When `cells` is 0.
    pub(crate) fn new(memory: &'a mut [T], cells: usize) -> Self {
        assert!(cells > 0, "a plane has at least one cell");
        let mut unclaimed = Vec::with_capacity(4);
        unclaimed.push(Piece { first: 0, memory });
        Self {
            cells,
            unclaimed: Mutex::new(unclaimed),
        }
    }

    /// The memory of these planes; `None` when part of it is claimed already, or there are none.
    pub(crate) fn claim(&self, planes: &Range<usize>) -> Option<&'a mut [T]> {
        let mut unclaimed = lock(&self.unclaimed);
        let after = unclaimed.partition_point(|piece| piece.first <= planes.start);
        let at = after.checked_sub(1)?;
        let Piece { first, memory } = &mut unclaimed[at];
        let before = (planes.start - *first) * self.cells;
        let wanted = planes.len() * self.cells;
        if planes.is_empty() || memory.len() < before + wanted {
            return None;
        }
        let (head, rest) = std::mem::take(memory).split_at_mut(before);
        let (claimed, tail) = rest.split_at_mut(wanted);
        let tail = Piece {
            first: planes.end,
            memory: tail,
        };
        match (head.is_empty(), tail.memory.is_empty()) {
            (true, true) => drop(unclaimed.remove(at)),
            (true, false) => unclaimed[at] = tail,
            (false, end) => {
                *memory = head;
                if !end {
                    unclaimed.insert(after, tail);
                }
            }
        }
        Some(claimed)
    }
}
