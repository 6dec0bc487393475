//! How a store is opened: how strict, and which channels.

use crate::schema::Channel;

/// What to do about data that a careful person would not train on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Strictness {
    /// Missing chunks, and statistics that cannot normalise (a standard deviation of zero, NaN),
    /// are errors. The default, and right for training.
    #[default]
    Strict,
    /// A missing chunk reads as the array's fill value, is counted in
    /// [`ReadCounts`](crate::ReadCounts) and listed by
    /// [`Store::missing_chunks`](crate::Store::missing_chunks); statistics may be NaN, and standard
    /// deviations zero, as in the original loaders.
    Lenient,
}

/// Options of [`Store::open`](crate::Store::open) and
/// [`Statistics::open`](crate::Statistics::open).
///
/// ```
/// use burn_om4::{OpenOptions, Strictness};
/// assert_eq!(OpenOptions::default().strictness, Strictness::Strict);
/// let options = OpenOptions::default().with_strictness(Strictness::Lenient);
/// assert_eq!(options.strictness, Strictness::Lenient);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// What to do about missing chunks and unusable statistics.
    pub strictness: Strictness,
    /// Only these channels are looked for, validated and served; the store may hold others of any
    /// kind. `None` (the default) serves, and therefore validates, every array with a time axis
    /// and a horizontal plane.
    pub channels: Option<Vec<Channel>>,
}

impl OpenOptions {
    /// The same options with another [`Strictness`].
    pub fn with_strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// The same options, restricted to these channels.
    pub fn with_channels(mut self, channels: impl IntoIterator<Item = Channel>) -> Self {
        self.channels = Some(channels.into_iter().collect());
        self
    }
}
