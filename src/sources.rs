//! Data sets of several stores and strides, in one index space.

use crate::dataset::{DatasetOptions, OceanDataset, OceanPair};
use crate::error::{Error, Result};
use crate::ocean::{Ocean, Om4Paths};
use crate::window::WindowSpec;

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
    /// Opens several stores, and lays windows of several strides over each: all windows of the first
    /// stride, source after source, then all of the second. Each store is opened once.
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
            let window = WindowSpec {
                stride,
                ..options.window.clone()
            };
            window.validate()?;
            parts.extend(pairs.iter().map(|pair| (pair.clone(), window.clone())));
        }
        Self::from_parts(parts, options)
    }
}
