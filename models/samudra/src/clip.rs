//! Clipping of gradients by their norm over the whole network.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::error::{Error, Result};

/// What PyTorch adds to the norm before it divides.
const EPSILON: f32 = 1e-6;

/// Scales all gradients so that their common norm is at most `max_norm`, in place, and returns
/// the norm they had.
///
/// Burn's own `GradientClippingConfig::Norm` clips every parameter by itself; the recipe, as
/// PyTorch's `clip_grad_norm_`, takes all of them as one vector. The norm is read back from the
/// device.
///
/// # Errors
///
/// [`Error::NonFiniteGradient`]; the gradients are unchanged then.
pub fn clip_total_norm<M: Module>(
    network: &M,
    gradients: &mut GradientsParams,
    max_norm: f32,
) -> Result<f32> {
    let mut squares = Squares {
        gradients,
        sum: None,
    };
    network.visit(&mut squares);
    let norm = match squares.sum {
        Some(sum) => sum.sqrt().into_scalar::<f32>(),
        None => 0.0,
    };
    if !norm.is_finite() {
        return Err(Error::NonFiniteGradient { norm });
    }
    let factor = max_norm / (norm + EPSILON);
    if factor < 1.0 {
        network.visit(&mut Scale { gradients, factor });
    }
    Ok(norm)
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    sum: Option<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else {
            return;
        };
        let square = (gradient.clone() * gradient).sum();
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + square,
            None => square,
        });
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f32,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients
                .register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    type Pair = (Param<Tensor<1>>, Param<Tensor<2>>);

    fn gradients(a: f32, b: f32) -> (Pair, GradientsParams) {
        let device = Device::flex();
        let pair = (
            Param::from_tensor(Tensor::zeros([1], &device)),
            Param::from_tensor(Tensor::zeros([1, 2], &device)),
        );
        let mut gradients = GradientsParams::new();
        gradients.register(pair.0.id, Tensor::<1>::from_data([a], &device));
        gradients.register(pair.1.id, Tensor::<2>::from_data([[b, 0.0]], &device));
        (pair, gradients)
    }

    fn first(pair: &Pair, gradients: &GradientsParams) -> f32 {
        gradients.get::<1>(pair.0.id).unwrap().into_scalar()
    }

    #[test]
    fn the_norm_is_taken_over_all_parameters() {
        let (pair, mut grads) = gradients(3.0, 4.0);
        assert_eq!(clip_total_norm(&pair, &mut grads, 1.0).unwrap(), 5.0);
        assert!((first(&pair, &grads) - 0.6).abs() < 1e-6);
        let norm = clip_total_norm(&pair, &mut grads, 1.0).unwrap();
        assert!((norm - 1.0).abs() < 1e-5, "{norm}");
    }

    #[test]
    fn small_gradients_stay_and_bad_ones_are_an_error() {
        let (pair, mut grads) = gradients(0.3, 0.4);
        clip_total_norm(&pair, &mut grads, 1.0).unwrap();
        assert_eq!(first(&pair, &grads), 0.3);
        let (pair, mut grads) = gradients(f32::INFINITY, 0.0);
        let error = clip_total_norm(&pair, &mut grads, 1.0).unwrap_err();
        assert!(matches!(error, Error::NonFiniteGradient { .. }));
    }
}
