//! What crosses to a device that is not a CPU.

use crate::prepare::precision::Precision;
#[cfg(feature = "cube")]
use burn::tensor::DType;

/// What crosses to a device that is not a CPU. (To a CPU device nothing crosses: planes are
/// prepared in the batch's own memory.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// Raw planes, float32; the device normalises, masks and rounds. Costs the host nothing.
    #[default]
    Raw,
    /// Planes that the readers have normalised, masked and rounded to the element type of the
    /// tensors: with bfloat16 or float16 half the bytes cross, and half the host memory is taken.
    /// For hosts with processor time to spare and a slow way to the device. Rounded to the nearest,
    /// ties to even, whatever the device does.
    Prepared,
}

/// What a host buffer holds, and so what the device finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostFormat {
    Raw,
    Prepared(Precision),
}

impl HostFormat {
    pub(crate) fn of(transfer: Transfer, precision: Precision) -> Self {
        match transfer {
            Transfer::Raw => Self::Raw,
            Transfer::Prepared => Self::Prepared(precision),
        }
    }

    /// The element type.
    pub(crate) fn precision(self) -> Precision {
        match self {
            Self::Raw => Precision::F32,
            Self::Prepared(precision) => precision,
        }
    }

    /// The element type, by Burn's name.
    #[cfg(feature = "cube")]
    pub(crate) fn dtype(self) -> DType {
        self.precision().dtype().into()
    }
}
