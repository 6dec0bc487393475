//! The report: `report.json`, and a table for people.

use crate::files;
use crate::score::{Scores, Weighting};
use anyhow::Result;
use burn_om4::dataset::ChannelValues;
use burn_om4::host::HostPoolState;
use burn_om4::{BatchContext, LoaderCounters, OceanLoader};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// Everything worth keeping of a run.
#[derive(Serialize)]
pub struct Report<C: Serialize> {
    /// Errors of the last epoch.
    #[serde(serialize_with = "by_name")]
    pub validation: Vec<ChannelSkill>,
    /// Windows that `validation` averages over.
    pub validation_windows: usize,
    /// What counts a cell in `validation`.
    pub weighting: Weighting,
    /// One entry per epoch.
    pub epochs: Vec<EpochRecord>,
    /// How the plan was made longer, oldest first.
    pub extensions: Vec<Extension>,
    /// What was odd without being an error, as it was printed.
    pub warnings: Vec<String>,
    /// What was asked for, defaults filled in.
    pub config: C,
    /// What the loaders did.
    pub loader: LoaderReport,
    /// Seconds of wall time from the first batch to the last score.
    pub seconds: f64,
}

/// Errors of one channel; entry i is lead i + 1.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelSkill {
    /// Of the channel.
    #[serde(skip)]
    pub name: String,
    /// Of the errors, where the store says it.
    pub unit: Option<String>,
    /// Root mean square errors of the network.
    #[serde(with = "crate::floats::list")]
    pub rmse: Vec<f64>,
    /// The same for "as at the start".
    #[serde(with = "crate::floats::list")]
    pub persistence: Vec<f64>,
    /// The first of `rmse` over the first of `persistence`; none where that makes no error.
    #[serde(with = "crate::floats::maybe")]
    pub ratio: Option<f64>,
}

/// More epochs than were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Optimiser steps until then.
    pub step: usize,
    /// Epochs that were planned.
    pub planned: usize,
    /// Epochs that are planned since.
    pub epochs: usize,
}

/// An epoch in numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: usize,
    /// Optimiser steps until its end.
    pub steps: usize,
    /// Mean over the epoch's batches.
    #[serde(with = "crate::floats")]
    pub train_loss: f64,
    /// Error at lead 1 over persistence's, mean over the channels that have such a ratio.
    #[serde(with = "crate::floats::maybe")]
    pub validation_ratio: Option<f64>,
    /// Of the next step.
    #[serde(with = "crate::floats")]
    pub learning_rate: f64,
    /// Training and validation, by the process that ended the epoch.
    #[serde(with = "crate::floats")]
    pub seconds: f64,
}

/// What both loaders did, in the process that ended the run.
#[derive(Clone, Debug, Serialize)]
pub struct LoaderReport {
    /// Of the training loader.
    pub train: Loading,
    /// Of the validation loader.
    pub validation: Loading,
}

/// Totals of a loader, and its host memory at the end.
#[derive(Clone, Debug, Serialize)]
pub struct Loading {
    /// What was read, and waited for.
    #[serde(flatten)]
    pub counters: LoaderCounters,
    /// What wet cells held that they should not, by channel.
    pub values: Vec<ChannelValues>,
    /// Buffers of planes.
    pub host_pool: HostPoolState,
}

impl Loading {
    /// As it is now.
    pub fn of(loader: &OceanLoader) -> Self {
        Self {
            counters: loader.counters(),
            values: loader.batcher().dataset().values(),
            host_pool: loader.batcher().host_pool(),
        }
    }
}

fn by_name<S: serde::Serializer>(skills: &[ChannelSkill], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(skills.iter().map(|skill| (&skill.name, skill)))
}

/// Scores with their channels' names and units.
pub fn skills(scores: &Scores, context: &BatchContext) -> Vec<ChannelSkill> {
    let named = context.prognostic().iter().enumerate();
    named
        .map(|(c, channel)| ChannelSkill {
            name: channel.name().to_owned(),
            unit: context.unit(c).map(str::to_owned),
            rmse: scores.model(c),
            persistence: scores.persistence(c),
            ratio: scores.ratio_of(c),
        })
        .collect()
}

