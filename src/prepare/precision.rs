//! The element type of a batch's tensors.

use burn::tensor::FloatDType;
use half::slice::HalfFloatSliceExt;
use multiversion::multiversion;

/// Element type of a batch's tensors. Normalising and masking happen in float32 whatever it is, and
/// the result is rounded to it, to the nearest.
///
/// Values beyond the type's largest finite one are clamped to it: ±65504 in float16, and in
/// bfloat16 the ±3.4028235e38 that stands for an infinity. A normalised ocean never gets there;
/// what does is a fill value or a unit mistaken by orders of magnitude, which stays visible at the
/// end of the range and does not turn into an infinity that spoils a whole gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 24 bits of mantissa, 8 of exponent.
    #[default]
    F32,
    /// 8 bits of mantissa, 8 of exponent.
    Bf16,
    /// 11 bits of mantissa, 5 of exponent.
    F16,
}

impl Precision {
    /// Burn's name for it.
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }

    /// The largest finite value.
    pub fn largest(self) -> f32 {
        match self {
            Self::F32 => f32::MAX,
            Self::Bf16 => half::bf16::MAX.to_f32(),
            Self::F16 => half::f16::MAX.to_f32(),
        }
    }

    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// `value`, kept within the range.
    pub fn clamp(self, value: f32) -> f32 {
        value.clamp(-self.largest(), self.largest())
    }
}

/// The two element types of half the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    Bf16,
    F16,
}

impl Narrow {
    /// The element type, if it is one of these.
    pub(crate) fn of(precision: Precision) -> Option<Self> {
        match precision {
            Precision::F32 => None,
            Precision::Bf16 => Some(Self::Bf16),
            Precision::F16 => Some(Self::F16),
        }
    }

    /// Rounds `values` to the nearest, ties to even, kept within the range (which changes them).
    ///
    /// # Panics
    /// When the lengths differ.
    pub(crate) fn round(self, values: &mut [f32], out: &mut [u16]) {
        assert_eq!(
            values.len(),
            out.len(),
            "values and room for them differ in size"
        );
        match self {
            Self::Bf16 => round_bf16(values, out),
            Self::F16 => {
                // By blocks, so that a value is still in the cache when it is rounded.
                for (values, out) in values.chunks_mut(BLOCK).zip(out.chunks_mut(BLOCK)) {
                    clamp(values, Precision::F16.largest());
                    bytemuck::cast_slice_mut::<u16, half::f16>(out).convert_from_f32_slice(values);
                }
            }
        }
    }
}

const BLOCK: usize = 4096;

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn clamp(values: &mut [f32], largest: f32) {
    for value in values {
        *value = value.clamp(-largest, largest);
    }
}

/// What `half::bf16::from_f32` makes of clamped values, in vectors, which `half` has for float16 alone.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn round_bf16(values: &[f32], out: &mut [u16]) {
    let largest = half::bf16::MAX.to_f32_const();
    for (value, out) in values.iter().zip(out) {
        let bits = value.clamp(-largest, largest).to_bits();
        // Half a unit, less one where the last bit that stays is even. Only NaN could overflow.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        *out = if value.is_nan() { quiet } else { rounded } as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_finite_in_its_type() {
        assert_eq!(Precision::F16.largest(), 65504.0);
        assert!(
            half::bf16::from_f32(f32::MAX).is_infinite(),
            "why bfloat16 needs the clamp"
        );
        let clamped = Precision::Bf16.clamp(f32::MAX);
        assert_eq!(half::bf16::from_f32(clamped), half::bf16::MAX);
        assert_eq!(Precision::F16.clamp(-1e9), -65504.0);
        assert_eq!(Precision::F32.clamp(f32::MIN), f32::MIN);
    }
    #[test]
    fn rounding_is_that_of_each_value_by_itself() {
        let mut values: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 1.2345e-3).collect();
        values.extend([f32::MAX, f32::MIN, 1e-30, 65519.9, 1.0 + f32::EPSILON]);
        values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-42]);
        // Halfway between two of them, above an even and above an odd one, and next to that.
        values.extend([0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x7f7f_8000].map(f32::from_bits));
        let mut bits = 1u32;
        values.extend(
            std::iter::repeat_with(|| {
                bits = bits.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                f32::from_bits(bits)
            })
            .take(10_000),
        );
        let mut out = vec![0; values.len()];
        Narrow::Bf16.round(&mut values.clone(), &mut out);
        for (value, out) in values.iter().zip(&out) {
            let value = Precision::Bf16.clamp(*value);
            assert_eq!(half::bf16::from_f32(value).to_bits(), *out, "{value}");
        }
        Narrow::F16.round(&mut values.clone(), &mut out);
        for (value, out) in values.iter().zip(&out) {
            let value = Precision::F16.clamp(*value);
            assert_eq!(half::f16::from_f32(value).to_bits(), *out, "{value}");
        }
    }
}
