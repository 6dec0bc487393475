//! The network's operations on a CPU, where Burn's own spend most of their time in memory.
//!
//! ```text
//!  conv.rs, norm.rs  of the crate: Burn's operations, for every device and as the reference
//!        |  on a CPU, float32
//!        v
//!  operations        what Burn and its autodiff see: values and gradients
//!   |          |
//!  convolution norm (with gelu)     plain slices, in parallel
//!        \     /
//!   matrix, memory                  products and blocks; pages that stay
//! ```

mod convolution;
mod gelu;
mod matrix;
mod memory;
mod norm;
mod operations;

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Tensor};

pub use memory::keep_freed_memory;
use operations::{EvaluationOps, GlobeOps};

/// Whether the operations below serve this tensor, on a CPU device or on its autodiff.
pub(crate) fn serves(x: &Tensor<4>) -> bool {
    x.dtype() == DType::F32 && x.device().inner() == Device::flex()
}

/// `x` `(batch, in, y, x)`, `weight` `(out, in, k, k)` with an odd k, `bias` `(out)`, to
/// `(batch, out, y, x)`: circular in longitude, zeros beyond the poles. `onto`, if any, is added.
///
/// # Panics
///
/// If shapes differ, or a row has fewer columns than the kernel reaches to a side.
pub(crate) fn convolve(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    onto: Option<Tensor<4>>,
    dilation: usize,
) -> Tensor<4> {
    let (x, weight, bias) = (
        x.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
    );
    Tensor::from_dispatch(match onto {
        None => <Dispatch as GlobeOps>::globe_convolution(x, weight, bias, dilation),
        Some(onto) => {
            let onto = onto.into_dispatch();
            <Dispatch as GlobeOps>::globe_convolution_onto(x, weight, bias, onto, dilation)
        }
    })
}

/// What [`norm_gelu`] returns.
pub(crate) struct NormGelu {
    /// `(batch, channel, y, x)`.
    pub output: Tensor<4>,
    /// `(channel)`, without a gradient.
    pub mean: Tensor<1>,
    /// `(channel)`, biased, without a gradient.
    pub variance: Tensor<1>,
}

/// Batch norm with the statistics of `x` `(batch, channel, y, x)`, and the erf GELU of it, at most
/// `cap`. `gamma` and `beta` are `(channel)`.
pub(crate) fn norm_gelu(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    cap: f32,
) -> NormGelu {
    let (output, mean, variance) = <Dispatch as GlobeOps>::norm_gelu(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        epsilon,
        cap,
    );
    NormGelu {
        output: Tensor::from_dispatch(output),
        mean: Tensor::from_dispatch(mean),
        variance: Tensor::from_dispatch(variance),
    }
}

