//! A batch by name: rollout steps, dates and channels, and tensors back in physical units.

use crate::device::batch::ModelBatch;
use crate::device::constants::channel_mask;
use crate::error::{Error, Result};
use crate::ocean::calendar::DateTime;
use crate::plan::roles::Role;
use burn::tensor::{Bool, DType, Tensor, TensorData};

/// One rollout step of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchStep<'a> {
    batch: &'a ModelBatch,
    number: usize,
}

impl ModelBatch {
    /// Rollout step `number`, from 0.
    ///
    /// # Errors
    /// `number` is not below [`steps`](Self::steps).
    pub fn step(&self, number: usize) -> Result<BatchStep<'_>> {
        if number < self.steps() {
            return Ok(BatchStep {
                batch: self,
                number,
            });
        }
        Err(Error::config("a batch has no such rollout step")
            .expected(format!("a step below {}", self.steps()))
            .found(number))
    }

    /// The rollout steps in their order.
    pub fn rollout(&self) -> impl DoubleEndedIterator<Item = BatchStep<'_>> + ExactSizeIterator {
        (0..self.steps()).map(|number| BatchStep {
            batch: self,
            number,
        })
    }

    /// A tensor of the kind of `role`, or a prediction of it, in physical units: `x * std + mean` of
    /// each channel, float32, and NaN on land.
    ///
    /// `tensor` is `(batch, time*channel, y, x)`, normalised; any number of samples will do. A value
    /// that a store lacked in the ocean was normalised to 0, so it comes back as the channel's mean.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): axes after the first that are not those of
    /// the batch's own tensors.
    pub fn physical(&self, role: Role, tensor: Tensor<4>) -> Result<Tensor<4>> {
        let context = self.context();
        let constants = context.constants_of(role);
        let wet = self.wet(role);
        let [n, channels, ny, nx] = tensor.dims();
        let expected = wet.dims();
        if [channels, ny, nx] != expected {
            return Err(Error::config("a tensor is not of its role's shape")
                .expected(format!(
                    "(batch, {}, {}, {})",
                    expected[0], expected[1], expected[2]
                ))
                .found(format!("({n}, {channels}, {ny}, {nx})")));
        }
        let device = tensor.device();
        let per_channel = |values: Vec<f32>| {
            let values = values.repeat(context.window().times());
            let data = TensorData::new(values, [1, channels, 1, 1]);
            Tensor::<4>::from_data(data, (&device, DType::F32))
        };
        let std = per_channel(constants.iter().map(|c| c.std).collect());
        let mean = per_channel(constants.iter().map(|c| c.mean).collect());
        let values = tensor.cast(DType::F32) * std + mean;
        let land = wet
            .bool_not()
            .unsqueeze::<4>()
            .expand([n, channels, ny, nx]);
        Ok(values.mask_fill(land, f32::NAN))
    }

    /// Ocean cells of a kind of tensor: `(time*channel, y, x)`.
    fn wet(&self, role: Role) -> Tensor<3, Bool> {
        let context = self.context();
        let times = context.window().times();
        match role {
            Role::Boundary => {
                let channels = times * context.boundary().len();
                let surface = self.boundary_mask();
                let [ny, nx] = surface.dims();
                surface.unsqueeze::<3>().expand([channels, ny, nx])
            }
            Role::Input if context.has_own_labels() => channel_mask(context, role, &self.device()),
            Role::Input | Role::Label => self.label_mask(),
        }
    }
}

