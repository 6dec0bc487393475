//! The training loss: an error per channel, summed over a rollout, weighted or not.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};

use crate::config::SamudraConfig;
use crate::metric::{Metric, difference, gradient_error};
use crate::rollout::Rollout;
use crate::samudra::Samudra;
use serde::{Deserialize, Serialize};

/// The training loss, as the original's configuration names it.
///
/// A name alone, `{type: dynamic, metric, limit}` or `{type: gradient, metric, alpha}`:
///
/// ```
/// use samudra::{Loss, Metric};
///
/// let read = |text| serde_json::from_str::<Loss>(text).unwrap();
/// assert_eq!(read(r#""mse_mae""#), Loss::Plain(Metric::MseMae));
/// let dynamic = Loss::dynamic(Metric::Mse, Some(20.0));
/// assert_eq!(read(r#"{"type": "dynamic", "limit": 20}"#), dynamic);
/// let gradient = Loss::gradient(Metric::Mae, 0.1);
/// assert_eq!(read(r#"{"type": "gradient"}"#), gradient);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Loss {
    /// A metric as it is.
    Plain(Metric),
    /// A metric with more to it.
    Composed(Composed),
}

/// A loss made of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Composed {
    /// With [`DynamicWeights`] per variable.
    Dynamic {
        /// What is weighted.
        #[serde(default)]
        metric: Metric,
        /// Bound of the ratio of the largest to the smallest target; none by default.
        #[serde(default)]
        limit: Option<f32>,
    },
    /// `metric + alpha * g`, where g is the mean absolute error of the differences between
    /// neighbouring cells, averaged over both directions: around the globe along x, none beyond the
    /// last row along y.
    Gradient {
        /// The error of the values.
        #[serde(default = "mae")]
        metric: Metric,
        /// Weight of the differences.
        #[serde(default = "tenth")]
        alpha: f32,
    },
}

fn mae() -> Metric {
    Metric::Mae
}

fn tenth() -> f32 {
    0.1
}

impl Default for Loss {
    fn default() -> Self {
        Self::Plain(Metric::Mse)
    }
}

impl Loss {
    /// A metric with dynamic weights.
    pub fn dynamic(metric: Metric, limit: Option<f32>) -> Self {
        Self::Composed(Composed::Dynamic { metric, limit })
    }

    /// A metric and the error of spatial differences.
    pub fn gradient(metric: Metric, alpha: f32) -> Self {
        Self::Composed(Composed::Gradient { metric, alpha })
    }

    /// The error of every channel, unweighted, `(channel)`; arguments as in [`Metric::per_channel`].
    ///
    /// # Panics
    ///
    /// If the shapes differ.
    pub fn per_channel(
        &self,
        prediction: Tensor<4>,
        target: Tensor<4>,
        mask: Tensor<3, Bool>,
    ) -> Tensor<1> {
        let d = difference(prediction, target, mask);
        match *self {
            Self::Plain(metric) | Self::Composed(Composed::Dynamic { metric, .. }) => {
                metric.of_difference(d)
            }
            Self::Composed(Composed::Gradient { metric, alpha }) => {
                metric.of_difference(d.clone()) + gradient_error(d).mul_scalar(alpha)
            }
        }
    }

    /// The weights to begin with, where the loss has some.
    pub fn weights(&self, config: &SamudraConfig, device: &Device) -> Option<DynamicWeights> {
        match *self {
            Self::Composed(Composed::Dynamic { limit, .. }) => {
                Some(DynamicWeights::new(config, limit, device))
            }
            _ => None,
        }
    }
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
    /// Shapes and mask as in [`forward`](Self::forward). The errors of [`Loss::per_channel`] are summed
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
        loss: &Loss,
        weights: Option<Tensor<1>>,
    ) -> RolloutLoss {
        let mut rollout = Rollout::new(self, prognostic, mask.clone());
        let per_channel = steps
            .into_iter()
            .map(|RolloutStep { boundary, label }| {
                loss.per_channel(rollout.step(boundary), label, mask.clone())
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
    /// `single_step` is the unweighted [`Loss::per_channel`] of the first step,
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
    fn a_gradient_loss_adds_what_neighbours_differ_by() {
        let prediction = Tensor::<4>::from_data([[[[1.0, 4.0], [3.0, f32::NAN]]]], &device());
        let target = Tensor::<4>::zeros([1, 1, 2, 2], &device());
        let mask = Tensor::from_data([[[true, true], [true, false]]], &device());
        let loss = Loss::gradient(Metric::Mae, 0.1);
        let found = loss
            .per_channel(prediction, target, mask)
            .into_scalar::<f32>();
        // Along x 3 and 3, 3 and 3; along y 2 and 4.
        let expected = 8.0 / 4.0 + 0.1 * (12.0 / 4.0 + 6.0 / 4.0) / 2.0;
        assert!((found - expected).abs() < 1e-6, "{found}");
    }

    #[test]
    fn only_the_dynamic_loss_has_weights_and_unknown_keys_are_refused() {
        let config = SamudraConfig::tiny(2, 0);
        let weights = |loss: Loss| loss.weights(&config, &device()).map(|w| w.values());
        assert_eq!(weights(Loss::default()), None);
        assert_eq!(
            weights(Loss::dynamic(Metric::Mae, None)),
            Some(vec![1.0; 2])
        );
        for bad in [
            r#"{"type": "dynamic", "alpha": 1}"#,
            r#""rmse""#,
            r#"{"metric": "mse"}"#,
        ] {
            assert!(serde_json::from_str::<Loss>(bad).is_err(), "{bad}");
        }
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
