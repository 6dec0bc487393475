//! The operations as Burn knows them, with their gradients.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape as TensorShape};

use super::convolution::{self, Shape};
use super::memory::{Lease, lease};
use super::norm::{self, Affine, Moments, Planes};

/// What runs on Burn's CPU backend in place of several of Burn's own operations. Every tensor is
/// float32.
#[backend_extension(Flex, Autodiff)]
pub(super) trait GlobeOps: Backend {
    /// `x` `(batch, in, y, x)`, `weight` `(out, in, k, k)`, `bias` `(out)`; circular in x, zeros
    /// beyond y.
    fn globe_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        dilation: usize,
    ) -> FloatTensor<Self>;

    /// The same, added to `onto` of the output's shape.
    fn globe_convolution_onto(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        dilation: usize,
    ) -> FloatTensor<Self>;

    /// Batch norm and the capped GELU after it: the output, and mean and biased variance per
    /// channel, which have no gradient.
    fn norm_gelu(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        cap: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// What has no gradient.
#[backend_extension(Flex)]
pub(super) trait EvaluationOps: Backend {
    /// As [`GlobeOps::norm_gelu`] with given mean and variance.
    fn norm_gelu_with(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        epsilon: f64,
        cap: f32,
    ) -> FloatTensor<Self>;
}

fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("made contiguous before")
}

fn contiguous(tensor: FlexTensor) -> FlexTensor {
    match tensor.is_contiguous() {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

fn tensor(values: Lease, shape: TensorShape) -> FlexTensor {
    FlexTensor::new(values.into_bytes(), Layout::contiguous(shape), DType::F32)
}

/// A value for every channel.
fn vector(values: impl ExactSizeIterator<Item = f32>) -> FlexTensor {
    let shape = TensorShape::from(vec![values.len()]);
    let mut memory = lease(values.len());
    for (place, value) in memory.iter_mut().zip(values) {
        *place = value;
    }
    tensor(memory, shape)
}

fn shape_of(x: &FlexTensor, weight: &FlexTensor, dilation: usize) -> Shape {
    let (x, weight) = (x.shape(), weight.shape());
    let shape = Shape {
        batch: x[0],
        channels_in: x[1],
        channels_out: weight[0],
        ny: x[2],
        nx: x[3],
        kernel: weight[2],
        dilation,
    };
    assert_eq!(
        [weight[1], weight[3]],
        [shape.channels_in, shape.kernel],
        "input channels and kernel of the weight"
    );
    assert!(
        shape.reach() <= shape.nx,
        "circular padding by {} columns on a row of {}",
        shape.reach(),
        shape.nx
    );
    shape
}

fn convolve(
    x: FlexTensor,
    weight: FlexTensor,
    bias: FlexTensor,
    onto: Option<FlexTensor>,
    dilation: usize,
) -> FlexTensor {
    let shape = shape_of(&x, &weight, dilation);
    let dims = [shape.batch, shape.channels_out, shape.ny, shape.nx];
    let dims = TensorShape::from(dims.to_vec());
    let [x, weight, bias] = [x, weight, bias].map(contiguous);
    let onto = onto.map(contiguous);
    if let Some(onto) = &onto {
        assert_eq!(onto.shape(), dims, "shape of what is added to");
    }
    let onto = onto.as_ref().map(floats);
    let out = convolution::forward(floats(&x), floats(&weight), floats(&bias), onto, shape);
    tensor(out, dims)
}

impl EvaluationOps for Flex {
    fn norm_gelu_with(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        mean: FlexTensor,
        variance: FlexTensor,
        epsilon: f64,
        cap: f32,
    ) -> FlexTensor {
        let x = contiguous(x);
        let [gamma, beta, mean, variance] = [gamma, beta, mean, variance].map(contiguous);
        let affine = affine(&gamma, &beta, epsilon, cap);
        let moments = moments(&mean, &variance);
        let mut out = lease(floats(&x).len());
        norm::evaluate(floats(&x), planes_of(&x), affine, &moments, &mut out);
        tensor(out, x.shape())
    }
}

fn affine<'a>(gamma: &'a FlexTensor, beta: &'a FlexTensor, epsilon: f64, cap: f32) -> Affine<'a> {
    Affine {
        gamma: floats(gamma),
        beta: floats(beta),
        epsilon,
        cap,
    }
}

fn moments(mean: &FlexTensor, variance: &FlexTensor) -> Vec<Moments> {
    let pairs = floats(mean).iter().zip(floats(variance));
    let pair = |(&mean, &variance): (&f32, &f32)| Moments { mean, variance };
    pairs.map(pair).collect()
}

impl GlobeOps for Flex {
    fn globe_convolution(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        dilation: usize,
    ) -> FlexTensor {
        convolve(x, weight, bias, None, dilation)
    }

    fn globe_convolution_onto(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        onto: FlexTensor,
        dilation: usize,
    ) -> FlexTensor {
        convolve(x, weight, bias, Some(onto), dilation)
    }

    fn norm_gelu(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        epsilon: f64,
        cap: f32,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [x, gamma, beta] = [x, gamma, beta].map(contiguous);
        let affine = affine(&gamma, &beta, epsilon, cap);
        let mut out = lease(floats(&x).len());
        let moments = norm::train(floats(&x), planes_of(&x), affine, &mut out);
        (
            tensor(out, x.shape()),
            vector(moments.iter().map(|m| m.mean)),
            vector(moments.iter().map(|m| m.variance)),
        )
    }
}

fn planes_of(x: &FlexTensor) -> Planes {
    let shape = x.shape();
    Planes {
        batch: shape[0],
        channels: shape[1],
        cells: shape[2] * shape[3],
    }
}

impl<C: CheckpointStrategy> GlobeOps for Autodiff<Flex, C> {
    fn globe_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        dilation: usize,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let state = Convolution::new(x.primitive(), weight.primitive(), dilation);
        let output = state.forward(bias.into_primitive(), None);
        record::<C, _, _, 3>(ConvolutionBackward, nodes, state, output)
    }

    fn globe_convolution_onto(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        dilation: usize,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node(), onto.node()];
        let state = Convolution::new(x.primitive(), weight.primitive(), dilation);
        let output = state.forward(bias.into_primitive(), Some(onto.into_primitive()));
        record::<C, _, _, 4>(ConvolutionOntoBackward, nodes, state, output)
    }

    fn norm_gelu(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        cap: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [x.node(), gamma.node(), beta.node()];
        let [x, gamma, beta] = [x, gamma, beta].map(|t| contiguous(t.into_primitive()));
        let (output, mean, variance) =
            Flex::norm_gelu(x.clone(), gamma.clone(), beta.clone(), epsilon, cap);
        let state = NormGelu {
            x,
            gamma,
            beta,
            mean: mean.clone(),
            variance: variance.clone(),
            epsilon,
            cap,
        };
        let output = record::<C, _, _, 3>(NormGeluBackward, nodes, state, output);
        let constant = <Self as AutodiffBackend>::from_inner;
        (output, constant(mean), constant(variance))
    }
}

