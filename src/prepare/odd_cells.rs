//! What a wet cell should not hold: NaN, infinities, and values that cannot be measurements.
//!
//! A value is *extreme* when it is finite and lies more than [`EXTREME_DEVIATIONS`] standard
//! deviations or more than [`EXTREME_DISTANCE`] (in the channel's unit) from the mean. The first
//! finds a 1e12 among temperatures; the second a missing value of 1e20 that got into the statistics
//! as well.
//!
//! Looking is made cheap: a plane is first asked whether anything is odd, which takes one comparison
//! per cell, and only one that is gets looked at cell by cell.

use multiversion::multiversion;

/// So many standard deviations from the mean nothing has been measured. Of the published channels none
/// is 100 away; a flux or a river's outflow may be some hundred.
pub const EXTREME_DEVIATIONS: f32 = 1e4;

/// So far from the mean, in whatever unit, nothing has been measured.
pub const EXTREME_DISTANCE: f32 = 1e15;

/// How many wet cells are odd, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct OddCounts {
    /// NaN, which is set to 0, the mean.
    pub nan: u64,
    /// Infinities, which are set to ±3.4028235e38.
    pub infinite: u64,
    /// Finite values far from the mean; they stay what they are.
    pub extreme: u64,
}

impl OddCounts {
    /// Whether nothing is odd.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.nan + self.infinite + self.extreme
    }

    /// Adds those of another plane.
    pub fn add(&mut self, other: &Self) {
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.extreme += other.extreme;
    }
}

/// A cell of a plane and what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OddCell {
    /// Its place in the plane, C order.
    pub cell: usize,
    pub value: f32,
}

/// The odd wet cells of a raw plane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OddCells {
    pub counts: OddCounts,
    /// The first cell that is infinite.
    pub infinite: Option<OddCell>,
    /// The extreme cell that is farthest from the mean, the first of several.
    pub extreme: Option<OddCell>,
}

impl OddCells {
    /// So many NaN, and nothing else.
    pub(crate) fn nan(nan: u64) -> Self {
        Self {
            counts: OddCounts {
                nan,
                ..OddCounts::default()
            },
            ..Self::default()
        }
    }

    /// Whether there are NaN, infinities, extreme values.
    pub(crate) fn kinds(&self) -> [bool; 3] {
        let OddCounts {
            nan,
            infinite,
            extreme,
        } = self.counts;
        [nan > 0, infinite > 0, extreme > 0]
    }

    /// Looks at every cell of a raw plane.
    pub(super) fn of(plane: &[f32], wet: &[bool], usual: Usual) -> Self {
        let mut odd = Self::default();
        let limit = usual.limit();
        let cells = plane.iter().zip(wet).enumerate();
        for (cell, (&value, _)) in cells.filter(|(_, (_, wet))| **wet) {
            let here = OddCell { cell, value };
            if value.is_nan() {
                odd.counts.nan += 1;
            } else if value.is_infinite() {
                odd.counts.infinite += 1;
                odd.infinite.get_or_insert(here);
            } else if usual.deviations(value).abs() > limit {
                odd.counts.extreme += 1;
                let distance = |odd: &OddCell| (odd.value - usual.mean).abs();
                if odd
                    .extreme
                    .is_none_or(|known| distance(&here) > distance(&known))
                {
                    odd.extreme = Some(here);
                }
            }
        }
        odd
    }

    /// The same of a plane that is probably in order: quick when it is.
    pub(super) fn if_any(plane: &[f32], wet: &[bool], usual: Usual) -> Option<Self> {
        // Without a division, so a little below the limit: what is not passed is looked at again.
        let bound = usual.limit() * usual.std.abs() * 0.999;
        if !any_beyond(plane, wet, usual.mean, bound) {
            return None;
        }
        Some(Self::of(plane, wet, usual)).filter(|odd| !odd.counts.is_empty())
    }
}

/// What the values of a channel usually are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub mean: f32,
    pub std: f32,
}

impl Usual {
    /// Standard deviations from the mean: the value when normalised, before NaN and infinities are
    /// replaced.
    #[inline(always)]
    pub(super) fn deviations(self, value: f32) -> f32 {
        (value - self.mean) / self.std
    }

    /// Deviations beyond which a value is extreme.
    pub(super) fn limit(self) -> f32 {
        // `min` passes over the NaN that a deviation of NaN gives.
        EXTREME_DEVIATIONS.min(EXTREME_DISTANCE / self.std.abs())
    }
}

/// Whether a wet cell is farther than `bound` from the mean, or NaN.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn any_beyond(plane: &[f32], wet: &[bool], mean: f32, bound: f32) -> bool {
    let mut any = false;
    for (value, &wet) in plane.iter().zip(wet) {
        let within = (*value - mean).abs() <= bound;
        any |= wet & !within;
    }
    any
}