/// The same with given `mean` and `variance`, both `(channel)`, on a device without autodiff.
pub(crate) fn norm_gelu_with(
    x: Tensor<4>,
    [gamma, beta, mean, variance]: [Tensor<1>; 4],
    epsilon: f64,
    cap: f32,
) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as EvaluationOps>::norm_gelu_with(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        mean.into_dispatch(),
        variance.into_dispatch(),
        epsilon,
        cap,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{conv, norm};
    use burn::tensor::TensorData;

    /// Values between -1 and 1 without a pattern.
    fn noise<const D: usize>(shape: [usize; D], seed: u32) -> Tensor<D> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        let device = Device::flex().autodiff();
        Tensor::from_data(TensorData::new(values, shape), &device).require_grad()
    }

    fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    /// Gradients of a loss that weighs every output differently, after the output itself.
    fn outcome(
        run: impl Fn(Tensor<4>, Tensor<4>, [Tensor<1>; 2]) -> Tensor<4>,
        (x, weight, vectors): (Tensor<4>, Tensor<4>, [Tensor<1>; 2]),
    ) -> Vec<Vec<f32>> {
        let output = run(x.clone(), weight.clone(), vectors.clone());
        let weights = noise(output.dims(), 99).detach();
        let gradients = (output.clone() * weights).sum().backward();
        let [first, second] = vectors.map(|vector| vector.grad(&gradients).map(values));
        let of = |x: Tensor<4>| x.grad(&gradients).map(values);
        let gradients = [of(x), of(weight), first, second];
        [values(output)]
            .into_iter()
            .chain(gradients.into_iter().flatten())
            .collect()
    }

    fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>], tolerance: f32, case: &str) {
        assert_eq!(found.len(), expected.len());
        for (part, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.len(), expected.len());
            let largest = expected.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
            for (f, e) in found.iter().zip(expected) {
                let near = (f - e).abs() <= tolerance * largest;
                assert!(
                    near,
                    "{case}, part {part}: {f} for {e} of at most {largest}"
                );
            }
        }
    }

    struct Case {
        batch: usize,
        channels: [usize; 2],
        grid: [usize; 2],
        kernel: usize,
        dilation: usize,
        tolerance: f32,
    }

    const fn case(batch: usize, channels: [usize; 2], grid: [usize; 2]) -> Case {
        Case {
            batch,
            channels,
            grid,
            kernel: 3,
            dilation: 1,
            tolerance: 2e-6,
        }
    }

    impl Case {
        const fn kernel(self, kernel: usize, dilation: usize) -> Self {
            Self {
                kernel,
                dilation,
                ..self
            }
        }

        /// Sums over so many cells that their order is seen.
        const fn long(self) -> Self {
            Self {
                tolerance: 2e-5,
                ..self
            }
        }

        fn name(&self) -> String {
            let [ny, nx] = self.grid;
            let (kernel, dilation) = (self.kernel, self.dilation);
            format!(
                "{:?} on {ny} x {nx}, kernel {kernel}, dilation {dilation}",
                self.channels
            )
        }

        fn input(&self) -> Tensor<4> {
            noise(
                [self.batch, self.channels[0], self.grid[0], self.grid[1]],
                1,
            )
        }

        fn inputs(&self) -> (Tensor<4>, Tensor<4>, [Tensor<1>; 2]) {
            let ([input, output], kernel) = (self.channels, self.kernel);
            let weight = noise([output, input, kernel, kernel], 2);
            (self.input(), weight, [noise([output], 3), noise([1], 4)])
        }
    }

    const CONVOLUTIONS: [Case; 15] = [
        case(1, [1, 1], [1, 3]),
        case(1, [1, 1], [5, 1]),
        case(2, [3, 4], [5, 7]),
        case(1, [5, 2], [4, 6]).kernel(3, 2),
        case(1, [3, 4], [3, 4]).kernel(3, 4),
        case(2, [2, 3], [1, 2]).kernel(5, 1),
        case(1, [2, 3], [9, 8]).kernel(5, 2),
        case(1, [17, 70], [6, 5]),
        case(3, [4, 5], [4, 5]).kernel(1, 1),
        case(1, [1, 2], [1, 1]).kernel(1, 1),
        // Several tiles that share a slab.
        case(2, [3, 66], [90, 60]).kernel(3, 4),
        // A slab for every tile, the last one of fewer rows.
        case(1, [2, 3], [66, 1500]).long(),
        case(2, [2, 3], [67, 800]).kernel(3, 2).long(),
        case(1, [1, 2], [66, 700]).kernel(5, 1).long(),
        case(1, [2, 3], [66, 1500]).kernel(1, 1).long(),
    ];

    #[test]
    fn a_convolution_and_its_gradients_are_those_of_burns_operations() {
        for case in &CONVOLUTIONS {
            let dilation = case.dilation;
            let found = outcome(
                |x, weight, [bias, _]| convolve(x, weight, bias, None, dilation),
                case.inputs(),
            );
            let expected = outcome(
                |x, weight, [bias, _]| conv::reference(x, weight, bias, dilation),
                case.inputs(),
            );
            assert_eq!(found.len(), 4);
            assert_near(&found, &expected, case.tolerance, &case.name());
        }
    }

    #[test]
    fn a_convolution_is_added_to_what_is_there() {
        let case = case(2, [3, 3], [5, 7]);
        // The input is what is added to as well, as in a block.
        let found = outcome(
            |x, weight, [bias, _]| convolve(x.clone(), weight, bias, Some(x), 2),
            case.inputs(),
        );
        let expected = outcome(
            |x, weight, [bias, _]| x.clone() + conv::reference(x, weight, bias, 2),
            case.inputs(),
        );
        assert_near(&found, &expected, case.tolerance, "onto");
    }

    #[test]
    fn views_of_other_tensors_are_taken_as_they_are() {
        let case = case(2, [6, 3], [5, 6]);
        let view = |x: Tensor<4>| x.swap_dims(2, 3).narrow(1, 2, 3);
        let found = outcome(
            |x, weight, [bias, _]| {
                let y = convolve(view(x), weight.narrow(1, 1, 3), bias, None, 1);
                norm_gelu(y.swap_dims(0, 1), noise([2], 7), noise([2], 8), 1e-5, 10.0).output
            },
            case.inputs(),
        );
        let expected = outcome(
            |x, weight, [bias, _]| {
                let y = conv::reference(view(x), weight.narrow(1, 1, 3), bias, 1);
                let (gamma, beta) = (noise([2], 7), noise([2], 8));
                norm::reference(y.swap_dims(0, 1), gamma, beta, 1e-5, 10.0).output
            },
            case.inputs(),
        );
        assert_near(&found, &expected, 1e-5, "views");
    }

    #[test]
    #[should_panic(expected = "circular padding by 3 columns on a row of 2")]
    fn a_kernel_does_not_reach_around_the_globe() {
        let (x, weight, [bias, _]) = case(1, [1, 1], [4, 2]).kernel(3, 3).inputs();
        convolve(x, weight, bias, None, 3);
    }

    #[test]
    fn norm_and_activation_and_their_gradients_are_those_of_burns_operations() {
        let cases = [
            case(3, [2, 0], [4, 5]),
            case(1, [1, 0], [1, 9]),
            case(1, [3, 0], [7, 1]),
            case(2, [3, 0], [70, 61]).long(),
        ];
        for case in &cases {
            let channels = case.channels[0];
            let inputs = || {
                // Large enough for the cap in some places.
                let vectors = [noise([channels], 5) * 8.0, noise([channels], 6) * 3.0];
                let vectors = vectors.map(|v| v.detach().require_grad());
                (case.input(), noise([1, 1, 1, 1], 0), vectors)
            };
            let found = outcome(
                |x, _, [gamma, beta]| norm_gelu(x, gamma, beta, 1e-5, 10.0).output,
                inputs(),
            );
            let expected = outcome(
                |x, _, [gamma, beta]| norm::reference(x, gamma, beta, 1e-5, 10.0).output,
                inputs(),
            );
            assert_eq!(found.len(), 4);
            assert_near(&found, &expected, case.tolerance.max(1e-5), &case.name());

            let (x, _, [gamma, beta]) = inputs();
            let found = norm_gelu(x.clone(), gamma.clone(), beta.clone(), 1e-5, 10.0);
            let expected = norm::reference(x.clone(), gamma.clone(), beta.clone(), 1e-5, 10.0);
            let moments = |found: NormGelu| [values(found.mean), values(found.variance)];
            let given = [gamma, beta, found.mean.clone(), found.variance.clone()];
            let given = given.map(Tensor::inner);
            let again = values(norm_gelu_with(x.inner(), given, 1e-5, 10.0));
            assert_eq!(again, values(found.output.clone()));
            assert_near(&moments(found), &moments(expected), 1e-6, &case.name());
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| {
                let many = case(2, [2, 3], [67, 800]).kernel(3, 2);
                let few = case(2, [3, 66], [90, 60]);
                [many, few].map(|case| {
                    outcome(
                        |x, weight, [bias, _]| {
                            let y = convolve(x, weight, bias, None, case.dilation);
                            let channels = case.channels[1];
                            let (gamma, beta) = (noise([channels], 7), noise([channels], 8));
                            norm_gelu(y, gamma, beta, 1e-5, 10.0).output
                        },
                        case.inputs(),
                    )
                })
            })
        };
        let alone = run(1);
        assert_eq!(alone, run(2));
        assert_eq!(alone, run(7));
    }
}
