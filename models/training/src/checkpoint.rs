//! Checkpoints: everything the next step depends on, put in place by one rename.
//!
//! ```text
//!  out/checkpoints/step-00000120/
//!      run.json               loader state, losses of the epoch, epochs so far, what was asked for
//!      network.safetensors    parameters and running statistics
//!      average.safetensors    averaged parameters
//!      optimiser.bpk          moments and step counts
//! ```
//!
//! A folder is written under another name, synced, and renamed: it is there whole or not at all.
//! The older one goes afterwards. Whatever is read is the newest.

use crate::report::EpochRecord;
use anyhow::{Context, Result, ensure};
use burn_om4::LoaderState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The version of the folder's contents.
const VERSION: u32 = 2;

/// What was asked for, as far as it decides what is learned: names and values.
pub type Recipe = BTreeMap<String, String>;

/// How far a run is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    version: u32,
    /// Optimiser steps taken; the learning rate follows from it.
    pub steps: usize,
    /// Where the training loader goes on.
    pub loader: LoaderState,
    /// Losses of the current epoch's steps.
    pub losses: Vec<f64>,
    /// Epochs that are trained and validated.
    pub epochs: Vec<EpochRecord>,
    /// What a run that goes on has to be asked for, too.
    pub recipe: Recipe,
}

impl RunState {
    /// A state of the version that this program writes.
    pub fn new(
        steps: usize,
        loader: LoaderState,
        losses: &[f64],
        epochs: &[EpochRecord],
        recipe: Recipe,
    ) -> Self {
        Self {
            version: VERSION,
            steps,
            loader,
            losses: losses.to_vec(),
            epochs: epochs.to_vec(),
            recipe,
        }
    }

    /// Refuses a run that was asked for something else.
    ///
    /// # Errors
    /// Names what differs.
    pub fn check(&self, recipe: &Recipe) -> Result<()> {
        let (then, now) = (&self.recipe, recipe);
        let keys = then.keys().chain(now.keys());
        let mut changed: Vec<String> = keys
            .filter(|key| then.get(*key) != now.get(*key))
            .map(|key| {
                let show = |of: &Recipe| of.get(key).map_or("nothing", String::as_str).to_owned();
                format!("{key} was {}, is {}", show(then), show(now))
            })
            .collect();
        changed.sort_unstable();
        changed.dedup();
        ensure!(
            changed.is_empty(),
            "the checkpoint is of another run: {}",
            changed.join("; ")
        );
        Ok(())
    }
}

/// The checkpoints of one run.
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Those in `out`.
    pub fn of(out: &Path) -> Self {
        Self {
            folder: out.join("checkpoints"),
        }
    }

    /// The newest one, if there is any.
    ///
    /// # Errors
    /// The folder cannot be read, or holds a version that this program does not know.
    pub fn newest(&self) -> Result<Option<(PathBuf, RunState)>> {
        let Some(folder) = self.all()?.pop() else {
            return Ok(None);
        };
        let read = || -> Result<RunState> {
            let state: RunState = serde_json::from_slice(&fs::read(folder.join("run.json"))?)?;
            ensure!(
                state.version == VERSION,
                "it is of version {}, this program writes {VERSION}",
                state.version
            );
            Ok(state)
        };
        let state = read().with_context(|| format!("reading {}", folder.display()))?;
        Ok(Some((folder, state)))
    }

    /// Writes one: `weights` puts its files into the folder it is given.
    ///
    /// # Errors
    /// Whatever cannot be written; the checkpoint before is untouched then.
    pub fn write(
        &self,
        state: &RunState,
        weights: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let whole = self.folder.join(format!("step-{:08}", state.steps));
        self.put(&whole, state, weights)
            .with_context(|| format!("writing {}", whole.display()))?;
        Ok(whole)
    }

    fn put(
        &self,
        whole: &Path,
        state: &RunState,
        weights: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        if whole.exists() {
            // The same run at the same step: it is the same.
            return Ok(());
        }
        let partial = self.folder.join(format!("partial-{}", std::process::id()));
        remove(&partial)?;
        fs::create_dir_all(&partial)?;
        weights(&partial)?;
        fs::write(partial.join("run.json"), serde_json::to_vec(state)?)?;
        for file in fs::read_dir(&partial)? {
            File::open(file?.path())?.sync_all()?;
        }
        sync_folder(&partial)?;
        fs::rename(&partial, whole)?;
        sync_folder(&self.folder)?;
        for old in self.all()?.iter().filter(|old| *old != whole) {
            remove(old)?;
        }
        Ok(())
    }

    /// Whole ones, oldest first.
    fn all(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e).with_context(|| self.folder.display().to_string()),
        };
        let mut steps = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str());
            let step = name.and_then(|n| n.strip_prefix("step-")?.parse::<usize>().ok());
            steps.extend(step.map(|step| (step, path)));
        }
        steps.sort();
        Ok(steps.into_iter().map(|(_, path)| path).collect())
    }
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes names in a folder last; only Unix opens folders.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
