//! The same convolution as a sum of matrix products, for small networks on a CPU.
//!
//! Burn's CPU backend computes the gradient of a convolution's weight as a convolution with a
//! kernel as large as the grid, which is slow for a few channels. Written as one matrix product per
//! kernel cell, with its input shifted by that cell, every gradient is a matrix product too: forward
//! and backward through a 3 x 3 convolution of 16 to 80 channels took 1.3 to 2 times less processor
//! time where it was measured (two x86-64 cores with AVX-512). At 128 channels the two were even, and
//! the native forward pass alone was faster.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;

use crate::pad::wrap_longitude;

/// Input channels from which the native convolution is used.
const MANY_CHANNELS: usize = 96;

/// Whether this way is the faster one.
///
/// Only the CPU backend was measured; others have kernels of their own for convolutions.
pub(crate) fn pays(x: &Tensor<4>) -> bool {
    x.dims()[1] < MANY_CHANNELS && x.device().inner() == burn::tensor::Device::flex()
}

/// Circular in longitude, zeros beyond the poles; `(batch, in, y, x)` to `(batch, out, y, x)`.
///
/// With the padded rows laid end to end, the input of kernel cell (r, c) begins
/// `dilation (r row + c)` values in, and is as long for every cell: a view, not a copy.
///
/// ```text
///  rows end to end   |w 0 0 0 e|w a b c e|w d e f e|w 0 0 0 e|w 0 ...
///  cell (0, 0)        ^--------------------->
///  cell (0, 1)          ^--------------------->
///  cell (1, 0)                  ^--------------------->
/// ```
///
/// Where a view runs across the end of a row the sum is meaningless; those columns are cut.
pub(crate) fn convolve(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    dilation: usize,
) -> Tensor<4> {
    let [batch, channels_in, ny, nx] = x.dims();
    let [channels_out, _, kernel, _] = weight.dims();
    let reach = dilation * (kernel / 2);
    let row = nx + 2 * reach;
    let rows = ny + 2 * reach + 1;
    // One row more than the kernel sees: the last view runs on into it.
    let x = wrap_longitude(x, reach)
        .pad([(reach, reach + 1), (0, 0)], PadMode::Constant(0.0))
        .reshape([batch, channels_in, rows * row]);
    // Cells first, so that each one's matrix is contiguous.
    let weight = weight.permute([2, 3, 0, 1]);
    let weight = weight.reshape([kernel * kernel, channels_out, channels_in]);

    let product = |cell: usize| {
        let start = dilation * (cell / kernel * row + cell % kernel);
        let weight = weight.clone().narrow(0, cell, 1);
        weight.matmul(x.clone().narrow(2, start, ny * row))
    };
    let sum = (1..kernel * kernel).fold(product(0), |sum, cell| sum + product(cell));
    (sum + bias.reshape([1, channels_out, 1]))
        .reshape([batch, channels_out, ny, row])
        .narrow(3, 0, nx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::native;
    use burn::tensor::{Device, TensorData};

    fn waves<const D: usize>(shape: [usize; D], frequency: f32) -> Tensor<D> {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i as f32 * frequency).sin()).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    #[test]
    fn it_is_the_native_convolution() {
        for (kernel, dilation, ny, nx) in [(3, 1, 5, 7), (3, 2, 4, 6), (5, 1, 1, 2), (3, 4, 3, 4)] {
            let x = waves([2, 3, ny, nx], 0.7);
            let weight = waves([4, 3, kernel, kernel], 1.3);
            let bias = waves([4], 2.1);
            let native = native(x.clone(), weight.clone(), bias.clone(), dilation);
            let difference = convolve(x, weight, bias, dilation) - native;
            let worst = difference.abs().max().into_scalar::<f32>();
            assert!(worst < 1e-5, "kernel {kernel} dilation {dilation}: {worst}");
        }
    }
}
