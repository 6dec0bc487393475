//! Windows: which rows of the time axis a training sample is made of.
//!
//! With `H = history + 1` times in an input, `S` rollout steps and stride `s`, a window that starts
//! at row `w` has, for step `k` and time `j`:
//!
//! ```text
//! base     = w + k·H·s
//! input    = base + s·j            boundary = the same rows
//! label    = base + s·(H + j)      = the input of step k + 1
//! span     = S·H·s + history·s + 1 rows from the first input to the last label
//! windows  = rows − span + 1       (0 when that is negative)
//! ```

use crate::error::{Error, Result};
use std::ops::Range;

/// The shape of a window, and which rows windows start at. `with_*` methods set fields;
/// [`validate`](WindowOptions::validate) refuses what cannot be served.
///
/// ```
/// use burn_om4::WindowOptions;
/// let options = WindowOptions::default().with_history(1).with_steps(4);
/// assert_eq!(options.span(), 10);
/// assert_eq!(options.input_rows(3, 1).collect::<Vec<_>>(), [5, 6]);
/// assert_eq!(options.label_rows(3, 1).collect::<Vec<_>>(), [7, 8]);
/// // Windows never cross from one segment into the next.
/// assert_eq!(options.starts(&[0..11, 11..20, 20..32])?, [0, 1, 20, 21, 22]);
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct WindowOptions {
    /// Times beside the newest one in an input: an input holds `history + 1` times. Default 1, as
    /// the published runs use.
    pub history: usize,
    /// Rollout steps, at least 1. Default 1.
    pub steps: usize,
    /// Rows from one time of a window to the next (what others call dilation), at least 1.
    /// Default 1.
    pub stride: usize,
    /// Rows from one window's start to the next one's, at least 1, counted anew in each segment.
    /// Default 1: every possible window.
    pub start_every: usize,
    /// Explicit first rows (absolute rows of the store) instead of every `start_every`-th one.
    /// Their order is kept, and a row may be repeated.
    pub starts: Option<Vec<usize>>,
}

impl Default for WindowOptions {
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

impl WindowOptions {
    /// Sets [`history`](Self::history).
    pub fn with_history(mut self, history: usize) -> Self {
        self.history = history;
        self
    }

    /// Sets [`steps`](Self::steps).
    pub fn with_steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
    }

    /// Sets [`stride`](Self::stride).
    pub fn with_stride(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }

    /// Sets [`start_every`](Self::start_every).
    pub fn with_start_every(mut self, start_every: usize) -> Self {
        self.start_every = start_every;
        self
    }

    /// Sets [`starts`](Self::starts).
    pub fn with_starts(mut self, starts: Vec<usize>) -> Self {
        self.starts = Some(starts);
        self
    }

