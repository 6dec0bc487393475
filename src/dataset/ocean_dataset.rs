//! The data set: windows over one or several sources, checked once and then immutable.

use crate::dataset::context::BatchContext;
use crate::dataset::options::DatasetOptions;
use crate::dataset::planned::Planned;
use crate::dataset::source::{OceanPair, Source};
use crate::dataset::values::ChannelValues;
use crate::error::{Error, Result};
use crate::ocean::plane::PlaneShape;
use crate::order::fingerprint::Fingerprint;
use crate::order::groups::Groups;
use crate::plan::batch::{BatchPlan, Inputs};
use crate::plan::window::{Window, WindowOptions};
use burn::data::dataset::{Dataset, DatasetError};
use std::sync::{Arc, OnceLock};

/// Windows over one or several sources, in one index space: all windows of the first source, then
/// all of the second. Cheap to clone.
///
/// It is a Burn [`Dataset`] of light [`Window`]s; the planes are read by the batcher.
#[derive(Clone)]
pub struct OceanDataset {
    pub(crate) sources: Arc<[Arc<Source>]>,
    /// Index of each source's first window, and the total.
    offsets: Arc<Vec<usize>>,
    inputs: Inputs,
    /// Each once.
    warnings: Arc<Vec<String>>,
    pub(crate) fingerprint: Arc<OnceLock<Fingerprint>>,
}

impl OceanDataset {
    /// Makes a data set of opened sources.
    ///
    /// # Errors
    /// No source, a channel that a source lacks, days or windows that one cannot serve.
    pub fn from_oceans(pairs: Vec<OceanPair>, options: &DatasetOptions) -> Result<Self> {
        options.check()?;
        let window = |pair| (pair, options.window.clone());
        Self::from_windowed(pairs.into_iter().map(window).collect(), options)
    }