impl<C: Serialize> Report<C> {
    /// Channels that persistence predicts at least as well at lead 1; those whose error is not a
    /// number are among them, but not those without a cell that counts.
    pub fn unskilled(&self) -> Vec<&str> {
        let better = |s: &&ChannelSkill| s.rmse[0] < s.persistence[0] || s.persistence[0].is_nan();
        let unskilled = self.validation.iter().filter(|s| !better(s));
        unskilled.map(|s| s.name.as_str()).collect()
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        files::put(path, |to| Ok(std::fs::write(to, text)?))
    }
}

/// The most lines of a table; with more channels and leads, only the first and last lead are shown.
const LINES: usize = 60;

/// Channels and leads in aligned columns.
pub fn table(skills: &[ChannelSkill]) -> String {
    let leads = skills.first().map_or(0, |s| s.rmse.len());
    let shown: Vec<usize> = match leads * skills.len() <= LINES {
        true => (0..leads).collect(),
        false => vec![0, leads - 1],
    };
    let mut rows =
        vec![["channel", "unit", "lead", "RMSE", "persistence", "of it"].map(String::from)];
    for skill in skills {
        for (i, &lead) in shown.iter().enumerate() {
            let (rmse, held) = (skill.rmse[lead], skill.persistence[lead]);
            let once = |text: &str| {
                if i == 0 {
                    text.to_owned()
                } else {
                    String::new()
                }
            };
            rows.push([
                once(&skill.name),
                once(skill.unit.as_deref().unwrap_or("-")),
                (lead + 1).to_string(),
                number(rmse),
                number(held),
                share(rmse, held),
            ]);
        }
    }
    let width = |column: usize| {
        rows.iter()
            .map(|r| r[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4, 5].map(width);
    let mut text = String::new();
    for row in &rows {
        let [name, unit, numbers @ ..] = row;
        let _ = write!(text, "{name:<0$}  {unit:<1$}", widths[0], widths[1]);
        for (cell, width) in numbers.iter().zip(&widths[2..]) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

/// An error as a share of another, where that is one.
fn share(rmse: f64, held: f64) -> String {
    match rmse / held {
        ratio if ratio.is_finite() => format!("{:.0} %", 100.0 * ratio),
        _ => "-".into(),
    }
}

/// Three significant places or more.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.3}"),
        v if v >= 0.001 => format!("{value:.5}"),
        _ => format!("{value:.3e}"),
    }
}

/// A sentence or two on how reading went.
pub fn loader_summary(report: &LoaderReport) -> String {
    let (train, validation) = (&report.train.counters, &report.validation.counters);
    let sum = |f: fn(&LoaderCounters) -> u64| f(train) + f(validation);
    let (shown, read) = (sum(|c| c.planes_shown), sum(|c| c.planes_read));
    let waits = [train.wait, validation.wait];
    let wait: f64 = waits.iter().map(|w| w.first_seconds + w.seconds).sum();
    let reading = train.read_seconds + validation.read_seconds;
    let mut text = format!(
        "loader: {} batches, {read} planes read for {shown} shown ({:.2} of them), {:.1} MB stored; \
         {reading:.1} s reading, {wait:.1} s waited, at most {:.3} s after a pass's first batch",
        sum(|c| c.batches),
        read as f64 / shown.max(1) as f64,
        sum(|c| c.stored_bytes) as f64 / 1e6,
        waits[0].max.max(waits[1].max),
    );
    let missing = sum(|c| c.missing_chunks);
    if missing > 0 {
        let _ = write!(text, "; {missing} chunks missing");
    }
    for (loading, what) in [
        (&report.train, "training"),
        (&report.validation, "validation"),
    ] {
        for values in &loading.values {
            let _ = write!(text, "\n{what} data, {values}");
        }
    }
    text
}
