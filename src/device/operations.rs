//! The arithmetic of preparing, as tensor operations: the reference of the kernel.

use crate::ocean::plane::PlaneShape;
use crate::prepare::arithmetic::{ChannelConstants, MaskOrder, Preparation};
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// The same on a device: constants of a group of channels, uploaded once.
#[derive(Clone, Debug)]
pub struct DevicePreparation {
    preparation: Preparation,
    /// `(1, channel, 1, 1)`.
    mean: Tensor<4>,
    std: Tensor<4>,
    /// `(1, channel, y, x)`, true on land.
    dry: Tensor<4, Bool>,
}

impl DevicePreparation {
    /// Uploads the constants of `channels`.
    ///
    /// # Panics
    /// When a mask has another extent than `shape`.
    pub fn new(
        preparation: Preparation,
        channels: &[ChannelConstants],
        shape: PlaneShape,
        device: &Device,
    ) -> Self {
        let PlaneShape { ny, nx } = shape;
        let n = channels.len();
        let column = |values: Vec<f32>| {
            Tensor::<1>::from_data(TensorData::new(values, [n]), device).reshape([1, n, 1, 1])
        };
        let dry = channels
            .iter()
            .flat_map(|c| c.wet.as_slice().iter().map(|w| !w));
        let dry = TensorData::new(dry.collect::<Vec<bool>>(), [1, n, ny, nx]);
        Self {
            preparation,
            mean: column(channels.iter().map(|c| c.mean).collect()),
            std: column(channels.iter().map(|c| c.std).collect()),
            dry: Tensor::from_data(dry, device),
        }
    }

    /// Prepares raw planes `(row, channel, y, x)`, float32, on the device of the constants.
    ///
    /// # Panics
    /// When channels or extents differ from those of the constants.
    pub fn prepare(&self, planes: Tensor<4>) -> Tensor<4> {
        let dims = planes.dims();
        let dry = self.dry.clone().expand(dims);
        match self.preparation.order {
            MaskOrder::NormaliseFirst => {
                self.normalise(planes).mask_fill(dry, self.preparation.fill)
            }
            MaskOrder::MaskFirst => self.normalise(planes.mask_fill(dry, self.preparation.fill)),
        }
    }

    fn normalise(&self, planes: Tensor<4>) -> Tensor<4> {
        let z = (planes - self.mean.clone()) / self.std.clone();
        let nan = z.clone().is_nan();
        z.clamp(f32::MIN, f32::MAX).mask_fill(nan, 0.0)
    }
}
