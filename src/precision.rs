//! The element type of a batch's tensors.

use burn::tensor::FloatDType;

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

    /// `value`, kept within the range.
    pub fn clamp(self, value: f32) -> f32 {
        value.clamp(-self.largest(), self.largest())
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
}
