//! The whole path to a batch, through our loader and through Burn's.

use anyhow::{Result, anyhow};
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;
use burn_om4::{
    DatasetOptions, ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Om4Paths, Order,
    PrefetchOptions, Schedule, ScheduleOptions, Window, WindowOptions, preset,
};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

pub(crate) const BATCH: usize = 4;
pub(crate) const STEPS: usize = 4;

/// Both loaders over the same windows.
pub(crate) struct Loaders {
    pub ours: OceanLoader,
    sequential: OceanLoader,
    stock: Arc<dyn DataLoader<ModelBatch>>,
    stock_batcher: OceanBatcher,
    batches: Vec<Vec<u64>>,
}

/// What one pass delivered.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Passed {
    pub batches: u64,
    pub unique_planes: u64,
    pub shown_planes: u64,
    /// Planes read; fewer than unique ones where batches leave some to the next.
    pub planes_read: u64,
}

impl Loaders {
    /// All 80 channels: 77 predicted, 3 given.
    pub(crate) fn open(store: &Path, batches: usize, prefetch: usize) -> Result<Self> {
        let channels = |name| preset(name).ok_or_else(|| anyhow!("no preset {name}"));
        let window = WindowOptions::default().with_history(1).with_steps(STEPS);
        let span = window.span();
        let options = DatasetOptions::new(channels("thermo_dynamic_all")?, channels("tau_hfds")?)
            .with_window(window);
        let dataset = OceanDataset::open(&Om4Paths::in_dir(store), &options)?;
        let batches = disjoint(dataset.windows(), span, batches);
        let spec = ScheduleOptions::default()
            .with_order(Order::Custom(batches.clone()))
            .with_batch_size(BATCH);
        let schedule = Schedule::new(spec, dataset.groups())?;
        let device = Device::flex();
        let batcher = OceanBatcher::new(dataset.clone());
        let stock_batcher = OceanBatcher::new(dataset.clone());
        let windows = batches
            .iter()
            .flatten()
            .map(|&i| dataset.window(i as usize));
        let windows = Windows(windows.flatten().collect());
        let stock = DataLoaderBuilder::new(stock_batcher.clone())
            .batch_size(batches[0].len())
            .set_device(device.clone())
            .build(windows);
        let ahead = PrefetchOptions::default().with_batches(prefetch);
        // Batches of a long record share hardly a row; these do, and must not gain by it.
        let anew = ahead.with_carry(0);
        let spec = ScheduleOptions::default()
            .with_order(Order::Sequential)
            .with_batch_size(BATCH);
        let consecutive = Schedule::new(spec, dataset.groups())?;
        Ok(Self {
            sequential: OceanLoader::new(batcher.clone(), consecutive, ahead, &device)?,
            ours: OceanLoader::new(batcher, schedule, anew, &device)?,
            stock,
            stock_batcher,
            batches,
        })
    }

    /// One pass of our loader over the chosen windows.
    pub(crate) fn pass(&self) -> Result<Passed> {
        pass(&self.ours)
    }

    /// One validation pass: every window of the store, in order.
    pub(crate) fn sequential_pass(&self) -> Result<Passed> {
        pass(&self.sequential)
    }

    /// One pass of Burn's loader without workers: its workers would queue 100 batches.
    pub(crate) fn stock_pass(&self) -> Result<()> {
        for batch in self.stock.iter() {
            consume(&batch?)?;
        }
        Ok(())
    }

    /// Unique planes of the chosen windows' batches.
    pub(crate) fn unique_planes(&self) -> Result<u64> {
        let dataset = self.stock_batcher.dataset();
        let of = |batch: &Vec<u64>| {
            let windows = batch.iter().filter_map(|&i| dataset.window(i as usize));
            Ok(dataset.plan(&windows.collect::<Vec<_>>())?.unique_planes() as u64)
        };
        self.batches.iter().map(of).sum()
    }

    /// Reads the first batch, on this thread.
    pub(crate) fn first_batch(&self) -> Result<()> {
        let dataset = self.stock_batcher.dataset();
        let windows = self.batches[0]
            .iter()
            .filter_map(|&i| dataset.window(i as usize));
        let batch = self
            .stock_batcher
            .try_batch(windows.collect(), &Device::flex())?;
        consume(&batch)
    }
}

/// The consumer touches every tensor's handle and drops it.
fn pass(loader: &OceanLoader) -> Result<Passed> {
    let before = loader.counters();
    for batch in loader.iter() {
        consume(&batch?)?;
    }
    let after = loader.counters();
    Ok(Passed {
        batches: after.batches - before.batches,
        unique_planes: after.unique_planes - before.unique_planes,
        shown_planes: after.planes_shown - before.planes_shown,
        planes_read: after.planes_read - before.planes_read,
    })
}

fn consume(batch: &ModelBatch) -> Result<()> {
    black_box(batch.input(0)?);
    for step in 0..batch.steps() {
        black_box(batch.boundary(step));
        black_box(batch.label(step));
    }
    Ok(())
}

/// Batches of windows that do not overlap, as random windows of a long record hardly do.
fn disjoint(windows: usize, span: usize, batches: usize) -> Vec<Vec<u64>> {
    let places = (windows - 1) / span + 1;
    let spare = (windows - 1) % span + 1;
    let batch = |k: usize| {
        let shift = k % spare;
        let place = |i: usize| (((i * 7 + k) % places) * span + shift) as u64;
        (0..BATCH.min(places)).map(place).collect()
    };
    (0..batches).map(batch).collect()
}

struct Windows(Vec<Window>);

impl Dataset<Window> for Windows {
    fn get(&self, index: usize) -> Result<Window, DatasetError> {
        Ok(self.0[index])
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
