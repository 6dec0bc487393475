//! The trainer: one optimiser step after the other.
//!
//! ```text
//!  batch --> rollout --> mean squared error --> gradients --> clip to norm 1 --> Adam --> average
//! ```

use crate::blame::Extreme;
use crate::optimiser::adam;
use anyhow::{Context, Result, anyhow, ensure};
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use burn_om4::ModelBatch;
use samudra::{CosineSchedule, Ema, Loss, RolloutStep, Samudra, StateDict, clip_total_norm};
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
    /// A loss or a gradient that is not finite, with the value of the batch that made it so, or with the
    /// learning rate where there is none; the network is as before then.
    pub fn step(&mut self, batch: &ModelBatch) -> Result<f32> {
        let rate = self.rate();
        let loss = self.network.rollout_loss(
            batch.input(0)?,
            rollout_steps(batch),
            batch.label_mask(),
            &Loss::default(),
            None,
        );
        let value = loss.total.clone().into_scalar::<f32>();
        if !value.is_finite() {
            return Err(self.blame(batch, anyhow!("the loss is {value}")));
        }
        let mut gradients = GradientsParams::from_grads(loss.total.backward(), &self.network);
        clip_total_norm(&self.network, &mut gradients, MAX_NORM)
            .map_err(|error| self.blame(batch, error.into()))?;
        self.network = self.optimiser.step(rate, self.network.clone(), gradients);
        self.average.update(&self.network);
        self.steps += 1;
        Ok(value)
    }

    /// A failed step, with the reason that the batch shows.
    fn blame(&self, batch: &ModelBatch, error: anyhow::Error) -> anyhow::Error {
        let step = self.steps + 1;
        match Extreme::of(batch) {
            Ok(Some(extreme)) => error.context(format!(
                "step {step} met a value that cannot be learned from, whatever the learning rate: {extreme}"
            )),
            Ok(None) => {
                let rows: Vec<usize> = batch.windows().iter().map(|w| w.start).collect();
                error.context(format!(
                    "step {step} (learning rate {:.2e}, windows from rows {rows:?}) diverged; try a \
                     smaller --lr",
                    self.rate()
                ))
            }
            Err(second) => error.context(second),
        }
    }

    /// Writes everything that the next step depends on into `folder`, and reads it back.
    ///
    /// # Errors
    /// A parameter or running statistic that is not finite, by its name; a file that cannot be written,
    /// or does not hold what was written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let [network, average, optimiser] = files(folder);
        write_weights(&self.network, &network)?;
        write_weights(&self.average.network(&self.network), &average)?;
        self.optimiser.save(&optimiser)?;
        let place = || format!("reading {} back", optimiser.display());
        adam().load(&optimiser).with_context(place)?;
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

/// Writes a network's weights, and reads them back.
///
/// # Errors
/// A tensor that is not finite, by its name; a file that cannot be written, or does not hold what was
/// written.
pub fn write_weights(network: &Samudra, path: &Path) -> Result<()> {
    let weights = network.state_dict();
    weights.check_finite()?;
    weights.write_safetensors(path)?;
    let place = || format!("reading {} back", path.display());
    let back = StateDict::from_safetensors(path).with_context(place)?;
    ensure!(
        back == weights,
        "{} does not hold what was written",
        path.display()
    );
    Ok(())
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
