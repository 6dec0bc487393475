//! From paths to data sets: the one place that knows both stores and what is made of them.

use crate::dataset::ocean::{Ocean, OceanChannel};
use crate::dataset::ocean_dataset::OceanDataset;
use crate::dataset::options::DatasetOptions;
use crate::dataset::source::OceanPair;
use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::prepare::arithmetic::ChannelConstants;
use crate::store::om4_store::Store;
use crate::store::options::OpenOptions;
use crate::store::statistics::Statistics;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// # Errors
    /// A malformed store, a channel that the store or the statistics lack, a missing mask.
    ///
    /// What is odd without being an error is logged, and kept in `warnings`.
    pub fn open(paths: &Om4Paths, wanted: &[Channel], options: &OpenOptions) -> Result<Self> {
        let options = options.clone().with_channels(wanted.iter().cloned());
        let store = Store::open(&paths.data, &options)?;
        let statistics = Statistics::open(&paths.means, &paths.stds, &options)?;
        let mut channels = BTreeMap::new();
        for channel in wanted {
            let stats = statistics.get(channel)?;
            let wet = store.wet_mask(channel.mask_level())?;
            let constants = ChannelConstants {
                mean: stats.mean,
                std: stats.std,
                wet,
            };
            let unit = store.unit(channel).map(str::to_owned);
            channels.insert(channel.clone(), OceanChannel { constants, unit });
        }
        let warnings = [store.warnings(), statistics.warnings()].concat();
        for warning in &warnings {
            log::warn!("{}: {warning}", paths.data.display());
        }
        Ok(Self {
            warnings,
            time: store.time().clone(),
            grid: Arc::new(store.grid().clone()),
            surface: store.wet_mask(0)?,
            channels,
            planes: Arc::new(store),
        })
    }
}

impl DatasetOptions {
    /// How stores are opened.
    pub(crate) fn opening(&self) -> OpenOptions {
        OpenOptions::default()
            .with_strictness(self.strictness)
            .with_io(self.io)
    }
}

impl OceanDataset {
    /// Opens one store.
    ///
    /// # Errors
    /// Everything that [`Ocean::open`] refuses, days or windows that the store cannot serve.
    pub fn open(paths: &Om4Paths, options: &DatasetOptions) -> Result<Self> {
        options.check()?;
        let ocean = Ocean::open(paths, &options.wanted(), &options.opening())?;
        Self::from_oceans(
            vec![OceanPair {
                input: ocean,
                label: None,
            }],
            options,
        )
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
        let input = Ocean::open(paths, &options.wanted(), &how)?;
        let label = Ocean::open(labels, &options.prognostic, &how)?;
        Self::from_oceans(
            vec![OceanPair {
                input,
                label: Some(label),
            }],
            options,
        )
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
            input: Ocean::open(&self.input, &options.wanted(), &how)?,
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
        Self::from_oceans_with_strides(&pairs?, strides, options)
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
