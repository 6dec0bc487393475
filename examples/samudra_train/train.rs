//! One optimiser step after the other.
//!
//! ```text
//!  batch --> rollout --> mean squared error --> gradients --> clip to norm 1 --> Adam --> average
//! ```

use anyhow::{Context, Result, ensure};
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn_om4::ModelBatch;
use samudra::{CosineSchedule, Ema, RolloutStep, Samudra, clip_total_norm};

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
        Self {
            average: Ema::new(&network, EMA_DECAY),
            network,
            optimiser: AdamConfig::new().with_epsilon(1e-8).init(),
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

/// What each step of a batch's rollout is run under and compared with.
pub fn rollout_steps(batch: &ModelBatch) -> impl Iterator<Item = RolloutStep> + '_ {
    (0..batch.steps()).map(|step| RolloutStep {
        boundary: batch.boundary(step),
        label: batch.label(step),
    })
}
