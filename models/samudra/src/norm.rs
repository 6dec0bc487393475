//! Normalisation and the activation after it: batch norm with PyTorch's running variance, instance
//! norm, and the capped GELU.

use std::f32::consts::FRAC_1_SQRT_2;

use burn::module::{Flag, Module, Param, RunningState};
use burn::tensor::module::{batch_norm, batch_norm_train};
use burn::tensor::{DType, Tensor};

use crate::config::NormKind;
use crate::cpu::{self, NormGelu};
use crate::init::Init;
use crate::state_walk::{Constant, Slot, Visit};

const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

/// The normalisation of a block.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "all blocks of a network have the same variant, and there are a dozen"
)]
pub(crate) enum Norm {
    Batch(BatchNorm),
    Instance(InstanceNorm),
}

impl Norm {
    pub(crate) fn new(init: &Init<'_>, channels: usize, kind: NormKind) -> Self {
        match kind {
            NormKind::Batch => Self::Batch(BatchNorm::new(init, channels)),
            NormKind::Instance => Self::Instance(InstanceNorm { epsilon: EPSILON }),
        }
    }

    /// The norm, and the erf GELU of it, at most `cap`. `(batch, channel, y, x)`, same shape out.
    pub(crate) fn forward_gelu(&self, x: Tensor<4>, cap: f32) -> Tensor<4> {
        match self {
            Self::Batch(norm) => norm.forward_gelu(x, cap),
            Self::Instance(norm) => norm.forward_gelu(x, cap),
        }
    }

    pub(crate) fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        if let Self::Batch(norm) = self {
            norm.slots(name, visit);
        }
    }
}

/// Batch normalisation whose running variance follows PyTorch.
///
/// `burn::nn::BatchNorm` 0.22.1 feeds the biased batch variance to its running variance; PyTorch
/// feeds the unbiased one, n / (n - 1) larger. Trained at coarse levels, where n is small, the
/// two evaluate differently. In all else this is Burn's: statistics of the batch on an autodiff
/// device while training is on, the running ones otherwise.
///
/// One value per channel (one sample, at a level of one cell) has no variance, unbiased it is 0 / 0:
/// the running statistics stay as they were then. PyTorch refuses such a batch.
#[derive(Module, Debug)]
pub(crate) struct BatchNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    running_mean: RunningState<Tensor<1>>,
    running_var: RunningState<Tensor<1>>,
    training: Param<Flag>,
}

impl BatchNorm {
    fn new(init: &Init<'_>, channels: usize) -> Self {
        let options = (init.device(), DType::F32);
        Self {
            gamma: init.constant([channels], 1.0),
            beta: init.constant([channels], 0.0),
            running_mean: RunningState::new(Tensor::zeros([channels], options)),
            running_var: RunningState::new(Tensor::ones([channels], options)),
            training: Param::from_bool(true),
        }
    }

    fn forward_gelu(&self, x: Tensor<4>, cap: f32) -> Tensor<4> {
        match x.device().is_autodiff() && self.training.is_enabled() {
            true => self.forward_train(x, cap),
            false => self.forward_eval(x, cap),
        }
    }

    fn forward_eval(&self, x: Tensor<4>, cap: f32) -> Tensor<4> {
        let (gamma, beta) = (self.gamma.val(), self.beta.val());
        let (mean, variance) = (self.running_mean.value(), self.running_var.value());
        if cpu::serves(&x) && !x.device().is_autodiff() {
            return cpu::norm_gelu_with(x, [gamma, beta, mean, variance], EPSILON, cap);
        }
        capped_gelu(batch_norm(x, gamma, beta, mean, variance, EPSILON), cap)
    }

