//! The loop: epoch after epoch, from the beginning or from a checkpoint, to the end or until told to stop.

use crate::checkpoint::{Checkpoints, Recipe, RunState};
use crate::config::RunConfig;
use crate::data::Loaders;
use crate::found::Found;
use crate::output::Voice;
use crate::progress::Progress;
use crate::report::{EpochRecord, Extension};
use crate::score::{Scores, validate};
use crate::signals::{Interrupted, Stop};
use crate::trainer::Trainer;
use anyhow::{Context, Result, bail, ensure};
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
    /// How the plan was made longer.
    pub extensions: Vec<Extension>,
    /// What was found in the values of batches, as it was printed.
    pub found: Vec<String>,
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
    /// Whether that one may be of a run with fewer epochs. The learning rate goes on along the longer
    /// plan's half cosine, so at this point it rises.
    pub extend: bool,
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
    extensions: Vec<Extension>,
    /// What the last pass over the training windows waited for batches, as a share of its time.
    waited: f64,
    found: Found,
    progress: Progress,
}

/// Trains.
///
/// # Errors
/// Failed reads and writes, divergence, a checkpoint of another run; [`Interrupted`] when told to
/// stop, with everything saved.
pub fn train(
    network: Samudra,
    loaders: Loaders,
    config: &RunConfig,
    device: &Device,
    policy: &CheckpointPolicy,
    voice: Voice,
) -> Result<Trained> {
    let batches = loaders.train.batches() as usize;
    ensure!(batches > 0, "there is no batch to train on");
    let total = config.epochs * batches;
    let run = Run {
        trainer: Trainer::new(network, config.lr, total),
        found: Found::after(loaders.found()),
        loaders,
        policy,
        recipe: config.recipe()?,
        losses: Vec::new(),
        epochs: Vec::new(),
        extensions: Vec::new(),
        waited: 0.0,
        progress: Progress::new("training", total as u64, voice),
    };
    let mut run = run.started(config, total)?;
    loop {
        // A checkpoint may be of the end: then there is nothing left but to validate once more.
        let done = run.epochs.len() == config.epochs;
        let started = Instant::now();
        if !done && run.losses.len() < batches {
            run.pass()
                .with_context(|| format!("epoch {}", run.epochs.len() + 1))?;
        }
        let network = run.trainer.averaged();
        let scores = validate(&network, &run.loaders.validation, device);
        let scores = scores.map_err(|error| run.kept(error))?;
        run.found.say_news(&run.loaders, &run.progress);
        if !scores.finite() {
            let place = || format!("validation after step {}", run.trainer.steps());
            network.state_dict().check_finite().with_context(place)?;
        }
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
                extensions: run.extensions,
                found: run.found.into_warnings(),
                loaders: run.loaders,
            });
        }
    }
}

impl Run<'_> {
    /// From the beginning, or from the newest checkpoint: as the policy says and the folder allows.
    fn started(self, config: &RunConfig, total: usize) -> Result<Self> {
        let policy = self.policy;
        policy.checkpoints.clean()?;
        match policy.checkpoints.newest()? {
            Some((folder, state)) if policy.resume => {
                let place = folder.display().to_string();
                self.resumed(&folder, state, config, total).context(place)
            }
            Some((folder, _)) => bail!(
                "{} is of an earlier run: --resume goes on with it, another --out leaves it alone",
                folder.display()
            ),
            None if policy.extend => bail!(
                "there is no checkpoint to extend: a run leaves one at its end when it is started with \
                 --save-every"
            ),
            None => {
                if policy.resume {
                    let text = "there is no checkpoint yet: starts from the beginning";
                    self.progress.line(text);
                }
                Ok(self)
            }
        }
    }

    fn resumed(
        mut self,
        folder: &Path,
        mut state: RunState,
        config: &RunConfig,
        total: usize,
    ) -> Result<Self> {
        let extension = match self.policy.extend {
            true => state.extend(config.epochs)?,
            false => None,
        };
        state.check(&self.recipe)?;
        self.loaders.train = self.loaders.train.resume(&state.loader)?;
        self.trainer = self.trainer.resume(folder, state.steps)?;
        self.progress.at(state.steps as u64);
        self.progress
            .line(&format!("goes on after step {} of {total}", state.steps));
        if let Some(Extension { planned, .. }) = extension {
            self.progress.line(&format!(
                "{} epochs instead of {planned}: the learning rate goes on at {:.2e}, along the longer \
                 plan's half cosine",
                config.epochs,
                self.trainer.rate()
            ));
        }
        (self.losses, self.epochs) = (state.losses, state.epochs);
        self.extensions = state.extensions;
        Ok(self)
    }

    /// What is left of a pass over the training windows.
    fn pass(&mut self) -> Result<()> {
        let waits = || {
            let wait = self.loaders.train.counters().wait;
            wait.first_seconds + wait.seconds
        };
        let (started, before) = (Instant::now(), waits());
        for batch in self.loaders.train.iter() {
            let batch = batch.context("reading a training batch");
            let batch = batch.map_err(|error| self.kept(error))?;
            self.found.say_news(&self.loaders, &self.progress);
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
        let loader = self.loaders.train.state();
        let mut state = RunState::new(self.trainer.steps(), loader, self.recipe.clone());
        state.losses.clone_from(&self.losses);
        state.epochs.clone_from(&self.epochs);
        state.extensions.clone_from(&self.extensions);
        let weights = |folder: &Path| self.trainer.save(folder);
        self.policy.checkpoints.write(&state, weights)
    }

    /// A failed read, which is no fault of what was learned until then: that is saved.
    fn kept(&self, error: anyhow::Error) -> anyhow::Error {
        if self.trainer.steps() == 0 {
            return error;
        }
        match self.save() {
            Ok(checkpoint) => error.context(format!(
                "stopped by a failure; --resume goes on from {}",
                checkpoint.display()
            )),
            Err(second) => {
                error.context(format!("stopped by a failure, and not saved: {second:#}"))
            }
        }
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
            "epoch {:>3} of {}: loss {:.5}, error {} of persistence, {:.1} s, {:.1} % waiting",
            record.epoch,
            config.epochs,
            record.train_loss,
            match record.validation_ratio {
                Some(ratio) => format!("{:>3.0} %", 100.0 * ratio),
                None => "no share".to_owned(),
            },
            record.seconds,
            100.0 * self.waited,
        ));
    }
}
