//! From windows to a batch on a device: plan, [read](crate::host::batch), and take the
//! [lane](crate::device::lane) to the device.

use crate::dataset::ocean_dataset::OceanDataset;
use crate::device::batch::ModelBatch;
use crate::device::lane::{Constants, DeviceLane, Transit};
use crate::error::Result;
use crate::host::batch::{BatchBuffers, HostBatch};
use crate::host::carry::{Carry, NextBatch};
use crate::host::pool::{HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory};
use crate::observe::counters::BatchLog;
use crate::plan::batch::{BatchPlan, Gather};
use crate::plan::window::Window;
use crate::prepare::path::{DevicePath, PreparedBy};
use crate::prepare::precision::Precision;
use crate::prepare::transfer::{HostFormat, Transfer};
#[cfg(feature = "cuda")]
use crate::sync::lock;
use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
#[cfg(feature = "cuda")]
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
    constants: Constants,
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
                // Three read groups for each of: in the copy queue, waiting, being read.
                let options = HostPoolOptions::default().with_keep(9);
                *pool = Some(HostPool::new(memory, options));
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
            constants: Constants::default(),
        }
    }

    /// Sets the element type of the tensors.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Sets what crosses to devices that are not a CPU.
    pub fn with_transfer(mut self, transfer: Transfer) -> Self {
        self.transfer = transfer;
        self
    }

    /// Sets what prepares planes on devices that are not a CPU.
    pub fn with_device_path(mut self, path: DevicePath) -> Self {
        self.path = path;
        self.constants = Constants::default();
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
        let (lane, pool) = (self.lane(device)?, &self.pool(device)?);
        let plan = self.dataset.plan(&windows)?;
        let ahead = NextBatch {
            carry: &mut Carry::new(0),
            next: None,
        };
        let host = self.read(
            windows,
            plan,
            lane.prepared_by(),
            BatchBuffers { pool, batch: None },
            ahead,
        )?;
        lane.finish(
            host.map_buffers(Transit::Host),
            &self.dataset,
            &BatchLog::default(),
        )
    }

    /// The way to a device.
    pub(crate) fn lane(&self, device: &Device) -> Result<DeviceLane> {
        let constants = self.constants.clone();
        DeviceLane::new(device, self.path, self.precision, constants)
    }

    /// Where buffers for a device come from.
    pub(crate) fn pool(&self, device: &Device) -> Result<HostPool> {
        self.pools.of_device(device)
    }

    /// Bytes of host memory that a planned batch takes until its device has it.
    pub(crate) fn host_bytes(
        &self,
        windows: &[Window],
        plan: &BatchPlan,
        by: PreparedBy,
    ) -> Result<u64> {
        let source = self.dataset.source_of(windows)?;
        let context = &source.context;
        let (shape, label_shape) = (context.shape().cells(), context.label_shape().cells());
        let (prognostic, boundary) = (plan.prognostic.channels, plan.boundary.channels);
        let shown = |gathers: &[Gather]| gathers.iter().map(|g| g.rows.len()).sum::<usize>();
        let values = match by {
            PreparedBy::Host => {
                shown(&plan.inputs) * prognostic * shape
                    + shown(&plan.boundaries) * boundary * shape
                    + shown(&plan.labels) * prognostic * label_shape
            }
            PreparedBy::Operations | PreparedBy::Kernel => {
                let label_rows = plan.label.as_ref().map_or(0, |l| l.rows.len());
                (plan.prognostic.rows.len() * prognostic + plan.boundary.rows.len() * boundary)
                    * shape
                    + label_rows * prognostic * label_shape
            }
        };
        let size = match by {
            PreparedBy::Host => Precision::F32.bytes(),
            PreparedBy::Operations | PreparedBy::Kernel => self.held().precision().bytes(),
        };
        Ok((values * size) as u64)
    }

    /// Reads and, for a CPU device, prepares.
    pub(crate) fn read(
        &self,
        windows: Vec<Window>,
        plan: BatchPlan,
        by: PreparedBy,
        buffers: BatchBuffers<'_>,
        ahead: NextBatch<'_>,
    ) -> Result<HostBatch> {
        let source = self.dataset.source_of(&windows)?;
        HostBatch::read(source, windows, plan, by, self.held(), buffers, ahead)
    }

    /// What host buffers for devices that are not a CPU hold.
    fn held(&self) -> HostFormat {
        HostFormat::of(self.transfer, self.precision)
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