    fn forward_train(&self, x: Tensor<4>, cap: f32) -> Tensor<4> {
        let [batch, _, ny, nx] = x.dims();
        let n = (batch * ny * nx) as f64;
        let result = train(x, self.gamma.val(), self.beta.val(), EPSILON, cap);
        if n < 2.0 {
            return result.output;
        }
        let unbiased = result.variance.mul_scalar(n / (n - 1.0));
        follow(&self.running_mean, result.mean);
        follow(&self.running_var, unbiased);
        result.output
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        visit(&format!("{name}.weight"), Slot::Vector(&mut self.gamma));
        visit(&format!("{name}.bias"), Slot::Vector(&mut self.beta));
        visit(
            &format!("{name}.running_mean"),
            Slot::Running(&mut self.running_mean),
        );
        visit(
            &format!("{name}.running_var"),
            Slot::Running(&mut self.running_var),
        );
        visit(
            &format!("{name}.num_batches_tracked"),
            Slot::Constant(Constant::BatchCounter),
        );
    }
}

fn follow(state: &RunningState<Tensor<1>>, batch: Tensor<1>) {
    let old = state.value_sync().mul_scalar(1.0 - MOMENTUM);
    state.update((old + batch.mul_scalar(MOMENTUM)).detach());
}

/// Instance normalisation without learned parameters: each plane to mean 0 and variance 1.
#[derive(Module, Debug)]
pub(crate) struct InstanceNorm {
    epsilon: f64,
}

impl InstanceNorm {
    /// The batch norm of one sample whose channels are all planes: one fused operation, one
    /// fused gradient.
    fn forward_gelu(&self, x: Tensor<4>, cap: f32) -> Tensor<4> {
        let [batch, channels, ny, nx] = x.dims();
        let planes = batch * channels;
        let options = (&x.device(), x.dtype());
        let gamma = Tensor::ones([planes], options);
        let beta = Tensor::zeros([planes], options);
        let x = x.reshape([1, planes, ny, nx]);
        train(x, gamma, beta, self.epsilon, cap)
            .output
            .reshape([batch, channels, ny, nx])
    }
}

/// Normalises with the statistics of `x`, and activates.
fn train(x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64, cap: f32) -> NormGelu {
    match cpu::serves(&x) {
        true => cpu::norm_gelu(x, gamma, beta, epsilon, cap),
        false => reference(x, gamma, beta, epsilon, cap),
    }
}

/// Burn's own operations: for every device, and what those for the CPU are compared with.
pub(crate) fn reference(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    cap: f32,
) -> NormGelu {
    let result = batch_norm_train(x, gamma, beta, epsilon);
    NormGelu {
        output: capped_gelu(result.output, cap),
        mean: result.mean,
        variance: result.variance,
    }
}

