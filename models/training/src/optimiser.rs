//! The optimiser: Adam as the recipe has it, whose saved moments are read back on any machine.

use burn::optim::{
    Adam, AdamConfig, AdamState, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource,
};
use burn::tensor::{Device, Tensor};

/// Adam without weight decay.
pub fn adam() -> ModuleOptimizer {
    Portable(AdamConfig::new().with_epsilon(1e-8).build()).into()
}

/// Burn 0.22.1 reads moments onto `Device::default()`, the first backend that is compiled in, before
/// they move to their parameters' device: with CUDA compiled in and no driver that is a panic. This
/// reads them onto the CPU, which is always there.
#[derive(Clone)]
struct Portable(Adam);

#[derive(Clone)]
struct Moments<const D: usize>(AdamState<D>);

impl<const D: usize> RecordState for Moments<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        self.0.state_flatten(prefix, out);
    }

    fn state_unflatten(prefix: &str, source: &mut StateSource, _: &Device) -> Option<Self> {
        AdamState::state_unflatten(prefix, source, &Device::flex()).map(Self)
    }
}

impl Optimizer for Portable {
    type State<const D: usize> = Moments<D>;

    fn step<const D: usize>(
        &self,
        rate: f64,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let state = state.map(|moments| moments.0);
        let (tensor, state) = self.0.step(rate, tensor, gradient, state);
        (tensor, state.map(Moments))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        Moments(Adam::to_device(state.0, device))
    }
}
