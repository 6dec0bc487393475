//! The training loss: mean squared error per channel, summed over a rollout.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};

use crate::config::SamudraConfig;
use crate::rollout::Rollout;
use crate::samudra::Samudra;

/// Mean squared error of every channel, `(channel)`.
///
/// - `prediction`, `target`: `(batch, channel, y, x)`.
/// - `mask`: `(channel, y, x)`, true where a cell counts.
///
/// Cells that do not count are taken as without error **and stay in the mean**, which runs over
/// batch, y and x: a channel with more land has a smaller loss. No weight by area or latitude.
///
/// The difference is filled, not multiplied, with zero, so that a NaN on land in either tensor
/// does not get into the loss.
///
/// # Panics
///
/// If the shapes differ.
pub fn channel_mse(prediction: Tensor<4>, target: Tensor<4>, mask: Tensor<3, Bool>) -> Tensor<1> {
    let [batch, channels, ny, nx] = prediction.dims();
    assert_eq!(
        target.dims(),
        [batch, channels, ny, nx],
        "shape of the target"
    );
    let outside = mask
        .bool_not()
        .unsqueeze::<4>()
        .expand([batch, channels, ny, nx]);
    let difference = (prediction - target).mask_fill(outside, 0.0);
    (difference.clone() * difference)
        .reshape([batch, channels, ny * nx])
        .mean_dim(2)
        .mean_dim(0)
        .reshape([channels])
}

/// What one step of a rollout is run under and compared with.
#[derive(Clone, Debug)]
pub struct RolloutStep {
    /// `(batch, (history + 1) * boundary_vars, y, x)`.
    pub boundary: Tensor<4>,
    /// `(batch, (history + 1) * prognostic_vars, y, x)`.
    pub label: Tensor<4>,
}

/// The loss of a rollout.
#[derive(Clone, Debug)]
pub struct RolloutLoss {
    /// The mean over channels, `(1)`: call `backward` on it.
    pub total: Tensor<1>,
    /// The sum over steps for each channel, weighted, `(channel)`.
    pub per_channel: Tensor<1>,
}

impl RolloutLoss {
    /// From the loss of each channel, `(channel)`, already summed over steps.
    ///
    /// `weights` is one factor per channel, such as [`DynamicWeights::per_channel`].
    pub fn new(per_channel: Tensor<1>, weights: Option<Tensor<1>>) -> Self {
        let per_channel = match weights {
            Some(weights) => per_channel * weights,
            None => per_channel,
        };
        Self {
            total: per_channel.clone().mean(),
            per_channel,
        }
    }
}

impl Samudra {
    /// Rolls out over `steps` and compares every prediction with its label.
    ///
    /// Shapes and mask as in [`forward`](Self::forward). The errors of [`channel_mse`] are summed
    /// over steps, multiplied with `weights` (`(channel)`) if there are any, and averaged over
    /// channels.
    ///
    /// # Panics
    ///
    /// If there is no step, and as [`forward`](Self::forward).
    pub fn rollout_loss(
        &self,
        prognostic: Tensor<4>,
        steps: impl IntoIterator<Item = RolloutStep>,
        mask: Tensor<3, Bool>,
        weights: Option<Tensor<1>>,
    ) -> RolloutLoss {
        let mut rollout = Rollout::new(self, prognostic, mask.clone());
        let per_channel = steps
            .into_iter()
            .map(|RolloutStep { boundary, label }| {
                channel_mse(rollout.step(boundary), label, mask.clone())
            })
            .reduce(|sum, step| sum + step)
            .expect("a rollout has at least one step");
        RolloutLoss::new(per_channel, weights)
    }
}

/// How fast the weights follow: one part new in this many.
const MEMORY: f32 = 25.0;

/// What a loss of exactly zero counts as.
const SMALLEST_LOSS: f32 = 1e-8;

/// Weights that bring all variables to a loss of similar size.
///
/// One weight per prognostic variable, shared by the times of the history, one at the start.
/// After each batch the weights move 1/25 of the way towards the reciprocal of the variable's
/// single-step loss.
#[derive(Clone, Debug)]
pub struct DynamicWeights {
    /// `(prognostic_vars)`.
    weights: Tensor<1>,
    times: usize,
    limit: Option<f32>,
}

impl DynamicWeights {
    /// Weights of one. `limit` bounds the ratio of the largest to the smallest target.
    pub fn new(config: &SamudraConfig, limit: Option<f32>, device: &Device) -> Self {
        let ones = vec![1.0; config.prognostic_vars];
        Self {
            weights: from_values(&ones, device),
            times: config.times(),
            limit,
        }
    }

