//! The data: from options to loaders that train and validate.

use crate::options::{Channels, Options};
use anyhow::{Context, Result, bail, ensure};
use burn::tensor::Device;
use burn_om4::{
    Channel, DatasetOptions, DateRange, DeriveOptions, OceanDataset, OceanLoader, Om4Paths, Order,
    PRESETS, PrefetchOptions, Strictness, WindowOptions, preset,
};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to learn: a store, its channels, and its days.
#[derive(Clone, Debug)]
pub struct Task {
    /// The stores.
    pub paths: Om4Paths,
    /// Channels, windows, and how the store is opened and read; not the days.
    pub dataset: DatasetOptions,
    /// First and last day to train on.
    pub train_time: DateRange,
    /// First and last day to validate on.
    pub val_time: DateRange,
}

/// What a task takes where the options are silent.
pub struct Defaults<'a> {
    /// Channels to predict: a preset or a comma-separated list.
    pub prognostic: &'a str,
    /// Channels that force them.
    pub boundary: &'a str,
    /// Days to train and to validate on; `None` cuts the store's rows 80 to 20.
    pub times: Option<[&'a str; 2]>,
}

/// Channels of the published runs.
pub const PUBLISHED: Defaults = Defaults {
    prognostic: "thermo_dynamic_all",
    boundary: "tau_hfds",
    times: None,
};

impl Task {
    /// The store in `dir`, by the options.
    ///
    /// # Errors
    /// A store that cannot be opened, where the days to use depend on it.
    pub fn new(dir: &Path, options: &Options, defaults: &Defaults) -> Result<Self> {
        let paths = Om4Paths::in_dir(dir);
        ensure!(
            paths.data.is_dir(),
            "{} is not there: --data names the folder that holds OM4.zarr, OM4_means.zarr and \
             OM4_stds.zarr",
            paths.data.display()
        );
        let listed = |given: &Option<Channels>, default: &str| match given {
            Some(channels) => Ok(channels.0.clone()),
            None => burn_om4::parse_channels(default),
        };
        let prognostic = listed(&options.prognostic, defaults.prognostic)?;
        let boundary = listed(&options.boundary, defaults.boundary)?;
        let window = WindowOptions::default()
            .with_history(options.history)
            .with_steps(options.steps)
            .with_stride(options.stride);
        let strictness = match options.lenient {
            true => Strictness::Lenient,
            false => Strictness::Strict,
        };
        let mut dataset = DatasetOptions::new(prognostic, boundary)
            .with_window(window)
            .with_io(options.io)
            .with_strictness(strictness)
            .with_derive(derive(&options.out))
            .with_max_nan_share(options.max_nan_share);
        if let Some(name) = &options.time_name {
            dataset = dataset.with_time_name(name);
        }
        let times = match (options.train_time, options.val_time, defaults.times) {
            (Some(train), Some(val), _) => [train, val],
            (None, None, Some([train, val])) => [train.parse()?, val.parse()?],
            (None, None, None) => cut(&OceanDataset::open(&paths, &dataset)?)?,
            _ => bail!("give both --train-time and --val-time, or neither"),
        };
        let [train_time, val_time] = times;
        Ok(Self {
            paths,
            dataset,
            train_time,
            val_time,
        })
    }

    fn open(&self, time: DateRange) -> Result<OceanDataset> {
        let options = self.dataset.clone().with_time(time);
        Ok(OceanDataset::open(&self.paths, &options)?)
    }
}

/// What is derived is kept in the run's folder; whoever waits for it is told.
fn derive(out: &Path) -> DeriveOptions {
    let told = AtomicU64::new(0);
    let options = DeriveOptions::default().with_cache(out.join("derived"));
    options.with_progress(move |channel, read, of| {
        let tenths = 10 * read / of;
        if told.swap(tenths, Ordering::Relaxed) != tenths {
            eprintln!("{channel} is derived: {tenths}0 % of the planes it needs are read");
        }
    })
}

/// The first 80 % and the last 20 % of a store's rows.
fn cut(dataset: &OceanDataset) -> Result<[DateRange; 2]> {
    let time = dataset.context(0).time();
    let first = time.len() * 4 / 5;
    ensure!(
        first > 0 && time.date(first - 1) < time.date(first),
        "the store's rows cannot be cut between two days: give --train-time and --val-time"
    );
    let range = |start, end| DateRange {
        start: time.date(start),
        end: time.date(end),
    };
    Ok([range(0, first - 1), range(first, time.len() - 1)])
}

/// Batches to learn from, and batches to be judged by.
pub struct Loaders {
    /// Shuffled; the share of this rank.
    pub train: OceanLoader,
    /// Every window, in order.
    pub validation: OceanLoader,
}

impl Loaders {
    /// Opens the store once for each.
    ///
    /// # Errors
    /// A malformed store, a missing channel, too few rows for a window.
    pub fn open(task: &Task, options: &Options, device: &Device) -> Result<Self> {
        let loader = |time, order, rank, world| -> Result<OceanLoader> {
            // Nothing is dropped: a short batch comes last, and counts its windows only.
            let loader = OceanLoader::builder(task.open(time)?)
                .order(order)
                .seed(i64::from(options.seed))
                .batch_size(options.batch_size)
                .rank(rank, world)
                .prefetch(PrefetchOptions::default().with_batches(options.prefetch));
            Ok(loader.build(device)?)
        };
        let (rank, world) = (options.rank.unwrap_or(0), options.world.unwrap_or(1));
        let train = loader(task.train_time, Order::Shuffled, rank, world)
            .with_context(|| format!("windows to train on, {}", task.train_time))?;
        let validation = loader(task.val_time, Order::Sequential, 0, 1)
            .with_context(|| format!("windows to validate on, {}", task.val_time))?;
        Ok(Self { train, validation })
    }

    /// What is odd about the stores, and what makes the loaders slower than they could be; each once.
    ///
    /// # Errors
    /// The first batch cannot be planned.
    pub fn warnings(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (what, loader) in [("training", &self.train), ("validation", &self.validation)] {
            all.extend(loader.batcher().dataset().warnings().map(str::to_owned));
            let slow = loader.warnings()?;
            all.extend(
                slow.into_iter()
                    .map(|warning| format!("{what} loader: {warning}")),
            );
        }
        let mut seen = HashSet::new();
        all.retain(|warning| seen.insert(warning.clone()));
        Ok(all)
    }

    /// What was found so far in the values of batches, each once.
    pub fn found(&self) -> Vec<String> {
        let of = |loader: &OceanLoader| loader.batcher().dataset().value_warnings();
        let mut all = of(&self.train);
        for warning in of(&self.validation) {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
        all
    }
}

/// A list of channels, or the name of the preset that a long list is.
pub fn describe(channels: &[Channel]) -> String {
    let same = |name: &&&str| preset(name).as_deref() == Some(channels);
    match PRESETS.iter().filter(|_| channels.len() > 6).find(same) {
        Some(name) => format!("{name} ({} channels)", channels.len()),
        None => channels
            .iter()
            .map(Channel::name)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