    /// Sources with their windows; those of the options do not count.
    pub(crate) fn from_windowed(
        parts: Vec<(OceanPair, WindowOptions)>,
        options: &DatasetOptions,
    ) -> Result<Self> {
        if parts.is_empty() {
            return Err(Error::config("a data set needs at least one source"));
        }
        let sources = parts
            .into_iter()
            .enumerate()
            .map(|(i, (pair, window))| Source::new(i, pair, window, options).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let mut offsets = vec![0];
        for source in &sources {
            offsets.push(offsets[offsets.len() - 1] + source.starts.len());
        }
        let mut warnings = Vec::new();
        for warning in sources.iter().flat_map(|source| &source.warnings) {
            add(&mut warnings, warning.clone());
        }
        Ok(Self {
            warnings: Arc::new(warnings),
            sources: sources.into(),
            offsets: Arc::new(offsets),
            inputs: options.inputs,
            fingerprint: Arc::default(),
        })
    }

    /// The window at `index`, if there is one.
    pub fn window(&self, index: usize) -> Option<Window> {
        let source = self
            .offsets
            .partition_point(|&first| first <= index)
            .checked_sub(1)?;
        let starts = &self.sources.get(source)?.starts;
        let start = *starts.get(index - self.offsets[source])?;
        Some(Window { source, start })
    }

    /// Windows over all sources.
    pub fn windows(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    /// The index space for a [`Schedule`](crate::Schedule): every source is a group of its own, so
    /// that no batch mixes sources, strides or grids.
    ///
    /// Sorted ([`GroupOrder`](crate::order::GroupOrder)) they come by the grid `(ny, nx)` of their
    /// inputs, smaller ones first, and on one grid as listed.
    pub fn groups(&self) -> Groups {
        let data_set = |s: &Arc<Source>| {
            let PlaneShape { ny, nx } = s.context.shape();
            (s.starts.len() as u64, (ny, nx, s.index))
        };
        let groups = Groups::by_key(self.sources.iter().map(data_set));
        groups.expect("a data set's windows are counted in usize")
    }

    /// Names, masks, grid and units of a source's batches.
    ///
    /// # Panics
    /// When there is no such source.
    pub fn context(&self, source: usize) -> &Arc<BatchContext> {
        &self.sources[source].context
    }

    /// What is odd about the sources without being an error, each once: what their stores say, and
    /// what the first planes of an opened store hold. What the other planes hold is in
    /// [`values`](Self::values) once they have been read.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// What was found so far in wet cells that should not be there, by channel: NaN, infinities,
    /// values too far from the mean. Empty where all is well, and before anything is read.
    ///
    /// Every plane that goes into a batch is looked at: where the host prepares, whenever it is read,
    /// on other devices when it is read for the first time. The first that is found of a kind in a
    /// channel is a warning ([`value_warnings`](Self::value_warnings)), and logged.
    pub fn values(&self) -> Vec<ChannelValues> {
        let groups = self.sources.iter().flat_map(|source| source.values.iter());
        groups.flat_map(|(_, values)| values.found()).collect()
    }

    /// What was said so far of values of the batches that were read, each once, in the order in which it
    /// was found: a channel is named with the first plane that holds NaN, an infinity or an extreme value
    /// in a wet cell. What [`warnings`](Self::warnings) says is not said again.
    pub fn value_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for warning in self.sources.iter().flat_map(|source| source.said()) {
            add(&mut warnings, warning);
        }
        warnings
    }

    /// The data set, after a look at the first planes of each source, which are there to be read.
    ///
    /// # Errors
    /// In strict mode: an infinity, or more NaN in wet cells than is allowed.
    pub(crate) fn looked_at(mut self) -> Result<Self> {
        let mut warnings = self.warnings.to_vec();
        for (i, source) in self.sources.iter().enumerate() {
            // Windows of another stride over the same store.
            let planes = &source.groups.prognostic.planes;
            let same = |other: &Arc<Source>| Arc::ptr_eq(&other.groups.prognostic.planes, planes);
            if self.sources[..i].iter().any(same) {
                continue;
            }
            for warning in source.first_look()? {
                log::warn!("{warning}");
                add(&mut warnings, warning);
            }
        }
        self.warnings = Arc::new(warnings);
        Ok(self)
    }

    /// What a batch of these windows reads, and how its tensors are put together.
    ///
    /// # Errors
    /// No window, an unknown source, or windows of several sources in one batch.
    pub fn plan(&self, windows: &[Window]) -> Result<BatchPlan> {
        self.source_of(windows)?.plan(windows, self.inputs)
    }

    /// The same, with what the batch is planned from.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub(crate) fn planned(&self, windows: Vec<Window>) -> Result<Planned> {
        let source = self.source_of(&windows)?.clone();
        let plan = source.plan(&windows, self.inputs)?;
        Ok(Planned {
            source,
            windows,
            plan,
        })
    }

    fn source_of(&self, windows: &[Window]) -> Result<&Arc<Source>> {
        let first = windows
            .first()
            .ok_or_else(|| Error::config("a batch of no windows"))?;
        if let Some(other) = windows.iter().find(|w| w.source != first.source) {
            return Err(Error::config("a batch mixes windows of several sources")
                .expected(format!("source {}", first.source))
                .found(format!("source {}", other.source)));
        }
        self.sources.get(first.source).ok_or_else(|| {
            Error::config("a window of an unknown source")
                .expected(format!("one of {} sources", self.sources.len()))
                .found(first.source)
        })
    }
}

/// Adds a warning, unless it is there.
fn add(warnings: &mut Vec<String>, warning: String) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

impl Dataset<Window> for OceanDataset {
    /// The window at `index`.
    ///
    /// # Panics
    /// When there is no such window; [`OceanDataset::window`] answers `None`.
    fn get(&self, index: usize) -> Result<Window, DatasetError> {
        let window = self.window(index);
        Ok(window.unwrap_or_else(|| panic!("window {index} of {}", self.windows())))
    }

    fn len(&self) -> usize {
        self.windows()
    }
}