/// Puts the output into the graph, with what its backward step needs.
fn record<C, S, O, const N: usize>(
    backward: O,
    nodes: [NodeGuard; N],
    state: S,
    output: FlexTensor,
) -> FloatTensor<Autodiff<Flex, C>>
where
    C: CheckpointStrategy,
    S: Clone + Send + std::fmt::Debug + 'static,
    O: Backward<Flex, N, State = S>,
{
    match backward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

#[derive(Clone, Debug)]
struct Convolution {
    x: FlexTensor,
    weight: FlexTensor,
    dilation: usize,
}

impl Convolution {
    fn new(x: &FlexTensor, weight: &FlexTensor, dilation: usize) -> Self {
        Self {
            x: contiguous(x.clone()),
            weight: contiguous(weight.clone()),
            dilation,
        }
    }

    fn forward(&self, bias: FlexTensor, onto: Option<FlexTensor>) -> FlexTensor {
        let (x, weight) = (self.x.clone(), self.weight.clone());
        convolve(x, weight, bias, onto, self.dilation)
    }

    /// Registers the gradients that are asked for.
    fn backward(
        &self,
        gradient: FlexTensor,
        [x, weight, bias]: [Option<NodeId>; 3],
        grads: &mut Gradients,
    ) {
        let shape = shape_of(&self.x, &self.weight, self.dilation);
        let gradient = contiguous(gradient);
        let gradient = floats(&gradient);
        if let Some(node) = weight {
            let values = convolution::weight_gradient(floats(&self.x), gradient, shape);
            grads.register::<Flex>(node, tensor(values, self.weight.shape()));
        }
        if let Some(node) = bias {
            let values = convolution::bias_gradient(gradient, shape);
            grads.register::<Flex>(node, vector(values.into_iter()));
        }
        if let Some(node) = x {
            let values = convolution::input_gradient(gradient, floats(&self.weight), shape);
            grads.register::<Flex>(node, tensor(values, self.x.shape()));
        }
    }
}

#[derive(Debug)]
struct ConvolutionBackward;

impl Backward<Flex, 3> for ConvolutionBackward {
    type State = Convolution;

    fn backward(self, ops: Ops<Convolution, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        ops.state.backward(gradient, nodes, grads);
    }
}

#[derive(Debug)]
struct ConvolutionOntoBackward;

impl Backward<Flex, 4> for ConvolutionOntoBackward {
    type State = Convolution;

    fn backward(self, ops: Ops<Convolution, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        let [x, weight, bias, onto] = ops.parents.map(|node| node.map(|node| node.id));
        if let Some(onto) = onto {
            grads.register::<Flex>(onto, gradient.clone());
        }
        ops.state.backward(gradient, [x, weight, bias], grads);
    }
}

#[derive(Clone, Debug)]
struct NormGelu {
    x: FlexTensor,
    gamma: FlexTensor,
    beta: FlexTensor,
    mean: FlexTensor,
    variance: FlexTensor,
    epsilon: f64,
    cap: f32,
}

#[derive(Debug)]
struct NormGeluBackward;

impl Backward<Flex, 3> for NormGeluBackward {
    type State = NormGelu;

    fn backward(self, ops: Ops<NormGelu, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let state = ops.state;
        let (planes, x) = (planes_of(&state.x), floats(&state.x));
        let affine = affine(&state.gamma, &state.beta, state.epsilon, state.cap);
        let moments = moments(&state.mean, &state.variance);
        // In place where nobody else holds the gradient, and it is all of its memory.
        let own = gradient.try_storage_mut::<f32>();
        let (gradient, channels) = match own.filter(|values| values.len() == x.len()) {
            Some(values) => {
                let channels = norm::backward(x, planes, affine, &moments, values);
                (gradient, channels)
            }
            None => {
                let mut copy = lease(x.len());
                copy.copy_from_slice(floats(&gradient));
                let channels = norm::backward(x, planes, affine, &moments, &mut copy);
                (tensor(copy, state.x.shape()), channels)
            }
        };
        let [x, gamma, beta] = ops.parents.map(|node| node.map(|node| node.id));
        if let Some(node) = x {
            grads.register::<Flex>(node, gradient);
        }
        if let Some(node) = gamma {
            grads.register::<Flex>(node, vector(channels.iter().map(|c| c.gamma)));
        }
        if let Some(node) = beta {
            grads.register::<Flex>(node, vector(channels.iter().map(|c| c.beta)));
        }
    }
}
