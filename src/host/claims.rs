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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fill_a_buffer_each_its_own_parts() {
        let (planes, cells) = (24, 3);
        let mut buffer = vec![0u16; planes * cells];
        let claims = Claims::new(&mut buffer, cells);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let claims = &claims;
                // Parts of one, two and three planes, in an order of each thread's own, and all
                // written while the others claim.
                scope.spawn(move || {
                    let first = thread * 6;
                    let mut parts = [first..first + 1, first + 1..first + 3, first + 3..first + 6];
                    parts.rotate_left(thread % 3);
                    let claimed = parts.map(|part| (part.start, claims.claim(&part).unwrap()));
                    for (start, memory) in claimed {
                        for (i, value) in memory.iter_mut().enumerate() {
                            *value = (start * cells + i) as u16;
                        }
                    }
                });
            }
        });
        assert!(claims.claim(&(0..1)).is_none());
        drop(claims);
        let expected: Vec<u16> = (0..(planes * cells) as u16).collect();
        assert_eq!(buffer, expected);
    }

    #[test]
    fn one_of_two_threads_gets_a_plane() {
        let mut buffer = vec![0f32; 8];
        let claims = Claims::new(&mut buffer, 2);
        let claim = || usize::from(claims.claim(&(1..3)).is_some());
        let got: usize = std::thread::scope(|scope| {
            let threads = [scope.spawn(claim), scope.spawn(claim), scope.spawn(claim)];
            threads.map(|t| t.join().unwrap()).iter().sum()
        });
        assert_eq!(got, 1);
        // What lies around it is still there, and nothing beyond the end.
        assert_eq!(claims.claim(&(0..1)).map(|m| m.len()), Some(2));
        assert!(claims.claim(&(3..5)).is_none());
        assert_eq!(claims.claim(&(3..4)).map(|m| m.len()), Some(2));
    }
}
