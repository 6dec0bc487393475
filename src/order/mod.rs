//! Which windows, in which order: a pure function of seed, epoch, world and rank.

pub(crate) mod cpython_random;
pub(crate) mod fingerprint;
pub(crate) mod groups;
pub(crate) mod permutation;
pub(crate) mod pick;
pub(crate) mod samudra;
pub(crate) mod schedule;
pub(crate) mod spec;
pub(crate) mod state;
