//! From paths to data sets: the one place that knows both stores and what is made of them.

use crate::dataset::ocean::{Ocean, OceanChannel};
use crate::dataset::ocean_dataset::OceanDataset;
use crate::dataset::options::DatasetOptions;
use crate::dataset::source::OceanPair;
use crate::derive::anomalies::{Anomaly, WithAnomalies};
use crate::derive::climatology::{Climatology, Reading};
use crate::derive::days::Days;
use crate::derive::kept::{Found, Kept};
use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::PlaneSource;
use crate::options::DeriveOptions;
use crate::order::fingerprint::FingerprintPart;
use crate::prepare::arithmetic::ChannelConstants;
use crate::store::om4_store::Store;
use crate::store::options::OpenOptions;
use crate::store::statistics::{ChannelStats, Statistics};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Where a store and its statistics lie.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Om4Paths {
    /// The fields.
    pub data: PathBuf,
    /// Mean of every channel.
    pub means: PathBuf,
    /// Standard deviation of every channel.
    pub stds: PathBuf,
}

impl Om4Paths {
    /// `OM4.zarr`, `OM4_means.zarr` and `OM4_stds.zarr` in one folder, as they are published.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Self {
            data: dir.join("OM4.zarr"),
            means: dir.join("OM4_means.zarr"),
            stds: dir.join("OM4_stds.zarr"),
        }
    }
}

impl Ocean {
    /// Opens a store and the statistics of `wanted` channels; those of `options` do not count.
    ///
    /// A channel `X_anomalies` that the store lacks while it has `X` is derived: `X` less its mean by
    /// day of the year, over all rows of the store, in its own calendar. Its mean and standard
    /// deviation are those of all its values, land and ocean alike, as far as they are not NaN;
    /// statistics in `paths` do not count for it. This reads `X` three times, unless
    /// [`DeriveOptions::cache`] has what came out of it.
    ///
    /// # Errors
    /// A malformed store, a channel that the store or the statistics lack, a missing mask.
    ///
    /// What is odd without being an error is logged, and kept in `warnings`.
    pub fn open(paths: &Om4Paths, wanted: &[Channel], options: &OpenOptions) -> Result<Self> {
        let Om4Paths { data, means, stds } = paths;
        let statistics = |options: &OpenOptions| Statistics::open(means, stds, options);
        Self::open_channels(data, &statistics, wanted, options, &|_| false)
    }

    /// As [`open`](Self::open), with statistics in hand: those that
    /// [`compute_statistics`](crate::survey::compute_statistics) made of a store that has none, say.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_statistics(
        data: impl AsRef<Path>,
        statistics: &Statistics,
        wanted: &[Channel],
        options: &OpenOptions,
    ) -> Result<Self> {
        let statistics = |_: &OpenOptions| Ok(statistics.clone());
        Self::open_channels(data.as_ref(), &statistics, wanted, options, &|_| false)
    }

    /// The same for the channels of a data set. Those that are boundaries alone need no mask of their
    /// own level, which their name may only seem to have (`u_10`): theirs is that of the surface.
    fn open_for(paths: &Om4Paths, options: &DatasetOptions) -> Result<Self> {
        let Om4Paths { data, means, stds } = paths;
        let statistics = |options: &OpenOptions| Statistics::open(means, stds, options);
        let boundary = |channel: &Channel| !options.prognostic.contains(channel);
        let (wanted, opening) = (options.wanted(), options.opening());
        Self::open_channels(data, &statistics, &wanted, &opening, &boundary)
    }

    /// Channels of which `at_surface` holds have the mask of the surface.
    fn open_channels(
        data: &Path,
        statistics: &dyn Fn(&OpenOptions) -> Result<Statistics>,
        wanted: &[Channel],
        options: &OpenOptions,
        at_surface: &dyn Fn(&Channel) -> bool,
    ) -> Result<Self> {
        let derived = derived(data, wanted, options)?;
        let is_stored = |channel: &&Channel| derived.iter().all(|d| d.channel != **channel);
        let stored: Vec<Channel> = wanted.iter().filter(is_stored).cloned().collect();
        let bases = derived.iter().map(|d| d.base.clone());
        let read: Vec<Channel> = stored.iter().cloned().chain(bases).collect();
        let store = Store::open(data, &options.clone().with_channels(read))?;
        let with_statistics = options.clone().with_channels(stored.iter().cloned());
        let statistics = statistics(&with_statistics)?;
        let mut warnings = [store.warnings(), statistics.warnings()].concat();
        let mut channels = BTreeMap::new();
        let mut add = |channel: &Channel, stats: ChannelStats, unit_of: &Channel| -> Result<()> {
            let level = match at_surface(channel) {
                true => 0,
                false => channel.mask_level(),
            };
            let constants = ChannelConstants {
                mean: stats.mean,
                std: stats.std,
                wet: store.wet_mask(level)?,
            };
            let unit = store.unit(unit_of).map(str::to_owned);
            channels.insert(channel.clone(), OceanChannel { constants, unit });
            Ok(())
        };
        for channel in &stored {
            add(channel, statistics.get(channel)?, channel)?;
        }
        let mut anomalies = Vec::new();
        for derived in derived {
            let climatology = derived.climatology(&store, &options.derive, &mut warnings)?;
            let stats = ChannelStats {
                mean: climatology.mean,
                std: climatology.std,
            };
            let channel = derived.channel;
            let checked = Statistics::from_values([(channel.clone(), stats)], options.strictness);
            let stats = checked.get(&channel).map_err(|e| e.store(store.path()))?;
            add(&channel, stats, &derived.base)?;
            anomalies.push(Anomaly {
                channel,
                base: store.position(&derived.base)?,
                climatology,
            });
        }
        let of_store = |warning: String| format!("{}: {warning}", data.display());
        let warnings: Vec<String> = warnings.into_iter().map(of_store).collect();
        for warning in &warnings {
            log::warn!("{warning}");
        }
        let (time, grid) = (store.time().clone(), Arc::new(store.grid().clone()));
        let surface = store.wet_mask(0)?;
        let store: Arc<dyn PlaneSource> = Arc::new(store);
        Ok(Self {
            warnings,
            time,
            grid,
            surface,
            channels,
            planes: match anomalies.is_empty() {
                true => store,
                false => Arc::new(WithAnomalies::new(store, anomalies)),
            },
        })
    }
}

