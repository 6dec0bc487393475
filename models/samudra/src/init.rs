//! First values of the parameters: PyTorch's defaults, from a seed.
//!
//! Each parameter draws from a generator of its own, seeded by (seed, name), so that its values
//! depend neither on the order in which parameters are built nor on threads. Parameters are
//! lazy: a network whose weights are loaded at once never fills them in first.

use burn::module::{Param, ParamId};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Builds parameters on a device.
pub(crate) struct Init<'a> {
    seed: u64,
    device: &'a Device,
}

impl<'a> Init<'a> {
    pub(crate) fn new(seed: u64, device: &'a Device) -> Self {
        Self { seed, device }
    }

    pub(crate) fn device(&self) -> &Device {
        self.device
    }

    /// Weight or bias of a layer whose outputs each sum `fan_in` products.
    ///
    /// PyTorch draws weights from `kaiming_uniform(a = sqrt(5))`, whose bound is
    /// `sqrt(6 / ((1 + a^2) fan_in)) = 1 / sqrt(fan_in)`, and biases from the same interval.
    pub(crate) fn uniform<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        fan_in: usize,
    ) -> Param<Tensor<D>> {
        let bound = 1.0 / (fan_in as f64).sqrt();
        let mut random = Random::new(self.seed, name);
        self.lazy(shape, move |_| bound * (2.0 * random.unit() - 1.0))
    }

    /// Normal values of mean 0.
    pub(crate) fn normal<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        std: f64,
    ) -> Param<Tensor<D>> {
        let mut random = Random::new(self.seed, name);
        self.lazy(shape, move |_| std * random.normal())
    }

    pub(crate) fn constant<const D: usize>(
        &self,
        shape: [usize; D],
        value: f32,
    ) -> Param<Tensor<D>> {
        self.lazy(shape, move |_| f64::from(value))
    }

    fn lazy<const D: usize>(
        &self,
        shape: [usize; D],
        value: impl FnMut(usize) -> f64 + Send + Sync + 'static,
    ) -> Param<Tensor<D>> {
        let init = move |device: &Device, require_grad: bool| {
            let mut value = value;
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|i| value(i) as f32).collect();
            Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
                .set_require_grad(require_grad)
        };
        Param::uninitialized(
            ParamId::new(),
            init,
            self.device.clone(),
            true,
            shape.into(),
        )
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
struct Random {
    state: u64,
}

impl Random {
    fn new(seed: u64, name: &str) -> Self {
        // FNV-1a keeps names apart; the generator's own mixing does the rest.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut random = Self { state: seed };
        random.state = random.next() ^ hash;
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
        param.val().into_data().try_into_vec().unwrap()
    }

    #[test]
    fn uniform_fills_its_interval() {
        let device = Device::flex();
        let values = values(&Init::new(7, &device).uniform("w", [40, 16, 3, 3], 144));
        let bound = 1.0 / 12.0;
        assert!(values.iter().all(|v| v.abs() <= bound));
        let n = values.len() as f32;
        let mean = values.iter().sum::<f32>() / n;
        let variance = values.iter().map(|v| v * v).sum::<f32>() / n;
        assert!(mean.abs() < 0.03 * bound, "{mean}");
        let expected = bound * bound / 3.0;
        assert!((variance / expected - 1.0).abs() < 0.05, "{variance}");
        assert!(values.iter().any(|v| *v > 0.98 * bound));
    }

    #[test]
    fn normal_values_have_their_deviation() {
        let device = Device::flex();
        let values = values(&Init::new(7, &device).normal("p", [2, 40, 50], 1e-5));
        let n = values.len() as f32;
        let variance = values.iter().map(|v| v * v).sum::<f32>() / n;
        assert!((variance.sqrt() / 1e-5 - 1.0).abs() < 0.05, "{variance}");
        let beyond = values.iter().filter(|v| v.abs() > 2e-5).count() as f32 / n;
        assert!((beyond - 0.0455).abs() < 0.015, "{beyond}");
    }

    #[test]
    fn values_depend_on_seed_and_name_only() {
        let device = Device::flex();
        let first = values(&Init::new(1, &device).uniform("a", [8], 4));
        assert_eq!(first, values(&Init::new(1, &device).uniform("a", [8], 4)));
        assert_ne!(first, values(&Init::new(2, &device).uniform("a", [8], 4)));
        assert_ne!(first, values(&Init::new(1, &device).uniform("b", [8], 4)));
    }
}
