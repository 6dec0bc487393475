//! Normalise and mask one plane on the host: the arithmetic that tensor operations and the kernel are
//! held to.
//!
//! With mean m, standard deviation s, fill value f and wet mask w, for every cell z:
//!
//! * [`MaskOrder::NormaliseFirst`]: `w ? norm(z) : f`
//! * [`MaskOrder::MaskFirst`]: `norm(w ? z : f)`
//!
//! where `norm(z) = (z - m) / s` in float32, then NaN becomes 0 and ±∞ becomes ±3.4028235e38
//! (PyTorch's `nan_to_num(nan=0)`). There is no epsilon and no special case for s = 0. The mask
//! selects; it never multiplies, because land is NaN.

use crate::ocean::mask::WetMask;
use crate::prepare::odd_cells::{OddCells, OddCounts, Usual};
use multiversion::multiversion;
use std::sync::Arc;

/// Which of normalising and masking comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MaskOrder {
    /// Land holds the fill value itself.
    #[default]
    NormaliseFirst,
    /// Land holds the normalised fill value.
    MaskFirst,
}

/// What one channel is prepared with.
#[derive(Clone, Debug)]
pub struct ChannelConstants {
    /// Subtracted, in the channel's unit.
    pub mean: f32,
    /// Divided by, in the channel's unit.
    pub std: f32,
    /// Where the plane is ocean.
    pub wet: Arc<WetMask>,
}

impl ChannelConstants {
    fn usual(&self) -> Usual {
        Usual {
            mean: self.mean,
            std: self.std,
        }
    }

    /// The odd wet cells of a raw plane.
    pub(crate) fn odd_cells(&self, plane: &[f32]) -> OddCells {
        OddCells::of(plane, self.wet.as_slice(), self.usual())
    }

    /// The same of a plane that is probably in order: quick when it is.
    pub(crate) fn odd_cells_if_any(&self, plane: &[f32]) -> Option<OddCells> {
        OddCells::if_any(plane, self.wet.as_slice(), self.usual())
    }
}

/// How planes are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preparation {
    /// Order of the two steps.
    pub order: MaskOrder,
    /// Value of land, before or after normalising according to `order`.
    pub fill: f32,
}

/// What preparing a plane met in wet cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetCells {
    /// NaN, which became 0.
    pub nan: u64,
    /// Infinities and values too far from the mean to be measurements
    /// ([`EXTREME_DEVIATIONS`](crate::prepare::EXTREME_DEVIATIONS)).
    pub large: u64,
}

impl Preparation {
    /// Prepares one raw plane, `(y, x)` in C order, in place, in one pass, and counts what it held in
    /// the ocean that it should not.
    ///
    /// # Panics
    /// When `plane` and the mask differ in length.
    pub fn prepare(&self, plane: &mut [f32], channel: &ChannelConstants) -> MetCells {
        let wet = channel.wet.as_slice();
        assert_eq!(plane.len(), wet.len(), "plane and wet mask differ in size");
        let usual = channel.usual();
        if usual.std != 0.0 && usual.std.is_finite() && usual.mean.is_finite() {
            return in_vectors(self, plane, wet, usual, usual.limit());
        }
        // Normalised values do not tell here what they came from.
        let OddCounts {
            nan,
            infinite,
            extreme,
        } = channel.odd_cells(plane).counts;
        in_vectors(self, plane, wet, usual, usual.limit());
        MetCells {
            nan,
            large: infinite + extreme,
        }
    }

    /// Prepares a block, and counts the wet cells beyond `limit` or NaN.
    #[inline(always)]
    fn block(&self, values: &mut [f32], wet: &[bool], usual: Usual, limit: f32) -> u32 {
        let fill = self.fill;
        let cells = values.iter_mut().zip(wet);
        let mut odd = 0;
        match self.order {
            MaskOrder::NormaliseFirst => {
                for (value, &wet) in cells {
                    let z = usual.deviations(*value);
                    let within = z.abs() <= limit;
                    odd += u32::from(wet & !within);
                    *value = if wet { finite(z) } else { fill };
                }
            }
            MaskOrder::MaskFirst => {
                for (value, &wet) in cells {
                    let z = usual.deviations(if wet { *value } else { fill });
                    let within = z.abs() <= limit;
                    odd += u32::from(wet & !within);
                    *value = finite(z);
                }
            }
        }
        odd
    }
}

/// Compiled once for each kind of vector; the widest that the processor has is chosen at run time.
/// IEEE division is the same in all of them.
///
/// Plain loops: what closures do in an iterator's adaptors may be compiled outside of this function,
/// for the vectors that every processor has.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn in_vectors(
    preparation: &Preparation,
    plane: &mut [f32],
    wet: &[bool],
    usual: Usual,
    limit: f32,
) -> MetCells {
    let mut met = MetCells::default();
    // Blocks keep the count in 32 bits, which the compiler can hold in the lanes of the values.
    for (values, wet) in plane.chunks_mut(BLOCK).zip(wet.chunks(BLOCK)) {
        let odd = preparation.block(values, wet, usual, limit);
        if odd > 0 {
            let large = large(values, wet, limit);
            met.large += large;
            met.nan += u64::from(odd) - large;
        }
    }
    met
}