/// A channel that the store lacks, and the one that it follows from.
struct Derived {
    channel: Channel,
    base: Channel,
}

/// The wanted channels that are derived. What can be neither read nor derived is left to
/// [`Store::open`], which refuses it.
fn derived(path: &Path, wanted: &[Channel], options: &OpenOptions) -> Result<Vec<Derived>> {
    let mut derived = Vec::new();
    for channel in wanted {
        let Some(base) = channel.name().strip_suffix("_anomalies") else {
            continue;
        };
        let Ok(base) = base.parse() else { continue };
        let there = |channel| Store::names(path, channel, options);
        if !there(channel)? && there(&base)? {
            let channel = channel.clone();
            derived.push(Derived { channel, base });
        }
    }
    Ok(derived)
}

impl Derived {
    /// The climatology of the base: from the file that keeps it, or computed.
    ///
    /// A file that cannot be used is no error, since it can be done without: it becomes a warning.
    ///
    /// # Errors
    /// The base cannot be read.
    fn climatology(
        &self,
        store: &Store,
        options: &DeriveOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Climatology> {
        let shape = store.grid().shape();
        let days = Days::of(store.time());
        let kept = match &options.cache {
            None => None,
            Some(folder) => {
                let source = self.digest(store)?;
                Some(Kept::new(folder, &self.channel, &source, &days, shape))
            }
        };
        if let Some(kept) = &kept {
            let again = |why: String| format!("{}: {why}; computed again", kept.path().display());
            match kept.read(&days, shape) {
                Ok(Found::Climatology(climatology)) => return Ok(climatology),
                Ok(Found::Nothing) => {}
                Ok(Found::Damaged(damage)) => warnings.push(again(damage)),
                Err(e) => warnings.push(again(format!("{e:?}"))),
            }
        }
        let channel = self.channel.name();
        log::info!(
            "{}: {channel} is not there and is derived from {}",
            store.path().display(),
            self.base
        );
        let rows = store.time().len() as u64;
        let told = |read| {
            if let Some(progress) = &options.progress {
                progress.tell(channel, read, Reading::PASSES * rows);
            }
        };
        let reading = Reading {
            planes: store,
            channel: store.position(&self.base)?,
            told: &told,
        };
        let climatology = Climatology::compute(&reading, days)?;
        if let Some(Err(e)) = kept.map(|kept| kept.write(&climatology)) {
            warnings.push(format!("{e:?}; {channel} will be computed again"));
        }
        Ok(climatology)
    }

    /// What the climatology depends on: times, and the files of the base with their sizes and the
    /// time of their last change. Where the store lies does not matter.
    fn digest(&self, store: &Store) -> Result<String> {
        let mut part = FingerprintPart::default();
        part.text(store.time().calendar().name())
            .i64s(store.time().micros())
            .text(self.base.name());
        store.stamp(&self.base, &mut |file| {
            let found = file.found.map(|(size, changed)| {
                let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
                [size, since.as_secs(), since.subsec_nanos().into()]
            });
            part.text(file.key);
            part.u64s(found.as_ref().map_or(&[], |numbers| numbers));
        })?;
        Ok(part.finish())
    }
}

impl DatasetOptions {
    /// How stores are opened.
    pub(crate) fn opening(&self) -> OpenOptions {
        let mut options = OpenOptions::default()
            .with_strictness(self.strictness)
            .with_io(self.io)
            .with_derive(self.derive.clone())
            .with_limits(self.limits);
        options.time_name = self.time_name.clone();
        options
    }
}

impl OceanDataset {
    /// Opens one store, and looks at one plane for each mask, of the first row that will be used:
    /// what is odd about it is among the [`warnings`](Self::warnings).
    ///
    /// # Errors
    /// Everything that [`Ocean::open`] refuses, days or windows that the store cannot serve; in strict
    /// mode, a plane whose wet cells are infinite or too often NaN, as where a mask is inverted.
    pub fn open(paths: &Om4Paths, options: &DatasetOptions) -> Result<Self> {
        options.check()?;
        let input = Ocean::open_for(paths, options)?;
        let pair = OceanPair { input, label: None };
        Self::from_oceans(vec![pair], options)?.looked_at()
    }