    /// Checks the fields against each other.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): `steps`, `stride` or `start_every` of 0; a
    /// window of more rows than can be counted; explicit starts that are empty, or given together
    /// with `start_every`.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("steps", self.steps),
            ("stride", self.stride),
            ("start_every", self.start_every),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::config(format!("{name} must be at least 1")).found(0));
            }
        }
        if self.checked_span().is_none() {
            return Err(Error::config("a window is longer than can be counted").found(self.shape()));
        }
        match &self.starts {
            Some(starts) if starts.is_empty() => {
                Err(Error::config("the list of explicit starts is empty"))
            }
            Some(_) if self.start_every != 1 => Err(Error::config(
                "start_every does not apply to explicit starts: give one of them",
            )),
            _ => Ok(()),
        }
    }

    /// Times in one input, boundary or label: `history + 1`.
    pub fn times(&self) -> usize {
        self.history.saturating_add(1)
    }

    /// Rows from the first input to the last label, both included: what a store must have for one
    /// window. `usize::MAX` when that is too many to count, which `validate` refuses.
    pub fn span(&self) -> usize {
        self.checked_span().unwrap_or(usize::MAX)
    }

    /// Windows in `rows` consecutive rows when one starts at every possible row; 0 when none fits.
    pub fn windows(&self, rows: usize) -> usize {
        rows.saturating_add(1).saturating_sub(self.span())
    }

    /// Rows of step `step`'s input, and of its boundary, oldest first.
    ///
    /// # Panics
    /// Rows beyond `usize::MAX`: never, for a start from [`starts`](Self::starts) and a step below
    /// [`steps`](Self::steps).
    pub fn input_rows(
        &self,
        start: usize,
        step: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        let rows = self.block(start, step);
        rows.expect("the window ends at a row that can be counted")
    }

    /// Rows of step `step`'s label, oldest first: those of the next step's input.
    ///
    /// # Panics
    /// Like [`input_rows`](Self::input_rows).
    pub fn label_rows(
        &self,
        start: usize,
        step: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        let rows = step.checked_add(1).and_then(|next| self.block(start, next));
        rows.expect("the window ends at a row that can be counted")
    }

    /// First rows of all windows that lie wholly inside one of `segments` (absolute rows, such as
    /// [`TimeAxis::segments`](crate::ocean::TimeAxis::segments) gives), segment after segment, or
    /// the explicit ones.
    ///
    /// Empty when every segment is shorter than [`span`](Self::span); whoever builds a data set
    /// from it says so.
    ///
    /// # Errors
    /// What [`validate`](Self::validate) refuses, and the first explicit start whose window is not
    /// wholly inside one segment.
    pub fn starts(&self, segments: &[Range<usize>]) -> Result<Vec<usize>> {
        self.validate()?;
        let span = self.span();
        if let Some(starts) = &self.starts {
            let fits = |start: usize| {
                let mut holding = segments.iter().filter(|s| s.contains(&start));
                holding.any(|s| s.end - start >= span)
            };
            return match starts.iter().find(|&&start| !fits(start)) {
                Some(&start) => Err(misfit(start, span, segments)),
                None => Ok(starts.clone()),
            };
        }
        let firsts = segments.iter().flat_map(|s| {
            let windows = self.windows(s.len());
            (s.start..s.start + windows).step_by(self.start_every)
        });
        Ok(firsts.collect())
    }

    fn checked_span(&self) -> Option<usize> {
        let times = self.history.checked_add(1)?;
        let steps = self.steps.checked_mul(times)?;
        let strides = steps.checked_add(self.history)?;
        strides.checked_mul(self.stride)?.checked_add(1)
    }

    /// The `step`-th run of `times` rows of a window.
    fn block(
        &self,
        start: usize,
        step: usize,
    ) -> Option<impl ExactSizeIterator<Item = usize> + use<>> {
        let (times, stride) = (self.history.checked_add(1)?, self.stride);
        let skipped = step.checked_mul(times)?.checked_mul(stride)?;
        let base = start.checked_add(skipped)?;
        base.checked_add(self.history.checked_mul(stride)?)?;
        Some((0..times).map(move |j| base + stride * j))
    }

    fn shape(&self) -> String {
        let Self {
            history,
            steps,
            stride,
            ..
        } = self;
        format!("history {history}, steps {steps}, stride {stride}")
    }
}

fn misfit(start: usize, span: usize, segments: &[Range<usize>]) -> Error {
    let found = match segments.iter().find(|s| s.contains(&start)) {
        Some(s) => format!("{} before row {}", s.end - start, s.end),
        None => "a row outside the selected ones".to_owned(),
    };
    Error::config("an explicit start does not leave room for its window")
        .row(start)
        .expected(format!("{span} rows without a gap"))
        .found(found)
}

/// First rows of the windows of a rollout that covers `rows` once: each reads an input of
/// `history + 1` rows and is compared with the next `history + 1`, and the next window's input is
/// this one's target. There are `rows / (history + 1) − 1`, rounded down; rows left over at the end
/// are not used. The stride is 1.
///
/// The rows must be without a gap: give one of
/// [`TimeAxis::segments`](crate::ocean::TimeAxis::segments).
///
/// ```
/// assert_eq!(burn_om4::plan::inference_starts(0..9, 1)?, [0, 2, 4]);
/// # Ok::<(), burn_om4::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config): a history too long to count.
pub fn inference_starts(rows: Range<usize>, history: usize) -> Result<Vec<usize>> {
    let options = WindowOptions::default().with_history(history);
    let spacing = options.times();
    options.with_start_every(spacing).starts(&[rows])
}

/// One training sample: a light descriptor, from which its rows follow by the data set's
/// [`WindowOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Which source (position in the data set's list).
    pub source: usize,
    /// First row on that source's time axis.
    pub start: usize,
}
