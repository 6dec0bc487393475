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

/// How planes are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preparation {
    /// Order of the two steps.
    pub order: MaskOrder,
    /// Value of land, before or after normalising according to `order`.
    pub fill: f32,
}

impl Preparation {
    /// Prepares one raw plane, `(y, x)` in C order, in place, in one pass, and counts the NaN that
    /// it held in the ocean.
    ///
    /// # Panics
    /// When `plane` and the mask differ in length.
    pub fn prepare(&self, plane: &mut [f32], channel: &ChannelConstants) -> u64 {
        let wet = channel.wet.as_slice();
        assert_eq!(plane.len(), wet.len(), "plane and wet mask differ in size");
        in_vectors(self, plane, wet, channel)
    }

    #[inline(always)]
    fn block(&self, values: &mut [f32], wet: &[bool], channel: &ChannelConstants) -> u32 {
        let (mean, std, fill) = (channel.mean, channel.std, self.fill);
        let cells = values.iter_mut().zip(wet);
        let mut nan_in_ocean = 0;
        match self.order {
            MaskOrder::NormaliseFirst => {
                for (value, &wet) in cells {
                    nan_in_ocean += u32::from(wet & value.is_nan());
                    let normal = normalise(*value, mean, std);
                    *value = if wet { normal } else { fill };
                }
            }
            MaskOrder::MaskFirst => {
                for (value, &wet) in cells {
                    nan_in_ocean += u32::from(wet & value.is_nan());
                    let masked = if wet { *value } else { fill };
                    *value = normalise(masked, mean, std);
                }
            }
        }
        nan_in_ocean
    }
}

/// Compiled once for each kind of vector; the widest that the processor has is chosen at run time.
/// IEEE division is the same in all of them.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn in_vectors(
    preparation: &Preparation,
    plane: &mut [f32],
    wet: &[bool],
    channel: &ChannelConstants,
) -> u64 {
    // Blocks keep the count in 32 bits, which the compiler can hold in the lanes of the values.
    let blocks = plane.chunks_mut(BLOCK).zip(wet.chunks(BLOCK));
    let nan = blocks.map(|(values, wet)| preparation.block(values, wet, channel));
    nan.map(u64::from).sum()
}

const BLOCK: usize = 4096;

#[inline(always)]
fn normalise(value: f32, mean: f32, std: f32) -> f32 {
    let z = (value - mean) / std;
    let finite = z.clamp(f32::MIN, f32::MAX);
    if z.is_nan() { 0.0 } else { finite }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::plane::PlaneShape;

    const NAN: f32 = f32::NAN;

    #[test]
    fn nan_in_the_ocean_is_counted_and_nan_on_land_is_not() {
        let c = {
            let shape = PlaneShape { ny: 1, nx: 3 };
            let wet = WetMask::new(shape, vec![true, false, true]).unwrap();
            ChannelConstants {
                mean: 0.0,
                std: 1.0,
                wet: Arc::new(wet),
            }
        };
        for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
            let found = Preparation { order, fill: 0.0 }.prepare(&mut [NAN, NAN, 1.0], &c);
            assert_eq!(found, 1);
        }
    }
}
