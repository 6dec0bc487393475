//! The options of a run, as the command line gives them.

use crate::network::Size;
use crate::output::Voice;
use crate::ranks::Rank;
use anyhow::Result;
use burn_om4::{Channel, DateRange, DeviceChoice, ReadMethod, parse_channels};
use clap::Parser;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Trains a Samudra ocean emulator and compares it with persistence.
///
/// Without arguments it makes a small ocean of its own, learns it, and says how well: a check of the
/// whole path that takes minutes on a CPU.
#[derive(Parser, Clone, Debug)]
#[command(name = "samudra_train", version)]
pub struct Options {
    /// Folder that holds OM4.zarr, OM4_means.zarr and OM4_stds.zarr [default: a small ocean, written
    /// once to target/demo_ocean].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Channels to predict: a preset or a comma-separated list [default: thermo_dynamic_all; with
    /// the small ocean its own five].
    #[arg(long, value_name = "LIST")]
    pub prognostic: Option<Channels>,

    /// Channels that drive them: a preset or a comma-separated list [default: tau_hfds].
    #[arg(long, value_name = "LIST")]
    pub boundary: Option<Channels>,

    /// Times in the input beside the newest one.
    // `--hist` is the older name, which scripts use.
    #[arg(long, value_name = "N", alias = "hist", default_value_t = 1)]
    pub history: usize,

    /// Rollout steps of training and validation; each predicts history + 1 times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub steps: usize,

    /// Rows of the store from one time of a window to the next.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub stride: usize,

    /// Windows per batch.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub batch_size: usize,

    /// Passes over the training windows [default: tiny as many as make 432 steps, others 70].
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,

    /// Learning rate at the start; it falls to zero along half a cosine until the last step
    /// [default: tiny 0.005, others 0.0006].
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,

    /// Seed of the weights and of the order of windows.
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub seed: u32,

    /// First and last day to train on, such as 1975-01-01..2012-12-31. Give both ranges or neither
    /// [default: the first 80 % of the rows].
    #[arg(long, value_name = "A..B", requires = "val_time")]
    pub train_time: Option<DateRange>,

    /// First and last day to validate on [default: the last 20 % of the rows].
    #[arg(long, value_name = "A..B", requires = "train_time")]
    pub val_time: Option<DateRange>,

    /// Size of the network; the others are the published ones.
    #[arg(long, value_enum, default_value_t = Size::Tiny)]
    pub model: Size,

    /// auto, cpu, cuda, cuda:N or vulkan.
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,

    /// Batches read ahead; 0 reads each when it is asked for.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub prefetch: usize,

    /// Threads that read and decode [default: one per core].
    #[arg(long, value_name = "N")]
    pub readers: Option<NonZeroUsize>,

    /// By which system calls chunks are read: pread, mmap, direct or io_uring.
    #[arg(long, value_name = "METHOD", default_value_t = ReadMethod::default())]
    pub io: ReadMethod,

    /// Name of the store's time dimension and coordinate [default: time].
    #[arg(long, value_name = "NAME")]
    pub time_name: Option<String>,

    /// Take missing chunks as their fill value, and unusable statistics and values that would spoil a
    /// training with a warning, where without this all are errors.
    #[arg(long)]
    pub lenient: bool,

    /// Share of a plane's ocean cells that may be NaN; more is an error, or a warning with --lenient.
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub max_nan_share: f64,

    /// Steps from one checkpoint to the next [default: one when told to stop by SIGTERM or SIGUSR1].
    #[arg(long, value_name = "N")]
    pub save_every: Option<NonZeroUsize>,

    /// Go on from the newest checkpoint in the --out folder; from the beginning if there is none.
    #[arg(long)]
    pub resume: bool,

    /// With --resume, lets --epochs be more than the checkpoint's run had planned, finished or not. The
    /// learning rate goes on along the half cosine of the longer plan, so it rises where it goes on.
    #[arg(long, requires = "resume", requires = "epochs")]
    pub extend: bool,

    /// Which of --world processes this is, from 0: it takes its share of the training batches, trains
    /// a network of its own (no gradients are exchanged) and writes to its own folder inside --out
    /// [default: SLURM_PROCID, else 0].
    #[arg(long, value_name = "N", requires = "world")]
    pub rank: Option<usize>,

    /// Number of processes [default: SLURM_NTASKS, else 1].
    #[arg(long, value_name = "N", requires = "rank")]
    pub world: Option<usize>,

    /// Folder for checkpoints, weights, maps and, unless --report says otherwise, the report.
    #[arg(long, value_name = "DIR", default_value = "target/samudra_train")]
    pub out: PathBuf,

    /// The report [default: report.json in the --out folder].
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Where to write when each training batch was read, uploaded, prepared and used, as a trace for
    /// chrome://tracing and Perfetto; also when the run is told to stop or fails.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Print warnings and failures alone.
    #[arg(long, short)]
    pub quiet: bool,

    /// What is odd about the options and the environment.
    #[arg(skip)]
    pub warnings: Vec<String>,
}

impl Options {
    /// Whether to tell how it goes.
    pub fn voice(&self) -> Voice {
        match self.quiet {
            true => Voice::Quiet,
            false => Voice::Talking,
        }
    }

    /// With the rank and the world that the options or else the environment (`variable`) say, and a
    /// folder and files of its own for each of several ranks.
    ///
    /// # Errors
    /// Half an answer, no number, or a rank that is not below the world.
    pub fn of_rank(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let found = Rank::find(self.rank, self.world, &variable)?;
        let Rank { rank, world } = found;
        if self.rank.is_none() {
            self.warnings.extend(found.alone(&variable));
        }
        (self.rank, self.world) = (Some(rank), Some(world));
        if world > 1 {
            self.out = self.out.join(format!("rank-{rank}"));
            for file in [&mut self.report, &mut self.trace].into_iter().flatten() {
                *file = file_of_rank(file, rank);
            }
        }
        Ok(self)
    }
}

/// The file's own one for a rank: `trace.json` is `trace.rank-2.json`.
fn file_of_rank(file: &Path, rank: usize) -> PathBuf {
    let mut own = file.file_stem().unwrap_or_default().to_owned();
    own.push(format!(".rank-{rank}"));
    if let Some(extension) = file.extension() {
        own.push(".");
        own.push(extension);
    }
    file.with_file_name(own)
}

/// Channels by a preset's name or by their own.
#[derive(Clone, Debug)]
pub struct Channels(pub Vec<Channel>);

impl FromStr for Channels {
    type Err = burn_om4::Error;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        parse_channels(text).map(Self)
    }
}
