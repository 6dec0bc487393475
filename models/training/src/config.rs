//! What a run was asked for, with all defaults filled in.

use crate::checkpoint::Recipe;
use crate::network::Size;
use anyhow::Result;
use burn_om4::{Channel, DateRange};
use samudra::SamudraConfig;
use serde::Serialize;
use std::path::PathBuf;

/// The part `config` of `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct RunConfig {
    /// The store with the fields.
    pub data: PathBuf,
    /// Channels to predict.
    pub prognostic: Vec<Channel>,
    /// Channels that force them.
    pub boundary: Vec<Channel>,
    /// Times in the input beside the newest one.
    pub history: usize,
    /// Rollout steps.
    pub steps: usize,
    /// Rows of the store from one time of a window to the next.
    pub stride: usize,
    /// Windows per batch.
    pub batch_size: usize,
    /// Passes over the training windows.
    pub epochs: usize,
    /// Learning rate of the first step.
    pub lr: f64,
    /// Seed of the weights and of the order of windows.
    pub seed: u32,
    /// First and last day to train on.
    pub train_time: DateRange,
    /// First and last day to validate on.
    pub val_time: DateRange,
    /// Size of the network.
    pub model: Size,
    /// The network itself.
    pub network: SamudraConfig,
    /// Learned numbers in it.
    pub parameters: usize,
    /// Where it was trained.
    pub device: String,
    /// Batches read ahead.
    pub prefetch: usize,
    /// Threads that read and decode.
    pub readers: usize,
    /// Name of the store's time axis, where it is not `time`.
    pub time_name: Option<String>,
    /// Whether missing chunks, unusable statistics and values that would spoil a training are taken with
    /// a warning.
    pub lenient: bool,
    /// Share of a plane's ocean cells that may be NaN.
    pub max_nan_share: f64,
    /// Which of `world` processes this is, from 0.
    pub rank: usize,
    /// Number of processes.
    pub world: usize,
}

impl RunConfig {
    /// All that decides what is learned. Where the store lies, the device and how it is read do not. Nor
    /// do being lenient and the share of NaN: a stricter run learns the same or ends.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn recipe(&self) -> Result<Recipe> {
        let config = serde_json::to_value(self)?;
        let fields = config.as_object().into_iter().flatten();
        let incidental = [
            "data",
            "device",
            "prefetch",
            "readers",
            "lenient",
            "max_nan_share",
        ];
        let decides = |key: &str| !incidental.contains(&key);
        let kept = fields.filter(|(key, _)| decides(key));
        Ok(kept.map(|(k, v)| (k.clone(), v.to_string())).collect())
    }
}