    /// Opens one store for inputs and boundaries and another, of any grid, for labels. Rows are
    /// matched by their date.
    ///
    /// # Errors
    /// As [`open`](Self::open), and label times that do not match the input times.
    pub fn open_with_labels(
        paths: &Om4Paths,
        labels: &Om4Paths,
        options: &DatasetOptions,
    ) -> Result<Self> {
        options.check()?;
        let how = options.opening();
        let input = Ocean::open_for(paths, options)?;
        let label = Some(Ocean::open(labels, &options.prognostic, &how)?);
        Self::from_oceans(vec![OceanPair { input, label }], options)?.looked_at()
    }
}

/// Stores that belong together: inputs and boundaries, and labels when those have a store of their
/// own.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Om4Source {
    /// Inputs and boundaries.
    pub input: Om4Paths,
    /// Labels, of any grid; those of `input` when absent.
    #[serde(default)]
    pub labels: Option<Om4Paths>,
}

impl Om4Source {
    /// Labels from the same store.
    pub fn new(input: Om4Paths) -> Self {
        Self {
            input,
            labels: None,
        }
    }

    /// Labels from a store of their own.
    pub fn with_labels(mut self, labels: Om4Paths) -> Self {
        self.labels = Some(labels);
        self
    }

    fn open(&self, options: &DatasetOptions) -> Result<OceanPair> {
        let label = self.labels.as_ref();
        let how = options.opening();
        Ok(OceanPair {
            input: Ocean::open_for(&self.input, options)?,
            label: label
                .map(|paths| Ocean::open(paths, &options.prognostic, &how))
                .transpose()?,
        })
    }
}

impl OceanDataset {
    /// Opens several stores, and lays windows of several strides over each: all windows of the
    /// first stride, source after source, then all of the second. Each store is opened once.
    ///
    /// `options.window.stride` does not count. Every (stride, source) is a source of its own: the
    /// position in this order is [`Window::source`](crate::Window::source), and a batch holds
    /// windows of one.
    ///
    /// # Errors
    /// As [`OceanDataset::open`] and [`OceanDataset::open_with_labels`]; no source, or no stride.
    pub fn open_many(
        sources: &[Om4Source],
        strides: &[usize],
        options: &DatasetOptions,
    ) -> Result<Self> {
        options.check()?;
        let pairs: Result<Vec<_>> = sources.iter().map(|s| s.open(options)).collect();
        Self::from_oceans_with_strides(&pairs?, strides, options)?.looked_at()
    }

    /// As [`open_many`](Self::open_many), of opened sources.
    ///
    /// # Errors
    /// As [`OceanDataset::from_oceans`]; no stride.
    pub fn from_oceans_with_strides(
        pairs: &[OceanPair],
        strides: &[usize],
        options: &DatasetOptions,
    ) -> Result<Self> {
        options.check()?;
        if strides.is_empty() {
            return Err(Error::config("a data set needs at least one stride"));
        }
        let mut parts = Vec::with_capacity(strides.len() * pairs.len());
        for &stride in strides {
            let window = options.window.clone().with_stride(stride);
            window.validate()?;
            parts.extend(pairs.iter().map(|pair| (pair.clone(), window.clone())));
        }
        Self::from_windowed(parts, options)
    }
}
