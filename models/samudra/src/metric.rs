//! How wrong a prediction is, per channel: the original's losses.

use burn::tensor::{Bool, Tensor};
use serde::{Deserialize, Serialize};

/// A measure of error per channel.
///
/// With `d` the difference of prediction and target, 0 where a cell does not count, and the mean over
/// batch, y and x, **cells that do not count included**: a channel with more land has a smaller loss. No
/// weight by area or latitude.
///
/// ```text
///  mse                mean d^2
///  mae                mean |d|
///  mse_mae            mean (d^2 + |d|) / 2
///  mse_diff_weighted  mean d^2 of channel 0; of channel c > 0: mean 2 (d[c] - d[c-1])^2
/// ```
///
/// As `loss_fn_from_metric` of the original; the last one compares neighbouring channels in the order of
/// the tensor, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean squared error.
    #[default]
    Mse,
    /// Mean absolute error.
    Mae,
    /// The mean of both.
    MseMae,
    /// Squared differences between neighbouring channels.
    MseDiffWeighted,
}

/// What `mse_diff_weighted` multiplies the differences of channels by.
const DIFFERENCE_WEIGHT: f32 = 2.0;

impl Metric {
    /// The error of every channel, `(channel)`.
    ///
    /// - `prediction`, `target`: `(batch, channel, y, x)`.
    /// - `mask`: `(channel, y, x)`, true where a cell counts. What is elsewhere does not matter, NaN
    ///   included.
    ///
    /// # Panics
    ///
    /// If the shapes differ.
    pub fn per_channel(
        self,
        prediction: Tensor<4>,
        target: Tensor<4>,
        mask: Tensor<3, Bool>,
    ) -> Tensor<1> {
        self.of_difference(difference(prediction, target, mask))
    }

    /// The same of a difference that is 0 where a cell does not count.
    pub(crate) fn of_difference(self, d: Tensor<4>) -> Tensor<1> {
        let squared = |d: Tensor<4>| d.clone() * d;
        channel_means(match self {
            Self::Mse => squared(d),
            Self::Mae => d.abs(),
            Self::MseMae => (squared(d.clone()) + d.abs()).mul_scalar(0.5),
            Self::MseDiffWeighted => {
                let first = squared(d.clone().narrow(1, 0, 1));
                match d.dims()[1] {
                    1 => first,
                    n => {
                        let step = d.clone().narrow(1, 1, n - 1) - d.narrow(1, 0, n - 1);
                        let rest = squared(step).mul_scalar(DIFFERENCE_WEIGHT);
                        Tensor::cat(vec![first, rest], 1)
                    }
                }
            }
        })
    }
}

/// Prediction less target, `(batch, channel, y, x)`, 0 where `mask` is false.
///
/// It is filled, not multiplied, with zero, so that a NaN on land in either tensor does not get into the
/// loss.
pub(crate) fn difference(
    prediction: Tensor<4>,
    target: Tensor<4>,
    mask: Tensor<3, Bool>,
) -> Tensor<4> {
    let dims = prediction.dims();
    assert_eq!(target.dims(), dims, "shape of the target");
    let outside = mask.bool_not().unsqueeze::<4>().expand(dims);
    (prediction - target).mask_fill(outside, 0.0)
}

/// How wrong the spatial gradients are, per channel: the mean absolute difference of forward
/// differences along y (none beyond the last row) and along x (the last column's is with the first),
/// averaged over both.
pub(crate) fn gradient_error(d: Tensor<4>) -> Tensor<1> {
    let [_, channels, ny, nx] = d.dims();
    let cells = (ny * nx) as f32;
    let east = Tensor::cat(
        vec![d.clone().narrow(3, 1, nx - 1), d.clone().narrow(3, 0, 1)],
        3,
    );
    let along_x = channel_means((east - d.clone()).abs());
    if ny < 2 {
        return along_x.mul_scalar(0.5);
    }
    let along_y = (d.clone().narrow(2, 1, ny - 1) - d.narrow(2, 0, ny - 1)).abs();
    // The mean is over all rows, the one without a difference too.
    let share = ((ny - 1) * nx) as f32 / cells;
    let along_y = channel_means(along_y).mul_scalar(share);
    (along_x + along_y).mul_scalar(0.5).reshape([channels])
}

/// Means over batch, y and x of `(batch, channel, y, x)`.
fn channel_means(values: Tensor<4>) -> Tensor<1> {
    let [batch, channels, ny, nx] = values.dims();
    values
        .reshape([batch, channels, ny * nx])
        .mean_dim(2)
        .mean_dim(0)
        .reshape([channels])
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn device() -> Device {
        Device::flex()
    }

    #[test]
    fn land_has_no_error_but_counts() {
        let prediction = Tensor::from_data([[[[1.0, 2.0]], [[3.0, f32::NAN]]]], &device());
        let target = Tensor::from_data([[[[0.0, 0.0]], [[0.0, 5.0]]]], &device());
        let mask = Tensor::from_data([[[true, true]], [[true, false]]], &device());
        let expected = [
            (Metric::Mse, [2.5, 4.5]),
            (Metric::Mae, [1.5, 1.5]),
            (Metric::MseMae, [2.0, 3.0]),
            // Differences of channels: 3 - 1 and 0 - 2.
            (Metric::MseDiffWeighted, [2.5, 8.0]),
        ];
        for (metric, expected) in expected {
            let found = metric.per_channel(
                Tensor::clone(&prediction),
                Tensor::clone(&target),
                Tensor::clone(&mask),
            );
            let found = found.into_data();
            assert_eq!(found.as_slice::<f32>().unwrap(), expected, "{metric:?}");
        }
    }

    #[test]
    fn gradients_are_compared_around_the_globe_and_not_beyond_the_poles() {
        // Rows 1 4 / 3 3: along x 3, -3 (around) and 0, 0; along y 2, -1 and none.
        let d = Tensor::from_data([[[[1.0, 4.0], [3.0, 3.0]]]], &device());
        let found = gradient_error(d).into_scalar::<f32>();
        assert_eq!(found, 0.5 * (6.0 / 4.0 + 3.0 / 4.0));
        let row = Tensor::from_data([[[[1.0, 4.0]]]], &device());
        assert_eq!(gradient_error(row).into_scalar::<f32>(), 1.5);
    }

    #[test]
    fn names_are_the_original_s() {
        let names = ["mse", "mae", "mse_mae", "mse_diff_weighted"];
        let all = [
            Metric::Mse,
            Metric::Mae,
            Metric::MseMae,
            Metric::MseDiffWeighted,
        ];
        for (name, metric) in std::iter::zip(names, all) {
            let read: Metric = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            assert_eq!(read, metric);
        }
    }
}