const BLOCK: usize = 4096;

/// Of the odd cells of a prepared block, those that were not NaN: NaN has become 0.
#[cold]
fn large(prepared: &[f32], wet: &[bool], limit: f32) -> u64 {
    let cells = prepared.iter().zip(wet);
    cells.filter(|(z, wet)| **wet && z.abs() > limit).count() as u64
}

#[inline(always)]
fn finite(z: f32) -> f32 {
    let finite = z.clamp(f32::MIN, f32::MAX);
    if z.is_nan() { 0.0 } else { finite }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::plane::PlaneShape;
    use crate::prepare::odd_cells::OddCell;

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    fn channel(mean: f32, std: f32, wet: &[bool]) -> ChannelConstants {
        let shape = PlaneShape {
            ny: 1,
            nx: wet.len(),
        };
        let wet = Arc::new(WetMask::new(shape, wet.to_vec()).unwrap());
        ChannelConstants { mean, std, wet }
    }

    #[test]
    fn kinds_are_told_apart_and_land_does_not_count() {
        let wet = [true, true, true, true, true, false, false, false];
        let c = channel(10.0, 2.0, &wet);
        let plane = [NAN, -INF, 1e12, -3e38, 20_009.0, NAN, INF, 1e20];
        let odd = c.odd_cells(&plane);
        let counts = OddCounts {
            nan: 1,
            infinite: 1,
            extreme: 2,
        };
        assert_eq!(odd.counts, counts);
        let cell = |cell, value| Some(OddCell { cell, value });
        assert_eq!(odd.infinite, cell(1, -INF));
        assert_eq!(odd.extreme, cell(3, -3e38));
        assert_eq!(c.odd_cells_if_any(&plane), Some(odd));
        let clean = [10.0, 20_010.0, -19_990.0, 0.0, 5.0, NAN, INF, 1e20];
        assert_eq!(c.odd_cells_if_any(&clean), None);
    }

    #[test]
    fn a_sentinel_that_is_in_the_statistics_is_found_all_the_same() {
        let c = channel(1e17, 1e19, &[true; 2]);
        assert_eq!(c.odd_cells(&[1e20, 20.0]).counts.extreme, 2);
        let heat = channel(1e10, 1e10, &[true; 2]);
        assert_eq!(heat.odd_cells_if_any(&[3e10, -1e10]), None);
    }

    /// What preparing counts on its way is what looking at every cell finds, whatever the constants.
    #[test]
    fn preparing_finds_what_looking_finds() {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            (random >> 33) as u32
        };
        // More than a block, and no whole number of vectors.
        let cells = 5001;
        for (mean, std) in [
            (3.5, 2.0),
            (0.0, 1e-9),
            (1e17, 1e19),
            (5.0, 0.0),
            (0.0, NAN),
            (NAN, 1.0),
            (INF, 1.0),
            (1.0, INF),
            (1.0, -2.0),
        ] {
            let wet: Vec<bool> = (0..cells).map(|_| next() % 3 > 0).collect();
            let c = channel(mean, std, &wet);
            for odd in [0, 1, 40, 5] {
                let plane: Vec<f32> = (0..cells)
                    .map(|_| match (next() % 100 < odd, next() % 6) {
                        (true, 0) => NAN,
                        (true, 1) => INF,
                        (true, 2) => -3e38,
                        (true, 3) => 1e12,
                        (true, 4) => f32::from_bits(next()),
                        _ => (next() % 1000) as f32 * 0.01,
                    })
                    .collect();
                let expected = c.odd_cells(&plane);
                for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
                    let preparation = Preparation { order, fill: 0.0 };
                    let found = preparation.prepare(&mut plane.clone(), &c);
                    assert_eq!(
                        found.nan, expected.counts.nan,
                        "{mean} {std} {odd} {order:?}"
                    );
                    let large = expected.counts.infinite + expected.counts.extreme;
                    assert_eq!(found.large, large, "{mean} {std} {odd} {order:?}");
                }
                let quick = c.odd_cells_if_any(&plane).unwrap_or_default();
                assert_eq!(quick.counts, expected.counts, "{mean} {std} {odd}");
            }
        }
    }

    #[test]
    fn nan_in_the_ocean_is_counted_and_nan_on_land_is_not() {
        let c = channel(0.0, 1.0, &[true, false, true]);
        for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
            let found = Preparation { order, fill: 0.0 }.prepare(&mut [NAN, NAN, 1.0], &c);
            assert_eq!(found, MetCells { nan: 1, large: 0 });
        }
    }
}
