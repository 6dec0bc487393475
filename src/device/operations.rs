//! The arithmetic of preparing, as tensor operations: the reference of the kernel.

use crate::dataset::source::Source;
use crate::device::assemble::{Assembler, gathered};
use crate::device::batch::Field;
use crate::device::constants::PerSource;
use crate::host::planes::{PlaneBuffer, PlaneBuffers};
use crate::ocean::plane::PlaneShape;
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::prepare::arithmetic::{ChannelConstants, MaskOrder, Preparation};
use crate::prepare::transfer::HostFormat;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Planes that the consumer uploads and tensor operations prepare: the constants of each source.
#[derive(Clone)]
pub(crate) struct OperationsPath(PerSource<PerGroup<DevicePreparation>>);

impl OperationsPath {
    pub(crate) fn new(sources: usize) -> Self {
        Self(PerSource::new(sources))
    }

    /// Uploads the constants of a source, unless they are there.
    pub(super) fn constants(
        &self,
        source: &Source,
        device: &Device,
    ) -> &PerGroup<DevicePreparation> {
        let preparation = source.context.preparation();
        self.0.of(source, || {
            source.groups.as_ref().map(|_, group| {
                let shape = group.planes.shape();
                DevicePreparation::new(preparation, &group.constants, shape, device)
            })
        })
    }

    /// Uploads and prepares the planes of a batch, and puts its tensors together from them.
    pub(crate) fn finish(
        &self,
        planes: PlaneBuffers,
        source: &Source,
        assembler: &Assembler<'_>,
    ) -> PerRole<Field> {
        let PlaneBuffers { groups, gathers } = planes;
        let constants = self.constants(source, assembler.device);
        let shapes = source.groups.as_ref().map(|_, group| group.planes.shape());
        let groups = groups.zip(constants.as_ref()).zip(shapes);
        let planes = groups.map(|_, ((buffer, constants), shape)| {
            let PlaneBuffer {
                lease,
                format,
                rows,
            } = buffer;
            let planes = assembler.upload(lease, format.precision(), rows.len(), shape);
            match format {
                HostFormat::Raw => assembler.cast(constants.prepare(planes)),
                HostFormat::Prepared(_) => planes,
            }
        });
        gathered(planes, gathers)
    }
}

/// [`Preparation`] on a device: constants of a group of channels, uploaded once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::mask::WetMask;
    use std::sync::Arc;

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

    /// Host path and tensor path, which must agree bit for bit.
    fn prepared(
        order: MaskOrder,
        fill: f32,
        values: &[f32],
        channel: &ChannelConstants,
    ) -> Vec<f32> {
        let preparation = Preparation { order, fill };
        let mut host = values.to_vec();
        preparation.prepare(&mut host, channel);
        let device = Device::flex();
        let shape = channel.wet.shape();
        let on_device =
            DevicePreparation::new(preparation, std::slice::from_ref(channel), shape, &device);
        let planes = TensorData::new(values.to_vec(), [1, 1, 1, values.len()]);
        let planes = on_device.prepare(Tensor::from_data(planes, &device));
        let device: Vec<f32> = planes.into_data().try_to_vec().unwrap();
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&host), bits(&device));
        host
    }

    #[test]
    fn land_is_selected_in_both_orders() {
        let c = channel(2.0, 4.0, &[true, false, true, false]);
        let values = [10.0, NAN, NAN, 777.0];
        let first = prepared(MaskOrder::NormaliseFirst, -1.0, &values, &c);
        assert_eq!(first, [2.0, -1.0, 0.0, -1.0]);
        let mask_first = prepared(MaskOrder::MaskFirst, -1.0, &values, &c);
        assert_eq!(mask_first, [2.0, -0.75, 0.0, -0.75]);
    }

    #[test]
    fn infinities_and_a_zero_deviation_become_the_largest_finite_values() {
        let wet = [true; 4];
        let inf = prepared(
            MaskOrder::NormaliseFirst,
            0.0,
            &[INF, -INF, NAN, 1.0],
            &channel(0.0, 1.0, &wet),
        );
        assert_eq!(inf, [f32::MAX, f32::MIN, 0.0, 1.0]);
        let zero = prepared(
            MaskOrder::MaskFirst,
            0.0,
            &[3.0, 5.0, 1.0, NAN],
            &channel(3.0, 0.0, &wet),
        );
        assert_eq!(zero, [0.0, f32::MAX, f32::MIN, 0.0]);
    }
}
