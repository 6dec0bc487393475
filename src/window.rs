//! Windows: which rows of the time axis a training sample is made of.

use crate::error::Result;
use std::ops::Range;

/// The shape of a window. `with_*` methods set fields; `validate` refuses zeros.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowSpec {
    /// Times beside the newest one in an input: an input holds `history + 1` times.
    pub history: usize,
    /// Rollout steps.
    pub steps: usize,
    /// Spacing of rows inside a window (what others call dilation).
    pub stride: usize,
    /// Spacing of the windows themselves.
    pub start_every: usize,
    /// Explicit first rows (absolute rows of the store) instead of every `start_every`-th one.
    pub starts: Option<Vec<usize>>,
}

impl Default for WindowSpec {
    fn default() -> Self {
        Self {
            history: 1,
            steps: 1,
            stride: 1,
            start_every: 1,
            starts: None,
        }
    }
}

impl WindowSpec {
    /// Times in one input: `history + 1`.
    pub fn times(&self) -> usize {
        self.history + 1
    }
    /// Rows from the first input to the last label, both included: S·H·s + hist·s + 1 - ... (see SEMANTICS 3.2)
    pub fn span(&self) -> usize {
        todo!()
    }
    /// Rows of step `step`'s input (and boundary), oldest first.
    pub fn input_rows(
        &self,
        _start: usize,
        _step: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        std::iter::empty()
    }
    /// Rows of step `step`'s label, oldest first.
    pub fn label_rows(
        &self,
        _start: usize,
        _step: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        std::iter::empty()
    }
    /// First rows of all windows that lie wholly inside one of `segments` (absolute rows).
    /// Errors: explicit starts that do not fit; zero steps/stride/start_every; overflow.
    pub fn starts(&self, _segments: &[Range<usize>]) -> Result<Vec<usize>> {
        todo!()
    }
}

/// One training sample: a light descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Which source (position in the data set's list).
    pub source: usize,
    /// First row on that source's time axis.
    pub start: usize,
}
