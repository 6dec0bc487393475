//! From windows to a batch on a device: plan, fill, and take the [lane](crate::device::lane).

use crate::dataset::ocean_dataset::OceanDataset;
use crate::device::batch::ModelBatch;
use crate::device::lane::DeviceLane;
use crate::error::Result;
use crate::host::batch::FillResources;
use crate::host::carry::RowCarry;
use crate::host::pool::{HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory};
use crate::observe::counters::BatchLog;
use crate::plan::window::Window;
use crate::prepare::path::DevicePath;
use crate::prepare::precision::Precision;
use crate::prepare::transfer::Transfer;
use crate::sync::{Stop, lock};
use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use std::sync::{Arc, Mutex};

/// Makes [`ModelBatch`]es of [`Window`]s. Cheap to clone; clones share host buffers and constants.
///
/// Each unique plane of the batch is read, decoded, normalised and masked once, whatever the number
/// of samples, rollout steps and times that show it. On a CPU device the reader prepares a plane
/// while it is hot and writes it straight into the batch's tensors; on any other device the raw
/// planes cross once and are prepared there.
///
/// It is a Burn [`Batcher`], so Burn's own `DataLoaderBuilder` takes it with an [`OceanDataset`];
/// that loader cannot promise order, bounds or errors, and turns a failed read into a panic.
/// [`OceanLoader`](crate::OceanLoader) does better.
#[derive(Clone)]
pub struct OceanBatcher {
    dataset: OceanDataset,
    precision: Precision,
    transfer: Transfer,
    path: DevicePath,
    pools: Pools,
    /// One for each device that was served.
    lanes: Arc<Mutex<Vec<DeviceLane>>>,
}

/// Host buffers: of ordinary memory, or page-locked for devices that copy from it beside the host.
#[derive(Clone)]
struct Pools {
    general: HostPool,
    /// Made when a CUDA device is first served; not where the user chose the pool.
    #[cfg(feature = "cuda")]
    page_locked: Option<Arc<Mutex<Option<HostPool>>>>,
}

impl Pools {
    fn of_dataset(dataset: &OceanDataset) -> Self {
        // On a CPU every tensor of a batch is a buffer, and comes home when the model drops it.
        let steps = dataset.context(0).window().steps;
        let keep = 3 * (3 * steps).max(3);
        let options = HostPoolOptions::default().with_keep(keep);
        Self {
            general: HostPool::new(OrdinaryMemory, options),
            #[cfg(feature = "cuda")]
            page_locked: Some(Arc::default()),
        }
    }

    fn own(pool: HostPool) -> Self {
        Self {
            general: pool,
            #[cfg(feature = "cuda")]
            page_locked: None,
        }
    }

    fn of_device(&self, device: &Device) -> Result<HostPool> {
        #[cfg(feature = "cuda")]
        if let (Some(pool), Some(index)) =
            (&self.page_locked, crate::device::upload::cuda_index(device))
        {
            let mut pool = lock(pool);
            if pool.is_none() {
                let memory = crate::host::pool::PageLockedMemory::new(index)?;
                // The passes say how many buffers they have at once.
                *pool = Some(HostPool::new(memory, HostPoolOptions::default()));
            }
            return Ok(pool.clone().expect("it was just made"));
        }
        let _ = device;
        Ok(self.general.clone())
    }

    fn state(&self) -> HostPoolState {
        #[cfg(feature = "cuda")]
        if let Some(pool) = &self.page_locked {
            let pool = lock(pool);
            if let Some(pool) = &*pool {
                return self.general.state().with(&pool.state());
            }
        }
        self.general.state()
    }
}

impl OceanBatcher {
    /// A batcher over a data set, with page-locked host memory for CUDA devices and ordinary memory
    /// for all others, and tensors in float32.
    pub fn new(dataset: OceanDataset) -> Self {
        Self {
            pools: Pools::of_dataset(&dataset),
            dataset,
            precision: Precision::default(),
            transfer: Transfer::default(),
            path: DevicePath::default(),
            lanes: Arc::default(),
        }
    }

    /// Sets the element type of the tensors.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self.lanes = Arc::default();
        self
    }

    /// Sets what crosses to devices that are not a CPU.
    pub fn with_transfer(mut self, transfer: Transfer) -> Self {
        self.transfer = transfer;
        self.lanes = Arc::default();
        self
    }

    /// Sets what prepares planes on devices that are not a CPU.
    pub fn with_device_path(mut self, path: DevicePath) -> Self {
        self.path = path;
        self.lanes = Arc::default();
        self
    }

    /// Takes all host buffers from `pool`, whatever the device.
    pub fn with_host_pool(mut self, pool: HostPool) -> Self {
        self.pools = Pools::own(pool);
        self
    }

    /// The data set.
    pub fn dataset(&self) -> &OceanDataset {
        &self.dataset
    }

    /// Element type of the tensors.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// State of the host buffers.
    pub fn host_pool(&self) -> HostPoolState {
        self.pools.state()
    }

    /// Reads `windows` and puts their batch on `device`, through the device's upload thread where
    /// it has one.
    ///
    /// # Errors
    /// A plan that cannot be made, or a failed read or upload; nothing is left behind.
    pub fn try_batch(&self, windows: Vec<Window>, device: &Device) -> Result<ModelBatch> {
        let lane = self.lane(device)?;
        let resources = FillResources {
            pool: &self.pool(device)?,
            batch: None,
            carry: &mut RowCarry::new(0),
            next: None,
            stop: &Stop::default(),
        };
        let batch = lane.fill(self.dataset.planned(windows)?, resources)?;
        lane.finish(batch, &BatchLog::default())
    }

    /// The way to a device: made once, with what is kept there.
    pub(crate) fn lane(&self, device: &Device) -> Result<DeviceLane> {
        let mut lanes = lock(&self.lanes);
        let inner = device.clone().inner();
        if let Some(known) = lanes.iter().find(|lane| *lane.device() == inner) {
            return Ok(known.clone());
        }
        let sources = self.dataset.sources.len();
        let lane = DeviceLane::new(&inner, self.path, self.precision, self.transfer, sources)?;
        lanes.push(lane.clone());
        Ok(lane)
    }

    /// Where buffers for a device come from.
    pub(crate) fn pool(&self, device: &Device) -> Result<HostPool> {
        self.pools.of_device(device)
    }
}

impl Batcher<Window, ModelBatch> for OceanBatcher {
    /// # Panics
    /// When a read fails: this trait has no other way out.
    fn batch(&self, windows: Vec<Window>, device: &Device) -> ModelBatch {
        self.try_batch(windows, device)
            .unwrap_or_else(|e| panic!("{e:?}"))
    }
}