impl BatchStep<'_> {
    /// Which step of the rollout, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// [`ModelBatch::input`] of this step.
    ///
    /// # Errors
    /// As there.
    pub fn input(&self) -> Result<Tensor<4>> {
        self.batch.input(self.number)
    }

    /// [`ModelBatch::boundary`] of this step.
    pub fn boundary(&self) -> Tensor<4> {
        self.batch.boundary(self.number)
    }

    /// [`ModelBatch::label`] of this step.
    pub fn label(&self) -> Tensor<4> {
        self.batch.label(self.number)
    }

    /// One channel by its name: `(batch, time, y, x)`, normalised, oldest time first.
    ///
    /// # Errors
    /// A name that is none of the role's channels, or an input that the batch does not hold.
    pub fn channel(&self, role: Role, name: &str) -> Result<Tensor<4>> {
        let channels = self.batch.context().channels(role);
        let at = channels.iter().position(|channel| channel.name() == name);
        let at = at.ok_or_else(|| {
            let names: Vec<&str> = channels.iter().map(|channel| channel.name()).collect();
            Error::config("a batch has no such channel")
                .expected(format!("one of {}", names.join(", ")))
                .found(name)
        })?;
        let tensor = match role {
            Role::Input => self.input()?,
            Role::Boundary => self.boundary(),
            Role::Label => self.label(),
        };
        let [n, all, ny, nx] = tensor.dims();
        let times = all / channels.len();
        let by_time = tensor.reshape([n, times, channels.len(), ny, nx]);
        Ok(by_time.narrow(2, at, 1).reshape([n, times, ny, nx]))
    }

    /// Dates of a tensor: of each sample, its times, oldest first. Those of labels are the input
    /// store's, which a label store of its own matches by date.
    pub fn dates(&self, role: Role) -> Vec<Vec<DateTime>> {
        let context = self.batch.context();
        let (options, axis) = (context.window(), context.time());
        // The label times of a step are the input times of the next.
        let step = self.number + usize::from(role == Role::Label);
        let of_sample = |start: usize| {
            let rows = options.input_rows(start, step);
            rows.map(|row| axis.datetime(row)).collect()
        };
        let windows = self.batch.windows().iter();
        windows.map(|window| of_sample(window.start)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ocean_dataset::OceanDataset;
    use crate::dataset::options::DatasetOptions;
    use crate::dataset::source::OceanPair;
    use crate::error::ErrorKind;
    use crate::loader::batcher::OceanBatcher;
    use crate::ocean::mask::WetMask;
    use crate::ocean::plane::PlaneShape;
    use crate::plan::window::{Window, WindowOptions};
    use crate::prepare::arithmetic::{ChannelConstants, MaskOrder};
    use crate::prepare::precision::Precision;
    use crate::testing::{MemorySource, ocean_on};
    use burn::tensor::Device;
    use std::sync::Arc;

    const WET: [bool; 3] = [true, false, true];

    fn value(row: usize, channel: usize, cell: usize) -> f32 {
        (row * 100 + channel * 10 + cell) as f32
    }

    /// Two windows of two steps over thetao_0, zos and hfds, in that order in the source.
    fn batch(order: MaskOrder, precision: Precision) -> ModelBatch {
        let shape = PlaneShape { ny: 1, nx: 3 };
        let channels = ["thetao_0", "zos", "hfds"].map(|name| name.parse().unwrap());
        let constants = |mean, std| ChannelConstants {
            mean,
            std,
            wet: Arc::new(WetMask::new(shape, WET.to_vec()).unwrap()),
        };
        let constants = vec![
            constants(8.0, 2.0),
            constants(-4.0, 4.0),
            constants(16.0, 0.5),
        ];
        let source = MemorySource::new(channels.to_vec(), 20, shape, value);
        let input = ocean_on(source, constants).unwrap();
        let [thetao, zos, hfds] = channels;
        let options = DatasetOptions::new(vec![zos, thetao], vec![hfds])
            .with_mask_order(order)
            .with_window(WindowOptions::default().with_steps(2));
        let pair = OceanPair { input, label: None };
        let dataset = OceanDataset::from_oceans(vec![pair], &options).unwrap();
        let windows = [3, 7].map(|start| Window { source: 0, start });
        let batcher = OceanBatcher::new(dataset).with_precision(precision);
        batcher
            .try_batch(windows.to_vec(), &Device::flex())
            .unwrap()
    }

    fn values(tensor: Tensor<4>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn steps_have_numbers_and_dates() {
        let batch = batch(MaskOrder::NormaliseFirst, Precision::F32);
        let numbers: Vec<usize> = batch.rollout().map(|step| step.number()).collect();
        assert_eq!(numbers, [0, 1]);
        let days = |step: usize, role| {
            let dates = batch.step(step).unwrap().dates(role);
            dates
                .iter()
                .flatten()
                .map(|date| date.date.day)
                .collect::<Vec<_>>()
        };
        // Row r is January 1 + r.
        assert_eq!(days(0, Role::Input), [4, 5, 8, 9]);
        assert_eq!(days(0, Role::Label), [6, 7, 10, 11]);
        assert_eq!(days(1, Role::Boundary), [6, 7, 10, 11]);
        assert_eq!(days(1, Role::Label), [8, 9, 12, 13]);
        assert_eq!(batch.step(2).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn channels_are_found_by_name_and_come_back_in_their_units() {
        for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
            let batch = batch(order, Precision::F32);
            let step = batch.step(1).unwrap();
            for (role, name, channel, position, first_rows) in [
                (Role::Input, "thetao_0", 0, 1, [5, 9]),
                (Role::Label, "zos", 1, 0, [7, 11]),
                (Role::Boundary, "hfds", 2, 0, [5, 9]),
            ] {
                let tensor = match role {
                    Role::Input => step.input().unwrap(),
                    Role::Boundary => step.boundary(),
                    Role::Label => step.label(),
                };
                let named = step.channel(role, name).unwrap();
                assert_eq!(named.dims(), [2, 2, 1, 3]);
                let channels = batch.context().channels(role).len();
                let physical = batch.physical(role, tensor.clone()).unwrap();
                for (sample, first) in first_rows.into_iter().enumerate() {
                    for time in 0..2 {
                        let at = time * channels + position;
                        let of = |t: &Tensor<4>, c| {
                            values(t.clone().narrow(0, sample, 1).narrow(1, c, 1))
                        };
                        assert_eq!(of(&named, time), of(&tensor, at), "{name}");
                        let found = of(&physical, at);
                        let expected = [0, 1, 2].map(|cell| value(first + time, channel, cell));
                        assert_eq!((found[0], found[2]), (expected[0], expected[2]), "{name}");
                        assert!(found[1].is_nan(), "land");
                    }
                }
            }
            let error = step.channel(Role::Label, "hfds").unwrap_err().to_string();
            assert!(error.contains("one of zos, thetao_0"), "{error}");
        }
    }

    #[test]
    fn predictions_of_any_number_of_samples_are_taken_and_other_shapes_refused() {
        let batch = batch(MaskOrder::NormaliseFirst, Precision::Bf16);
        let device = Device::flex();
        let three = Tensor::<4>::zeros([3, 4, 1, 3], &device);
        let found = values(batch.physical(Role::Label, three).unwrap());
        // Zero is the mean: of zos and of thetao_0, at both times.
        let ocean = |at: usize| (found[at * 3], found[at * 3 + 2]);
        assert_eq!(found.len(), 3 * 4 * 3);
        assert_eq!(
            (ocean(0), ocean(1), ocean(11)),
            ((-4.0, -4.0), (8.0, 8.0), (8.0, 8.0))
        );
        let bf16 = batch.step(0).unwrap().label();
        assert_eq!(
            batch.physical(Role::Label, bf16).unwrap().dtype(),
            DType::F32
        );
        for dims in [[2, 2, 1, 3], [2, 4, 3, 1]] {
            let other = Tensor::<4>::zeros(dims, &device);
            let error = batch.physical(Role::Label, other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
        }
    }
}