    /// Continues from [`values`](Self::values) of a checkpoint.
    ///
    /// # Panics
    ///
    /// If there is not one value per prognostic variable.
    #[must_use]
    pub fn with_values(self, values: &[f32]) -> Self {
        assert_eq!([values.len()], self.weights.dims(), "number of weights");
        Self {
            weights: from_values(values, &self.weights.device()),
            ..self
        }
    }

    /// One weight per channel, `((history + 1) * prognostic_vars)`.
    pub fn per_channel(&self) -> Tensor<1> {
        self.weights.clone().repeat(&[self.times])
    }

    /// One weight per variable.
    pub fn values(&self) -> Vec<f32> {
        self.weights.to_data().iter::<f32>().collect()
    }

    /// Moves the weights, after an optimiser step.
    ///
    /// `single_step` is the unweighted [`channel_mse`] of the first step,
    /// `((history + 1) * prognostic_vars)`, of the network as it is now, in training mode: the
    /// original runs an extra forward pass for it, which batch norm's running statistics see.
    pub fn update(&mut self, single_step: Tensor<1>) {
        let vars = self.weights.dims()[0];
        let loss = single_step.detach().without_autodiff();
        let loss = loss.clone().mask_fill(loss.equal_elem(0.0), SMALLEST_LOSS);
        let target = loss
            .recip()
            .reshape([self.times, vars])
            .mean_dim(0)
            .reshape([vars]);
        let target = match self.limit {
            Some(limit) => {
                let most = target.clone().min().mul_scalar(limit).expand([vars]);
                target.min_pair(most)
            }
            None => target,
        };
        let old = self.weights.clone().mul_scalar(MEMORY - 1.0);
        self.weights = (old + target).div_scalar(MEMORY);
    }
}

fn from_values(values: &[f32], device: &Device) -> Tensor<1> {
    let data = TensorData::new(values.to_vec(), [values.len()]);
    Tensor::from_data(data, (&device.clone().inner(), DType::F32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        Device::flex()
    }

    #[test]
    fn land_has_no_error_but_counts() {
        let prediction = Tensor::from_data([[[[1.0, 2.0]], [[3.0, f32::NAN]]]], &device());
        let target = Tensor::from_data([[[[0.0, 0.0]], [[0.0, 5.0]]]], &device());
        let mask = Tensor::from_data([[[true, true]], [[true, false]]], &device());
        let loss = channel_mse(prediction, target, mask).into_data();
        assert_eq!(loss.as_slice::<f32>().unwrap(), [2.5, 4.5]);
    }

    #[test]
    fn the_total_is_the_mean_over_channels() {
        let per_channel = Tensor::<1>::from_data([1.0, 3.0], &device());
        let weights = Tensor::<1>::from_data([2.0, 0.5], &device());
        let plain = RolloutLoss::new(per_channel.clone(), None);
        assert_eq!(plain.total.into_scalar::<f32>(), 2.0);
        let weighted = RolloutLoss::new(per_channel, Some(weights));
        assert_eq!(weighted.total.into_scalar::<f32>(), 1.75);
        let weighted = weighted.per_channel.into_data();
        assert_eq!(weighted.as_slice::<f32>().unwrap(), [2.0, 1.5]);
    }

    #[test]
    fn weights_move_a_25th_towards_the_reciprocal_loss() {
        let config = SamudraConfig::tiny(2, 0);
        let mut weights = DynamicWeights::new(&config, Some(3.0), &device());
        assert_eq!(weights.per_channel().dims(), [4]);
        // Means of 1 / loss over the two times: (1 + 3) / 2 = 2 and (10 + 10) / 2 = 10, and the
        // limit allows 3 * 2.
        let third = 1.0 / 3.0;
        weights.update(Tensor::from_data([1.0, 0.1, third, 0.1], &device()));
        let [first, second] = weights.values()[..] else {
            panic!()
        };
        assert!((first - 26.0 / 25.0).abs() < 1e-6, "{first}");
        assert!((second - 30.0 / 25.0).abs() < 1e-6, "{second}");
        let restored = DynamicWeights::new(&config, None, &device()).with_values(&[0.5, 2.0]);
        let channels = restored.per_channel().into_data();
        assert_eq!(channels.as_slice::<f32>().unwrap(), [0.5, 2.0, 0.5, 2.0]);
    }
}
