//! Noise on the first input, drawn on the device from the picks' keys.

use crate::augment::transform::Transform;
use crate::dataset::context::BatchContext;
use crate::device::batch::ModelBatch;
use crate::error::{Error, Result};
use crate::order::pick::Pick;
use crate::plan::roles::Role;
use burn::tensor::{DType, Device, Int, Tensor};

/// Adds independent, nearly normal noise to ocean cells of `input(0)`, in normalised units; so the
/// first step of a rollout starts beside the truth and has to come back. Land, boundaries and
/// labels (and with them the inputs of later steps) stay as they are.
///
/// Cell i of a pick's `(time*channel, y, x)` gets
/// `deviation * (u0 + u1 + u2 + u3 - 2 * 65535) / (65536 / sqrt(3))`, where the u are four 16-bit
/// numbers: i enciphered with the pick's key, twice (a Feistel network of six rounds). The sum has
/// mean 0, deviation 1 and ends at 3.46. Integers below 2^31 make it, so all devices draw the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    deviation: f32,
}

impl Noise {
    /// Noise of this standard deviation, in standard deviations of each channel.
    ///
    /// # Errors
    /// A deviation that is negative or not finite.
    pub fn new(deviation: f32) -> Result<Self> {
        if !deviation.is_finite() || deviation < 0.0 {
            return Err(Error::config("noise needs a deviation of at least 0").found(deviation));
        }
        Ok(Self { deviation })
    }
}

impl Transform for Noise {
    fn name(&self) -> String {
        format!("noise of {}", self.deviation)
    }

    fn check(&self, context: &BatchContext) -> Result<()> {
        if context.has_own_labels() {
            // A batch has the masks of labels, and only the surface's of inputs.
            return Err(Error::config(
                "noise needs inputs and labels from one store, whose masks are the same",
            ));
        }
        Ok(())
    }

    fn apply(&self, batch: ModelBatch, picks: &[Pick]) -> Result<ModelBatch> {
        let land = batch.label_mask().bool_not().unsqueeze::<4>();
        Ok(batch.map(|role, step, tensor| match (role, step) {
            (Role::Input, 0) => {
                let shape = tensor.dims();
                let cells = shape[1] * shape[2] * shape[3];
                let device = tensor.device();
                let each = picks.iter().map(|p| unit_noise(p.key, cells, &device));
                let noise = Tensor::cat(each.collect(), 0).reshape(shape);
                let noise = noise.mul_scalar(self.deviation).cast(tensor.dtype());
                tensor + noise.mask_fill(land.clone().expand(shape), 0.0)
            }
            _ => tensor,
        }))
    }
}

/// Of mean 0 and deviation 1.
fn unit_noise(key: u64, cells: usize, device: &Device) -> Tensor<1> {
    const SPREAD: f64 = 65536.0 / 1.732_050_807_568_877_2;
    let cells = Tensor::<1, Int>::arange(0..cells as i64, (device, DType::I32));
    let [a, b] = [0, 1].map(|half| {
        let [left, right] = encipher(cells.clone(), round_keys(key, half));
        left + right
    });
    let sum = (a + b).sub_scalar(2 * 65535);
    sum.float().cast(DType::F32).mul_scalar(1.0 / SPREAD)
}

const ROUNDS: usize = 6;
/// Odd, below 2^15: times a 16-bit number they stay below 2^31.
const FACTORS: [i32; ROUNDS] = [0x6255, 0x5bd1, 0x79b9, 0x4f6d, 0x6b2f, 0x735b];

/// Sixteen bits for each round of each half.
fn round_keys(key: u64, half: u64) -> [i32; ROUNDS] {
    let keys = |r: usize| {
        let word = key.rotate_left(11 * r as u32 + 32 * half as u32);
        ((word ^ (word >> 29) ^ half ^ ((r as u64) << 7)) & 0xffff) as i32
    };
    std::array::from_fn(keys)
}

/// Two 16-bit halves of a 32-bit block per cell.
fn encipher(cells: Tensor<1, Int>, keys: [i32; ROUNDS]) -> [Tensor<1, Int>; 2] {
    let mut left = cells.clone().bitwise_right_shift_scalar(16);
    let mut right = cells.bitwise_and_scalar(0xffff);
    for (key, factor) in keys.into_iter().zip(FACTORS) {
        let product = right.clone().bitwise_xor_scalar(key).mul_scalar(factor);
        let mixed = product
            .clone()
            .bitwise_right_shift_scalar(11)
            .bitwise_xor(product.bitwise_right_shift_scalar(3))
            .bitwise_and_scalar(0xffff);
        (left, right) = (right, left.bitwise_xor(mixed));
    }
    [left, right]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same without tensors.
    fn reference(key: u64, cell: i32) -> f32 {
        let half = |half| {
            let (mut left, mut right) = (cell >> 16, cell & 0xffff);
            for (key, factor) in round_keys(key, half).into_iter().zip(FACTORS) {
                let product = (right ^ key).checked_mul(factor).unwrap();
                let mixed = ((product >> 11) ^ (product >> 3)) & 0xffff;
                (left, right) = (right, left ^ mixed);
            }
            left + right
        };
        let sum = half(0) + half(1) - 2 * 65535;
        sum as f32 * (3.0_f64.sqrt() / 65536.0) as f32
    }

    fn drawn(key: u64, cells: usize) -> Vec<f32> {
        let noise = unit_noise(key, cells, &Device::flex());
        noise.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn tensors_draw_what_the_formula_says() {
        for key in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let found = drawn(key, 70_000);
            for (cell, found) in found.iter().enumerate() {
                assert_eq!(*found, reference(key, cell as i32), "{key:x} {cell}");
            }
        }
    }

    #[test]
    fn noise_is_centred_spread_and_independent() {
        let n = 40_000;
        let keys = [3, 4, 3 << 40, 0x9e37_79b9_7f4a_7c15];
        let draws: Vec<Vec<f32>> = keys.iter().map(|k| drawn(*k, n)).collect();
        let mean =
            |values: &mut dyn Iterator<Item = f32>| values.map(f64::from).sum::<f64>() / n as f64;
        for a in &draws {
            // Standard errors are 0.005 for the mean and 0.006 for the variance.
            assert!(mean(&mut a.iter().copied()).abs() < 0.025);
            assert!((mean(&mut a.iter().map(|v| v * v)) - 1.0).abs() < 0.03);
            assert!(a.iter().all(|v| v.abs() <= 3.4642));
            // Neighbours in x, in y on several grids, and in channels.
            for lag in [1, 2, 16, 180, 360, 4096] {
                let products = &mut (0..n).map(|i| a[i] * a[(i + lag) % n]);
                let correlation = mean(products);
                assert!(correlation.abs() < 0.03, "lag {lag}: {correlation}");
            }
        }
        for (i, a) in draws.iter().enumerate() {
            for b in &draws[..i] {
                let products = &mut a.iter().zip(b).map(|(a, b)| a * b);
                assert!(mean(products).abs() < 0.03, "keys draw alike");
            }
        }
    }
}
