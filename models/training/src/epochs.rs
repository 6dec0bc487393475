//! The loop: epoch after epoch, from the beginning or from a checkpoint, to the end or until told to stop.

use crate::checkpoint::{Checkpoints, Recipe, RunState};
use crate::config::RunConfig;
use crate::data::Loaders;
use crate::progress::Progress;
use crate::report::EpochRecord;
use crate::score::{Scores, validate};
use crate::signals::{Interrupted, Stop};
use crate::trainer::Trainer;
use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use samudra::Samudra;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What training gave.
pub struct Trained {
    /// Averaged parameters, for prediction.
    pub network: Samudra,
    /// Its errors on the validation windows.
    pub scores: Scores,
    /// One record per epoch.
    pub epochs: Vec<EpochRecord>,
    /// As they were left: for their counters.
    pub loaders: Loaders,
}

/// When checkpoints are written, and read.
pub struct CheckpointPolicy {
    /// Where they are kept.
    pub checkpoints: Checkpoints,
    /// Steps from one to the next.
    pub every: Option<usize>,
    /// Whether to go on from the newest one.
    pub resume: bool,
    /// Asked after every step.
    pub stop: Stop,
}

/// A run under way.
struct Run<'a> {
    trainer: Trainer,
    loaders: Loaders,
    policy: &'a CheckpointPolicy,
    recipe: Recipe,
    /// Of the current epoch.
    losses: Vec<f64>,
    epochs: Vec<EpochRecord>,
    /// What the last pass over the training windows waited for batches, as a share of its time.
    waited: f64,
    progress: Progress,
}

/// Trains.
///
/// # Errors
/// Failed reads and writes, divergence, a checkpoint of another run; [`Interrupted`] when told to
/// stop, with everything saved.
pub fn train(
    network: Samudra,
    mut loaders: Loaders,
    config: &RunConfig,
    device: &Device,
    policy: &CheckpointPolicy,
) -> Result<Trained> {
    let batches = loaders.train.batches() as usize;
    ensure!(batches > 0, "there is no batch to train on");
    let total = config.epochs * batches;
    let mut trainer = Trainer::new(network, config.lr, total);
    let (recipe, progress) = (config.recipe()?, Progress::new("training", total as u64));
    let (mut losses, mut epochs) = (Vec::new(), Vec::new());
    let newest = policy.checkpoints.newest()?;
    match newest {
        Some((folder, state)) if policy.resume => {
            let place = || folder.display().to_string();
            state.check(&recipe).with_context(place)?;
            loaders.train = loaders.train.resume(&state.loader).with_context(place)?;
            trainer = trainer.resume(&folder, state.steps).with_context(place)?;
            (losses, epochs) = (state.losses, state.epochs);
            progress.at(state.steps as u64);
            progress.line(&format!("goes on after step {} of {total}", state.steps));
        }
        Some((folder, _)) => anyhow::bail!(
            "{} is of an earlier run: --resume goes on with it, another --out leaves it alone",
            folder.display()
        ),
        None if policy.resume => {
            progress.line("there is no checkpoint yet: starts from the beginning")
        }
        None => {}
    }
    let mut run = Run {
        trainer,
        loaders,
        policy,
        recipe,
        losses,
        epochs,
        waited: 0.0,
        progress,
    };
    loop {
        // A checkpoint may be of the end: then there is nothing left but to validate once more.
        let done = run.epochs.len() == config.epochs;
        let started = Instant::now();
        if !done && run.losses.len() < batches {
            run.pass()
                .with_context(|| format!("epoch {}", run.epochs.len() + 1))?;
        }
        let network = run.trainer.averaged();
        let scores = validate(&network, &run.loaders.validation, device)?;
        if !done {
            run.close_epoch(&scores, config, started);
        }
        if run.epochs.len() == config.epochs {
            if policy.every.is_some() {
                run.save()?;
            }
            run.progress.finish();
            return Ok(Trained {
                network,
                scores,
                epochs: run.epochs,
                loaders: run.loaders,
            });
        }
    }
}

impl Run<'_> {
    /// What is left of a pass over the training windows.
    fn pass(&mut self) -> Result<()> {
        let waits = || {
            let wait = self.loaders.train.counters().wait;
            wait.first_seconds + wait.seconds
        };
        let (started, before) = (Instant::now(), waits());
        for batch in self.loaders.train.iter() {
            let batch = batch.context("reading a training batch")?;
            let loss = self.trainer.step(&batch)?;
            self.losses.push(f64::from(loss));
            self.waited = (waits() - before) / started.elapsed().as_secs_f64();
            let share = 100.0 * self.waited;
            self.progress
                .step(&format!("loss {loss:.5}, {share:.1} % waiting"));
            let stop = self.policy.stop.requested();
            let due = |every: usize| self.trainer.steps().is_multiple_of(every);
            if stop || self.policy.every.is_some_and(due) {
                let checkpoint = self.save()?;
                if stop {
                    self.progress.finish();
                    return Err(Interrupted { checkpoint }.into());
                }
            }
        }
        Ok(())
    }

    fn save(&self) -> Result<PathBuf> {
        let state = RunState::new(
            self.trainer.steps(),
            self.loaders.train.state(),
            &self.losses,
            &self.epochs,
            self.recipe.clone(),
        );
        let weights = |folder: &Path| self.trainer.save(folder);
        self.policy.checkpoints.write(&state, weights)
    }

    fn close_epoch(&mut self, scores: &Scores, config: &RunConfig, started: Instant) {
        let losses = std::mem::take(&mut self.losses);
        let record = EpochRecord {
            epoch: self.epochs.len() + 1,
            steps: self.trainer.steps(),
            train_loss: losses.iter().sum::<f64>() / losses.len() as f64,
            validation_ratio: scores.ratio(),
            learning_rate: self.trainer.rate(),
            seconds: started.elapsed().as_secs_f64(),
        };
        self.epochs.push(record);
        self.progress.line(&format!(
            "epoch {:>3} of {}: loss {:.5}, error {:>3.0} % of persistence, {:.1} s, {:.1} % waiting",
            record.epoch,
            config.epochs,
            record.train_loss,
            100.0 * record.validation_ratio,
            record.seconds,
            100.0 * self.waited,
        ));
    }
}
