//! The trainer: one optimiser step after the other.
//!
//! ```text
//!  batch --> rollout --> mean squared error --> gradients --> clip to norm 1 --> Adam --> average
//! ```

use crate::optimiser::adam;
use anyhow::{Context, Result, ensure};
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use burn_om4::ModelBatch;
use samudra::{CosineSchedule, Ema, Loss, RolloutStep, Samudra, clip_total_norm};
use std::path::{Path, PathBuf};

/// The recipe's bound on the norm of all gradients together.
const MAX_NORM: f32 = 1.0;
/// The recipe's limit of the average's decay.
const EMA_DECAY: f64 = 0.999;

/// A network in training.
pub struct Trainer {
    network: Samudra,
    average: Ema,
    optimiser: ModuleOptimizer,
    schedule: CosineSchedule,
    steps: usize,
}

impl Trainer {
    /// Starts from `network`, on an autodiff device. The rate falls from `rate` to zero over `steps`
    /// steps.
    pub fn new(network: Samudra, rate: f64, steps: usize) -> Self {
        let network = network.map(&mut Renumber(0));
        Self {
            average: Ema::new(&network, EMA_DECAY),
            network,
            optimiser: adam(),
            schedule: CosineSchedule::new(rate, steps),
            steps: 0,
        }
    }

    /// Learns from a batch, and returns its loss.
    ///
    /// # Errors
    /// A loss or a gradient that is not finite; the network is as before then.
    pub fn step(&mut self, batch: &ModelBatch) -> Result<f32> {
        let rate = self.rate();
        let (step, windows) = (self.steps + 1, batch.windows());
        let place = || {
            let rows: Vec<usize> = windows.iter().map(|w| w.start).collect();
            format!(
                "step {step} (learning rate {rate:.2e}, windows from rows {rows:?}) diverged; try a \
                 smaller --lr"
            )
        };
        let loss = self.network.rollout_loss(
            batch.input(0)?,
            rollout_steps(batch),
            batch.label_mask(),
            &Loss::default(),
            None,
        );
        let value = loss.total.clone().into_scalar::<f32>();
        ensure!(value.is_finite(), "{}: the loss is {value}", place());
        let mut gradients = GradientsParams::from_grads(loss.total.backward(), &self.network);
        clip_total_norm(&self.network, &mut gradients, MAX_NORM).with_context(place)?;
        self.network = self.optimiser.step(rate, self.network.clone(), gradients);
        self.average.update(&self.network);
        self.steps += 1;
        Ok(value)
    }

    /// Writes everything that the next step depends on into `folder`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let [network, average, optimiser] = files(folder);
        self.network.state_dict().write_safetensors(network)?;
        let averaged = self.average.network(&self.network);
        averaged.state_dict().write_safetensors(average)?;
        self.optimiser.save(optimiser)?;
        Ok(())
    }

    /// Goes on from what [`save`](Self::save) wrote after `steps` steps; the next ones are what they
    /// would have been, bit for bit where the device computes the same twice.
    ///
    /// # Errors
    /// A file that cannot be read, or weights of another network.
    pub fn resume(mut self, folder: &Path, steps: usize) -> Result<Self> {
        let [network, average, optimiser] = files(folder);
        let mut averaged = self.network.clone();
        averaged.load_weights(average)?;
        self.network.load_weights(network)?;
        self.average = Ema::resume(averaged, EMA_DECAY, steps);
        self.optimiser = self.optimiser.load(optimiser)?;
        self.steps = steps;
        Ok(self)
    }

    /// The learning rate of the next step.
    pub fn rate(&self) -> f64 {
        self.schedule.rate(self.steps)
    }

    /// Steps taken.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The network to predict with: averaged parameters, and the running statistics of the live
    /// network.
    pub fn averaged(&self) -> Samudra {
        self.average.network(&self.network).valid()
    }
}

fn files(folder: &Path) -> [PathBuf; 3] {
    [
        "network.safetensors",
        "average.safetensors",
        "optimiser.bpk",
    ]
    .map(|name| folder.join(name))
}

/// Numbers parameters as they come. The optimiser keeps its moments by these numbers, which are drawn
/// at random otherwise, and would mean nothing in another process.
struct Renumber(u64);

impl ModuleMapper for Renumber {
    fn map_float<const D: usize>(&mut self, mut param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.id = ParamId::from(self.0);
        self.0 += 1;
        param
    }
}

/// What each step of a batch's rollout is run under and compared with.
pub fn rollout_steps(batch: &ModelBatch) -> impl Iterator<Item = RolloutStep> + '_ {
    (0..batch.steps()).map(|step| RolloutStep {
        boundary: batch.boundary(step),
        label: batch.label(step),
    })
}
