//! The loader in Burn's own training loop: `Learner` with metrics, checkpoints and a renderer.
//!
//! ```sh
//! cargo run --release --example learner
//! ```
//!
//! It learns the small ocean of `samudra_train` for a moment; that example has the whole recipe.

use anyhow::{Context, Result};
use burn::module::Module;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, ExecutionError, Tensor};
use burn::train::metric::{Adaptor, ItemLazy, LearningRateMetric, LossInput, LossMetric};
use burn::train::{InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep};
use burn_om4::{
    DatasetOptions, ModelBatch, OceanDataset, OceanLoader, Om4Paths, Order, parse_channels,
};
use samudra::{Grid, Loss, Samudra, SamudraConfig, clip_total_norm};
use samudra_training::demo;
use samudra_training::trainer::rollout_steps;
use std::path::Path;
use std::sync::Arc;

/// A Samudra network that takes its batches from the loader.
#[derive(Module, Debug)]
pub struct Emulator {
    network: Samudra,
}

/// What metrics are made of.
pub struct Outcome {
    loss: Tensor<1>,
}

impl ItemLazy for Outcome {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        let loss = self.loss.without_autodiff();
        Ok(Self { loss })
    }
}

impl Adaptor<LossInput> for Outcome {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

impl Emulator {
    fn loss(&self, batch: &ModelBatch) -> Outcome {
        let input = batch.input(0).expect("every batch has its first input");
        let loss = self.network.rollout_loss(
            input,
            rollout_steps(batch),
            batch.label_mask(),
            &Loss::default(),
            None,
        );
        Outcome { loss: loss.total }
    }
}

impl TrainStep for Emulator {
    type Input = ModelBatch;
    type Output = Outcome;

    fn step(&self, batch: ModelBatch) -> TrainOutput<Outcome> {
        let outcome = self.loss(&batch);
        TrainOutput::new(self, outcome.loss.backward(), outcome)
    }

    /// The recipe clips all gradients together; Burn's own clipping takes them one by one.
    fn optimize(
        self,
        optimiser: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        mut gradients: GradientsParams,
    ) -> Self {
        clip_total_norm(&self, &mut gradients, 1.0).expect("finite gradients");
        optimiser.step(rate, self, gradients)
    }
}

impl InferenceStep for Emulator {
    type Input = ModelBatch;
    type Output = Outcome;

    fn step(&self, batch: ModelBatch) -> Outcome {
        self.loss(&batch)
    }
}

/// A loader over some days of the store in `dir`.
fn loader(dir: &Path, days: &str, order: Order, device: &Device) -> Result<OceanLoader> {
    let [prognostic, boundary] = [demo::PROGNOSTIC, demo::BOUNDARY].map(parse_channels);
    let options = DatasetOptions::new(prognostic?, boundary?).with_time(days.parse()?);
    let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options)?;
    let loader = OceanLoader::builder(dataset).order(order).batch_size(4);
    Ok(loader.build(device)?)
}

/// Trains on the store in `dir`; checkpoints, logs and metrics go to `out`.
///
/// # Errors
/// A store that cannot be opened, and whatever ended the training early, a failed read included.
pub fn train(dir: &Path, out: &Path, days: [&str; 2], epochs: usize) -> Result<Emulator> {
    let device = Device::flex();
    let train = loader(dir, days[0], Order::Shuffled, &device)?;
    let valid = loader(dir, days[1], Order::Sequential, &device)?;
    let context = train.batcher().dataset().context(0).clone();
    let config = SamudraConfig::tiny(context.prognostic().len(), context.boundary().len());
    let grid = Grid::new(context.grid().ny(), context.grid().nx());
    let network = config.init(&grid, 15, &device.clone().autodiff())?;

    let steps = epochs * train.batches() as usize;
    let schedule = CosineAnnealingLrSchedulerConfig::new(5e-3, steps)
        .init()
        .map_err(anyhow::Error::msg)?;
    let optimiser = AdamConfig::new().with_epsilon(1e-8).init();
    let training = SupervisedTraining::new(out, Arc::new(train), Arc::new(valid))
        .metric_train_numeric(LossMetric::new())
        .metric_valid_numeric(LossMetric::new())
        .metric_train_numeric(LearningRateMetric::new())
        .with_default_checkpointers()
        .num_epochs(epochs);
    let result = training.launch(Learner::new(Emulator { network }, optimiser, schedule));
    match result.error {
        Some(error) => Err(error).context("training ended early"),
        None => Ok(result.model),
    }
}

fn main() -> Result<()> {
    let store = Path::new("target/demo_ocean");
    demo::write_demo(store, |_| ())?;
    let out = Path::new("target/learner");
    // A year, and a season to validate on.
    let days = ["2001-01-01..2001-12-31", "2004-01-01..2004-03-31"];
    let emulator = train(store, out, days, 3)?;
    let weights = out.join("emulator.safetensors");
    emulator.network.state_dict().write_safetensors(&weights)?;
    println!("wrote {}", weights.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Order, demo, loader, train};
    use burn::data::dataloader::DataLoader;
    use burn::tensor::Device;
    use std::path::Path;

    /// The values that a metric had, one a batch.
    fn logged(out: &Path, epoch: usize, split: &str) -> Vec<f64> {
        let log = out.join(format!("{split}/epoch-{epoch}/Loss.log"));
        let text = std::fs::read_to_string(log).unwrap();
        let value = |line: &str| line.split(',').next().unwrap().parse().unwrap();
        let batches = text.lines().filter(|line| !line.ends_with(",final"));
        batches.map(value).collect()
    }

    #[test]
    fn burns_learner_trains_on_the_loader() {
        let dir = tempfile::tempdir().unwrap();
        let (store, out) = (dir.path().join("store"), dir.path().join("out"));
        demo::write_demo(&store, |_| ()).unwrap();
        let days = ["2001-01-01..2001-03-01", "2004-01-01..2004-02-01"];
        let emulator = train(&store, &out, days, 2).unwrap();
        let device = Device::flex();
        let batches = days.map(|days| {
            let loader = loader(&store, days, Order::Sequential, &device).unwrap();
            loader.batches() as usize
        });
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let train = [1, 2].map(|epoch| logged(&out, epoch, "train"));
        let valid = [1, 2].map(|epoch| logged(&out, epoch, "valid"));
        for epoch in 0..2 {
            assert_eq!([train[epoch].len(), valid[epoch].len()], batches);
        }
        assert!(mean(&train[1]) < mean(&train[0]), "{train:?}");

        // The network that comes back is the one whose loss was logged last.
        let validation = loader(&store, days[1], Order::Sequential, &device).unwrap();
        let losses = validation.iter().map(|batch| {
            let loss = emulator.loss(&batch.unwrap()).loss;
            f64::from(loss.into_scalar::<f32>())
        });
        let losses: Vec<f64> = losses.collect();
        assert!(
            (mean(&losses) / mean(&valid[1]) - 1.0).abs() < 1e-3,
            "{losses:?} {valid:?}"
        );
        assert!(out.join("checkpoint/model-2.bpk").is_file());
    }
}
