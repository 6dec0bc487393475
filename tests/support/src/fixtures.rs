//! The batches of the original Python that lie beside the project: a manifest of cases, the stores they
//! read, and what came out.

use crate::shared;
use burn::tensor::Device;
use burn_om4::{
    Channel, DatasetOptions, Date, DateRange, Inputs, MaskOrder, OceanBatcher, OceanDataset,
    OceanLoader, Om4Paths, Order, PrefetchOptions, ReadMethod, Result, Schedule, ScheduleOptions,
    Strictness, WindowOptions,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of cases, with or without what is expected of them ([`GoldenCase`], [`Case`]).
#[derive(Deserialize)]
pub struct Manifest<C = GoldenCase> {
    /// The data sets behind the stores, by name.
    #[serde(default)]
    pub datasets: BTreeMap<String, SyntheticOcean>,
    pub cases: Vec<C>,
}

/// How the stores of a data set were made.
#[derive(Deserialize)]
pub struct SyntheticOcean {
    pub params: OceanParams,
}

/// Every fifth day at noon has a row.
#[derive(Deserialize)]
pub struct OceanParams {
    /// Date of the first row.
    pub start: String,
    /// Rows.
    pub nt: usize,
}

/// A batch of the original: which channels and windows, from which stores.
#[derive(Deserialize)]
pub struct Case {
    pub id: String,
    pub prognostic: Vec<String>,
    pub boundary: Vec<String>,
    /// The original's word.
    #[serde(rename = "hist")]
    pub history: usize,
    pub steps: usize,
    pub stride: usize,
    /// Windows of the batch.
    pub indices: Vec<u64>,
    pub normalize_before_mask: bool,
    pub masked_fill_value: f32,
    /// First and last date.
    pub time_slice: Option<[Date; 2]>,
    /// Folders of stores that hold the same values, relative to the manifest's.
    pub stores: Vec<PathBuf>,
    /// Where labels come from, if not from the store itself.
    pub label_stores: Option<Vec<PathBuf>>,
}

/// A case and what is expected of it.
#[derive(Deserialize)]
pub struct GoldenCase {
    #[serde(flatten)]
    pub case: Case,
    #[serde(flatten)]
    pub expected: Expected,
}

/// What the original said about a case.
#[derive(Deserialize)]
pub struct Expected {
    /// Name in [`Manifest::datasets`].
    pub dataset: String,
    /// Windows.
    pub length: usize,
    /// First row of the time slice.
    pub store_time_offset: usize,
    /// Rows of the time slice.
    pub slice_len: usize,
    /// `[step][sample][time]`
    pub input_time_indices: Vec<Vec<Vec<usize>>>,
    /// `[step][sample][time]`
    pub label_time_indices: Vec<Vec<Vec<usize>>>,
    /// How near the values have to be.
    pub tolerance: String,
}

impl Case {
    /// The windows.
    pub fn window(&self) -> WindowOptions {
        WindowOptions::default()
            .with_history(self.history)
            .with_steps(self.steps)
            .with_stride(self.stride)
    }

    /// Everything but the paths, reading by `io`.
    ///
    /// # Errors
    /// A name that is no channel.
    pub fn options(&self, io: ReadMethod) -> Result<DatasetOptions> {
        let channels = |names: &[String]| -> Result<Vec<Channel>> {
            names.iter().map(|n| n.parse()).collect()
        };
        let order = match self.normalize_before_mask {
            true => MaskOrder::NormaliseFirst,
            false => MaskOrder::MaskFirst,
        };
        let options = DatasetOptions::new(channels(&self.prognostic)?, channels(&self.boundary)?)
            .with_window(self.window())
            .with_mask_order(order)
            .with_masked_fill_value(self.masked_fill_value)
            .with_inputs(Inputs::All)
            .with_strictness(Strictness::Lenient)
            .with_io(io);
        Ok(match self.time_slice {
            Some([start, end]) => options.with_time(DateRange { start, end }),
            None => options,
        })
    }

    /// Opens the case on one of its stores; `root` is the manifest's folder.
    ///
    /// # Errors
    /// What does not open.
    ///
    /// # Panics
    /// If there is no such store.
    pub fn open(&self, root: &Path, store: usize, io: ReadMethod) -> Result<OceanDataset> {
        let options = self.options(io)?;
        let paths = Om4Paths::in_dir(root.join(&self.stores[store]));
        match self.label_stores.as_deref() {
            None | Some([]) => OceanDataset::open(&paths, &options),
            Some(labels) => {
                let labels = Om4Paths::in_dir(root.join(&labels[store % labels.len()]));
                OceanDataset::open_with_labels(&paths, &labels, &options)
            }
        }
    }

    /// A loader whose only batch is the case's.
    ///
    /// # Errors
    /// Windows that the data set does not have.
    pub fn loader(&self, batcher: OceanBatcher, device: &Device) -> Result<OceanLoader> {
        let spec = ScheduleOptions::default()
            .with_order(Order::Custom(vec![self.indices.clone()]))
            .with_batch_size(self.indices.len());
        let schedule = Schedule::new(spec, batcher.dataset().groups())?;
        OceanLoader::new(batcher, schedule, PrefetchOptions::default(), device)
    }
}

/// Reads a manifest, or another file of cases.
///
/// # Errors
/// A file that is not there, or holds something else.
pub fn read_manifest<C: DeserializeOwned>(path: &Path) -> std::io::Result<Manifest<C>> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// The golden manifest and its folder; `None`, with a message, where there are no fixtures.
///
/// # Panics
/// If the fixtures are damaged.
pub fn golden() -> Option<(PathBuf, Manifest)> {
    let root = shared("fixtures/batches")?;
    let path = root.join("manifest.json");
    let manifest = read_manifest(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Some((root, manifest))
}
