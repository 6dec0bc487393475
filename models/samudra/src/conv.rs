//! The convolution of the globe.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;

use crate::config::PointwiseKind;
use crate::cpu;
use crate::init::Init;
use crate::pad::wrap_longitude;
use crate::state_walk::{Slot, Visit};

/// A convolution with bias that keeps the grid's size: circular in longitude, zeros beyond the
/// first and last latitude.
#[derive(Module, Debug)]
pub(crate) struct Conv {
    /// `(out, in, k, k)`.
    weight: Param<Tensor<4>>,
    /// `(out)`.
    bias: Param<Tensor<1>>,
    dilation: usize,
    #[module(skip)]
    stored: Stored,
}

/// How a state dict holds the weight.
#[derive(Clone, Copy, Debug)]
enum Stored {
    /// `<layer>.weight`, four axes.
    Kernel,
    /// `<layer>.linear.weight`, two axes.
    Linear,
}

/// Size of a convolution.
pub(crate) struct ConvShape {
    pub channels_in: usize,
    pub channels_out: usize,
    pub kernel: usize,
    pub dilation: usize,
}

impl Conv {
    pub(crate) fn new(init: &Init<'_>, name: &str, shape: ConvShape) -> Self {
        let ConvShape {
            channels_in,
            channels_out,
            kernel,
            dilation,
        } = shape;
        let fan_in = channels_in * kernel * kernel;
        Self {
            weight: init.uniform(
                &format!("{name}.weight"),
                [channels_out, channels_in, kernel, kernel],
                fan_in,
            ),
            bias: init.uniform(&format!("{name}.bias"), [channels_out], fan_in),
            dilation,
            stored: Stored::Kernel,
        }
    }

    /// A 1 x 1 convolution: the same linear map at every cell.
    pub(crate) fn pointwise(
        init: &Init<'_>,
        name: &str,
        channels_in: usize,
        channels_out: usize,
        kind: PointwiseKind,
    ) -> Self {
        let shape = ConvShape {
            channels_in,
            channels_out,
            kernel: 1,
            dilation: 1,
        };
        Self {
            stored: match kind {
                PointwiseKind::Convolution => Stored::Kernel,
                PointwiseKind::Linear => Stored::Linear,
            },
            ..Self::new(init, name, shape)
        }
    }

    /// `(batch, in, y, x)` to `(batch, out, y, x)`.
    pub(crate) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        match cpu::serves(&x) {
            true => cpu::convolve(x, weight, bias, None, self.dilation),
            false => reference(x, weight, bias, self.dilation),
        }
    }

    /// [`forward`](Self::forward) of `x`, added to `skip` `(batch, out, y, x)`.
    pub(crate) fn forward_onto(&self, skip: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        if !cpu::serves(&x) {
            return skip + self.forward(x);
        }
        let (weight, bias) = (self.weight.val(), self.bias.val());
        cpu::convolve(x, weight, bias, Some(skip), self.dilation)
    }

    pub(crate) fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        let (prefix, weight) = match self.stored {
            Stored::Kernel => (name.to_string(), Slot::Kernel(&mut self.weight)),
            Stored::Linear => (format!("{name}.linear"), Slot::Matrix(&mut self.weight)),
        };
        visit(&format!("{prefix}.weight"), weight);
        visit(&format!("{prefix}.bias"), Slot::Vector(&mut self.bias));
    }
}

/// Burn's own operations: for every device, and what those for the CPU are compared with.
pub(crate) fn reference(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    dilation: usize,
) -> Tensor<4> {
    match weight.dims()[2] {
        1 => same_everywhere(x, weight, bias),
        _ => native(x, weight, bias, dilation),
    }
}

/// A 1 x 1 convolution as a matrix product, whose gradients are matrix products as well.
fn same_everywhere(x: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>) -> Tensor<4> {
    let [batch, channels_in, ny, nx] = x.dims();
    let channels_out = bias.dims()[0];
    let x = x.reshape([batch, channels_in, ny * nx]);
    let weight = weight.reshape([1, channels_out, channels_in]);
    let y = weight.matmul(x) + bias.reshape([1, channels_out, 1]);
    y.reshape([batch, channels_out, ny, nx])
}

/// Burn's convolution on wrapped rows.
///
/// Latitudes beyond the poles are the convolution's own zero padding, which costs no copy; only
/// the wrapped columns are written out. Corners are zero, as when rows are wrapped first and zeros
/// are put around them.
fn native(x: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>, dilation: usize) -> Tensor<4> {
    let reach = dilation * (weight.dims()[2] / 2);
    let options = ConvOptions::new([1, 1], [reach, 0], [dilation, dilation], 1);
    conv2d(wrap_longitude(x, reach), weight, Some(bias), options)
}