/// The erf GELU up to a cap.
///
/// Burn 0.22.1 gives its own GELU the gradient of the tanh approximation on GPUs, up to 9e-4 off;
/// made of `erf` it has its own.
fn capped_gelu(x: Tensor<4>, cap: f32) -> Tensor<4> {
    let phi = (x.clone() * FRAC_1_SQRT_2).erf() * 0.5 + 0.5;
    (x * phi).clamp_max(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    fn input(device: &Device) -> Tensor<4> {
        let values: Vec<f32> = (0..12).map(|i| (i * i) as f32).collect();
        Tensor::from_data(TensorData::new(values, [1, 2, 2, 3]), device)
    }

    fn vec<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn the_running_variance_is_unbiased() {
        let device = Device::flex().autodiff();
        let mut norm = Norm::new(&Init::new(0, &device), 2, NormKind::Batch);
        norm.forward_gelu(input(&device), 10.0);
        let mut seen = Vec::new();
        norm.slots("n", &mut |name, slot| {
            if name == "n.running_var" {
                seen = slot.get().try_into_vec::<f32>().unwrap();
            }
        });
        // Squares of 0..=5: mean 55/6, sum of squares 979, so the unbiased variance is
        // (979 - 6 (55/6)^2) / 5; running = 0.9 + 0.1 of it.
        let expected = 0.9 + 0.1 * (979.0 - 55.0 * 55.0 / 6.0) / 5.0;
        assert!((seen[0] - expected as f32).abs() < 1e-4, "{seen:?}");
    }

    #[test]
    fn one_value_per_channel_leaves_the_running_statistics() {
        let device = Device::flex().autodiff();
        let norm = BatchNorm::new(&Init::new(0, &device), 2);
        let state = || [&norm.running_mean, &norm.running_var].map(|s| vec(s.value_sync()));
        let one = Tensor::<4>::from_data([[[[3.0]], [[-7.0]]]], &device);
        let output = vec(norm.forward_gelu(one, 10.0));
        assert_eq!(output, [0.0, 0.0], "what beta says");
        assert_eq!(state(), [vec![0.0, 0.0], vec![1.0, 1.0]]);
        // Two values have a variance: (3 - 5)^2 + (7 - 5)^2 over 1.
        let two = Tensor::<4>::from_data([[[[3.0, 7.0]], [[1.0, 1.0]]]], &device);
        norm.forward_gelu(two, 10.0);
        assert_eq!(state(), [vec![0.5, 0.1], vec![0.9 + 0.8, 0.9]]);
    }

    #[test]
    fn evaluation_uses_the_running_statistics_and_leaves_them() {
        let device = Device::flex();
        let norm = Norm::new(&Init::new(0, &device), 2, NormKind::Batch);
        let x = input(&device);
        let once = vec(norm.forward_gelu(x.clone(), 10.0));
        assert_eq!(once, vec(norm.forward_gelu(x.clone(), 10.0)));
        let expected = capped_gelu(x / (1.0 + EPSILON as f32).sqrt(), 10.0);
        for (y, expected) in once.iter().zip(vec(expected)) {
            assert!((y - expected).abs() < 1e-5, "{y} {expected}");
        }
    }

    #[test]
    fn instance_norm_levels_every_plane() {
        let device = Device::flex();
        let mut norm = Norm::new(&Init::new(0, &device), 2, NormKind::Instance);
        let planes = vec(input(&device));
        let levelled = planes.chunks(6).flat_map(|plane| {
            let mean = plane.iter().sum::<f32>() / 6.0;
            let square = plane.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 6.0;
            plane.iter().map(move |v| (v - mean) / square.sqrt())
        });
        let levelled = TensorData::new(levelled.collect::<Vec<f32>>(), [1, 2, 2, 3]);
        let expected = vec(capped_gelu(Tensor::from_data(levelled, &device), 10.0));
        let y = vec(norm.forward_gelu(input(&device), 10.0));
        for (y, expected) in y.iter().zip(expected) {
            assert!((y - expected).abs() < 1e-5, "{y} {expected}");
        }
        norm.slots("n", &mut |name, _| panic!("{name} should not be there"));
    }

    #[test]
    fn the_activation_is_the_erf_gelu_with_a_cap() {
        let x = Tensor::<1>::from_data([-1.0, 0.0, 1.0, 9.0, 30.0], &Device::flex());
        let y = vec(capped_gelu(x.reshape([1, 1, 1, 5]), 10.0));
        // x Phi(x), with Phi(1) = 0.841344746...
        for (y, expected) in y.iter().zip([-0.158_655_26, 0.0, 0.841_344_7, 9.0, 10.0]) {
            assert!((y - expected).abs() < 1e-6, "{y} {expected}");
        }
    }

    /// Without a sum: software Vulkan has none to rely on.
    #[cfg(feature = "vulkan")]
    #[test]
    fn the_activation_has_its_own_gradient_on_a_gpu() {
        let list = || Device::enumerate(burn::tensor::DeviceType::Vulkan).into_vec();
        let devices = std::panic::catch_unwind(list).unwrap_or_default();
        let Some(vulkan) = devices.into_iter().next() else {
            assert!(std::env::var_os("CI").is_none(), "no Vulkan device in CI");
            eprintln!("skipped: no Vulkan device");
            return;
        };
        let places: Vec<f32> = (-600..=1100).map(|i| i as f32 / 100.0).collect();
        let on = |device: Device| {
            let places = TensorData::new(places.clone(), [1, 1, 1, places.len()]);
            let x = Tensor::<4>::from_data(places, &device.autodiff()).require_grad();
            let y = capped_gelu(x.clone(), 10.0);
            let gradients = y.backward();
            [vec(y.inner()), vec(x.grad(&gradients).unwrap())].concat()
        };
        let expected = on(Device::flex());
        for (found, expected) in on(vulkan).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}
