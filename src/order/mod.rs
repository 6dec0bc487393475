//! Which windows, in which order: a pure function of seed, epoch, world and rank.
//!
//! ```text
//!  ScheduleOptions + Groups ──▶ Schedule ──▶ Epoch ──▶ the windows of batch k
//! ```

pub(crate) mod batched_groups;
pub(crate) mod cpython_random;
pub(crate) mod draw;
pub(crate) mod fingerprint;
pub(crate) mod groups;
pub(crate) mod options;
pub(crate) mod permutation;
pub(crate) mod pick;
pub(crate) mod samudra;
pub(crate) mod schedule;
pub(crate) mod state;

pub use fingerprint::{Fingerprint, FingerprintBuilder, FingerprintPart};
pub use groups::{GroupOrder, Groups};
pub use options::{Order, ScheduleOptions, Shard};
pub use pick::Pick;
pub use schedule::{Batches, Epoch, Schedule};
pub use state::{LoaderState, Position};
