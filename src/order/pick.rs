//! Picks: every window several times per epoch, each with a key of its own.

use crate::order::permutation::Key;
use crate::order::schedule::Epoch;

/// One of several showings of a window in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// The window, as the data set numbers them.
    pub window: u64,
    /// Which showing, from 0.
    pub number: u64,
    /// What a transform draws from: 64 bits that look random, a function of the schedule's seed,
    /// the epoch, the window and the number.
    pub key: u64,
}

impl Pick {
    pub(crate) fn new(epoch: &Epoch, picks: u64, item: u64) -> Self {
        let (window, number) = (item / picks, item % picks);
        // Apart from the keys that the schedule itself draws from.
        let picked = Key::of_pass(epoch.schedule().options().seed, epoch.number()).child(u64::MAX);
        Self {
            window,
            number,
            key: picked.child(window).child(number).bits(),
        }
    }
}
