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
//! A folder is written under another name, synced, read back, and renamed: it is there whole or not at
//! all. The older one goes afterwards, when it is known that the newer one can take its place. Whatever
//! is read is the newest.

use crate::files::sync_folder;
use crate::report::{EpochRecord, Extension};
use anyhow::{Context, Result, bail, ensure};
use burn_om4::LoaderState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The version of the folder's contents.
const VERSION: u32 = 3;

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
    #[serde(with = "crate::floats::list")]
    pub losses: Vec<f64>,
    /// Epochs that are trained and validated.
    pub epochs: Vec<EpochRecord>,
    /// How its plan was made longer, oldest first.
    pub extensions: Vec<Extension>,
    /// What a run that goes on has to be asked for, too.
    pub recipe: Recipe,
}

/// The planned number of epochs, among the [`Recipe`].
const EPOCHS: &str = "epochs";

impl RunState {
    /// A run that `loader` has brought to `steps`, before anything is known of its epochs.
    pub fn new(steps: usize, loader: LoaderState, recipe: Recipe) -> Self {
        Self {
            version: VERSION,
            steps,
            loader,
            losses: Vec::new(),
            epochs: Vec::new(),
            extensions: Vec::new(),
            recipe,
        }
    }

    /// Plans for `epochs` epochs, which are as many as planned or more. Says what is new.
    ///
    /// # Errors
    /// Fewer than planned, or a state that does not say how many were.
    pub fn extend(&mut self, epochs: usize) -> Result<Option<Extension>> {
        let planned = self.recipe.get(EPOCHS).and_then(|n| n.parse().ok());
        let planned: usize = planned.context("the checkpoint does not say its epochs")?;
        ensure!(
            epochs >= planned,
            "the run is planned for {planned} epochs: --extend makes it longer, not {epochs}"
        );
        if epochs == planned {
            return Ok(None);
        }
        self.recipe.insert(EPOCHS.to_owned(), epochs.to_string());
        let extension = Extension {
            step: self.steps,
            planned,
            epochs,
        };
        self.extensions.push(extension);
        Ok(Some(extension))
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
        if changed.is_empty() {
            return Ok(());
        }
        let longer = match &changed[..] {
            [only] if only.starts_with("epochs was ") => {
                " (--extend trains more epochs than planned)"
            }
            _ => "",
        };
        bail!(
            "the checkpoint is of another run: {}{longer}",
            changed.join("; ")
        )
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
        let state = read(&folder).with_context(|| format!("reading {}", folder.display()))?;
        Ok(Some((folder, state)))
    }

    /// Removes what a kill in the middle of [`write`](Self::write) left.
    ///
    /// # Errors
    /// A folder that cannot be read or removed.
    pub fn clean(&self) -> Result<()> {
        for path in self.entries()? {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(PARTIAL)) {
                remove(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Writes one: `weights` puts its files into the folder it is given, and reads them back.
    ///
    /// # Errors
    /// Whatever cannot be written or read back; the checkpoint before is untouched then.
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
        self.clean()?;
        let partial = self.folder.join(format!("{PARTIAL}{}", std::process::id()));
        let written = fill(&partial, state, weights);
        if written.is_err() {
            // Its room may be what is missing.
            let _ = remove(&partial);
        }
        written?;
        fs::rename(&partial, whole)?;
        sync_folder(&self.folder)?;
        for old in self.all()?.iter().filter(|old| *old != whole) {
            remove(old)?;
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<PathBuf>> {
        let place = || self.folder.display().to_string();
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e).with_context(place),
        };
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<std::io::Result<_>>().with_context(place)
    }

    /// Whole ones, oldest first.
    fn all(&self) -> Result<Vec<PathBuf>> {
        let mut steps = Vec::new();
        for path in self.entries()? {
            let name = path.file_name().and_then(|n| n.to_str());
            let step = name.and_then(|n| n.strip_prefix("step-")?.parse::<usize>().ok());
            steps.extend(step.map(|step| (step, path)));
        }
        steps.sort();
        Ok(steps.into_iter().map(|(_, path)| path).collect())
    }
}

/// What a folder that is being written is called, and whose it is.
const PARTIAL: &str = "partial-";

fn fill(partial: &Path, state: &RunState, weights: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    fs::create_dir_all(partial)?;
    weights(partial)?;
    fs::write(partial.join("run.json"), serde_json::to_vec(state)?)?;
    for file in fs::read_dir(partial)? {
        File::open(file?.path())?.sync_all()?;
    }
    sync_folder(partial)?;
    let back = read(partial).context("reading it back")?;
    // Floats may differ in their last bit after JSON, and nothing depends on it.
    let same = (back.steps, &back.loader, &back.recipe, &back.extensions)
        == (state.steps, &state.loader, &state.recipe, &state.extensions)
        && (back.losses.len(), back.epochs.len()) == (state.losses.len(), state.epochs.len());
    ensure!(same, "what was read back is not what was written");
    Ok(())
}

fn read(folder: &Path) -> Result<RunState> {
    let state: RunState = serde_json::from_slice(&fs::read(folder.join("run.json"))?)?;
    ensure!(
        state.version == VERSION,
        "it is of version {}, this program writes {VERSION}",
        state.version
    );
    Ok(state)
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
