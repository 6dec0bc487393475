//! Count, mean and deviation of the ocean's values, plane by plane.

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

/// Count, mean and sum of squared deviations of values, in double precision.
///
/// A plane is taken in by one pass over its values less a value of their own; planes are joined by Chan's
/// formula. So a large mean costs no digits.
///
/// ```
/// use burn_om4::survey::Moments;
/// let mut moments = Moments::of_plane(&[1e6, 1e6 + 2.0, f32::NAN, 7.0], &[true, true, true, false]);
/// moments.merge(&Moments::of_plane(&[1e6 + 4.0], &[true]));
/// assert_eq!((moments.count(), moments.mean()), (3, 1e6 + 2.0));
/// assert_eq!(moments.std(), (8.0f64 / 3.0).sqrt());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of the values that are wet and not NaN; both slices `(y, x)` in C order.
    ///
    /// # Panics
    /// The slices have different lengths.
    pub fn of_plane(values: &[f32], wet: &[bool]) -> Self {
        assert_eq!(values.len(), wet.len(), "cells of a plane and of its mask");
        let first = std::iter::zip(values, wet).find(|(v, wet)| **wet && !v.is_nan());
        let Some((origin, _)) = first else {
            return Self::default();
        };
        let origin = if origin.is_finite() { *origin } else { 0.0 };
        let Sums {
            count,
            sum,
            squares,
        } = sums(values, wet, origin);
        let n = count as f64;
        let mean = sum / n;
        Self {
            count,
            mean: f64::from(origin) + mean,
            // Rounding must not make it negative.
            squares: (squares - n * mean * mean).max(0.0),
        }
    }

    /// Takes in the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let total = own + others;
        let apart = other.mean - self.mean;
        self.squares += other.squares + apart * apart * own * others / total;
        self.mean += apart * others / total;
        self.count += other.count;
    }

    /// Values taken in.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// NaN where nothing was taken in, as numpy has it.
    pub fn mean(&self) -> f64 {
        if self.count > 0 { self.mean } else { f64::NAN }
    }

    /// Population standard deviation; NaN where nothing was taken in.
    pub fn std(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }
}

struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
}

/// Values that are summed side by side: so many independent sums that the compiler keeps them in vectors.
const LANES: usize = 32;

/// Cells that are selected at a time, before they are widened.
const BLOCK: usize = 256;

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn sums(values: &[f32], wet: &[bool], origin: f32) -> Sums {
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let (wet_blocks, wet_rest) = wet.as_chunks::<BLOCK>();
    let mut count = 0;
    let mut sum = [0f64; LANES];
    let mut squares = [0f64; LANES];
    // What does not count is the origin, which adds nothing.
    let mut chosen = [origin; BLOCK];
    for (values, wet) in std::iter::zip(blocks, wet_blocks) {
        let mut counted = 0u32;
        for cell in 0..BLOCK {
            let counts = u32::from(wet[cell]) & u32::from(!values[cell].is_nan());
            counted += counts;
            chosen[cell] = if counts != 0 { values[cell] } else { origin };
        }
        count += u64::from(counted);
        for chosen in chosen.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let apart = f64::from(chosen[lane]) - f64::from(origin);
                sum[lane] += apart;
                squares[lane] += apart * apart;
            }
        }
    }
    for (value, wet) in std::iter::zip(rest, wet_rest) {
        if *wet && !value.is_nan() {
            let apart = f64::from(*value) - f64::from(origin);
            count += 1;
            sum[0] += apart;
            squares[0] += apart * apart;
        }
    }
    Sums {
        count,
        sum: sum.iter().sum(),
        squares: squares.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mean and deviation in two passes, and the count.
    fn plainly(values: &[f64]) -> (u64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        (values.len() as u64, mean, (squares / n).sqrt())
    }

    proptest! {
        #[test]
        fn planes_merge_to_the_moments_of_the_whole(
            planes in proptest::collection::vec(
                proptest::collection::vec((-50f32..50.0, any::<bool>(), 0..20), 0..600), 1..5),
            base in prop_oneof![Just(0f32), Just(1e4), Just(-3e5)],
        ) {
            let mut moments = Moments::default();
            let mut all = Vec::new();
            for plane in &planes {
                let value = |(v, _, nan): &(f32, bool, i32)| if *nan == 0 { f32::NAN } else { v + base };
                let values: Vec<f32> = plane.iter().map(value).collect();
                let wet: Vec<bool> = plane.iter().map(|cell| cell.1).collect();
                moments.merge(&Moments::of_plane(&values, &wet));
                let ocean = std::iter::zip(&values, &wet).filter(|(v, wet)| **wet && !v.is_nan());
                all.extend(ocean.map(|(v, _)| f64::from(*v)));
            }
            let (count, mean, std) = plainly(&all);
            prop_assert_eq!(moments.count(), count);
            if count == 0 {
                prop_assert!(moments.mean().is_nan() && moments.std().is_nan());
            } else {
                let scale = std.max(f64::from(base.abs()) * 1e-7).max(1e-6);
                prop_assert!((moments.mean() - mean).abs() < 1e-9 * scale.max(1.0));
                prop_assert!((moments.std() - std).abs() < 1e-7 * scale);
            }
        }
    }

    #[test]
    fn a_constant_field_has_no_deviation() {
        let mut moments = Moments::default();
        for _ in 0..3 {
            moments.merge(&Moments::of_plane(&[33.3; 100], &[true; 100]));
        }
        assert_eq!(moments.std(), 0.0);
        assert_eq!(moments.mean(), f64::from(33.3f32));
    }

    #[test]
    fn an_infinity_is_seen_in_the_result() {
        let moments = Moments::of_plane(&[f32::INFINITY, 1.0], &[true; 2]);
        assert!(!moments.mean().is_finite());
        assert!(Moments::of_plane(&[f32::INFINITY, 1.0], &[false, true]).mean() == 1.0);
    }
}
