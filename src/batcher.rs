//! From windows to a batch in host memory: plan, lease, read. What follows is in
//! [`lane`](crate::lane).

use crate::arrange::Arrangement;
use crate::batch::ModelBatch;
use crate::dataset::{Group, OceanDataset, Source};
use crate::error::Result;
use crate::host::{HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory};
use crate::lane::{Constants, DeviceLane, DevicePath, PreparedBy};
use crate::plan::{BatchPlan, Gather};
use crate::precision::Precision;
use crate::read::{PlaneRequest, PlaneShape, PlaneSource, ReadCounts};
use crate::sink::{Gathered, HostPlanes, PreparedTensors};
use crate::trace::Timeline;
use crate::window::Window;
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
    path: DevicePath,
    pools: Pools,
    constants: Constants,
}

/// A batch that has been read and waits, in host memory, for its device.
pub(crate) struct HostBatch {
    pub windows: Vec<Window>,
    pub counts: ReadCounts,
    pub nan_in_ocean: u64,
    pub shown_planes: usize,
    pub unique_planes: usize,
    pub buffers: Buffers,
}

pub(crate) enum Buffers {
    /// One buffer per tensor.
    Prepared(PreparedFields),
    /// One buffer per read group.
    Raw(RawGroups),
    /// The same, on their way to the device.
    #[cfg(feature = "cube")]
    Crossing(crate::lane::Crossing),
}

/// Tensors that the reader put together, each with its map, which gives the shape.
pub(crate) struct PreparedFields {
    pub inputs: Vec<HostTensor>,
    pub boundaries: Vec<HostTensor>,
    pub labels: Vec<HostTensor>,
}

pub(crate) struct HostTensor {
    pub lease: HostLease,
    pub gather: Gather,
}

/// Raw planes, and how tensors are put together from them.
pub(crate) struct RawGroups {
    pub prognostic: RawHost,
    pub boundary: RawHost,
    pub label: Option<RawHost>,
    pub fields: Fields,
}

/// The unique planes of a read group in host memory.
pub(crate) struct RawHost {
    pub lease: HostLease,
    /// The unique row of each row that the device will write.
    pub rows: Vec<u32>,
}

/// Gather maps into the rows that a device has written.
pub(crate) struct Fields {
    pub inputs: Vec<Gather>,
    pub boundaries: Vec<Gather>,
    pub labels: Vec<Gather>,
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
        let options = HostPoolOptions {
            keep,
            ..HostPoolOptions::default()
        };
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
        if let (Some(pool), Some(index)) = (&self.page_locked, crate::upload::cuda_index(device)) {
            let mut pool = pool
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if pool.is_none() {
                let memory = crate::host::PageLockedMemory::new(index)?;
                // Three read groups for each of: in the copy queue, waiting, being read.
                let options = HostPoolOptions {
                    keep: 9,
                    ..HostPoolOptions::default()
                };
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
            let pool = pool
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
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
            path: DevicePath::default(),
            constants: Constants::default(),
        }
    }

    /// Sets the element type of the tensors.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
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
        let lane = self.lane(device)?;
        let plan = self.dataset.plan(&windows)?;
        let host = self.read(windows, plan, lane.prepared_by(), &self.pool(device)?)?;
        lane.finish(host, self, &Timeline::default(), 0)
    }

    /// The way to a device.
    pub(crate) fn lane(&self, device: &Device) -> Result<DeviceLane> {
        DeviceLane::new(device, self.path)
    }

    /// Where buffers for a device come from.
    pub(crate) fn pool(&self, device: &Device) -> Result<HostPool> {
        self.pools.of_device(device)
    }

    pub(crate) fn constants(&self) -> &Constants {
        &self.constants
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
        let floats = match by {
            PreparedBy::Reader => {
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
        Ok((floats * size_of::<f32>()) as u64)
    }

    /// Reads and, for a CPU device, prepares.
    pub(crate) fn read(
        &self,
        windows: Vec<Window>,
        plan: BatchPlan,
        by: PreparedBy,
        pool: &HostPool,
    ) -> Result<HostBatch> {
        let source = self.dataset.source_of(&windows)?;
        let (shown_planes, unique_planes) = (plan.touched_planes(), plan.unique_planes());
        let mut reading = Reading {
            pool,
            counts: ReadCounts::default(),
            nan_in_ocean: 0,
        };
        let buffers = match by {
            PreparedBy::Reader => Buffers::Prepared(reading.prepared(source, plan)?),
            PreparedBy::Operations => Buffers::Raw(reading.raw(source, plan, in_place)?),
            PreparedBy::Kernel => Buffers::Raw(reading.raw(source, plan, Arrangement::new)?),
        };
        let Reading {
            counts,
            nan_in_ocean,
            ..
        } = reading;
        Ok(HostBatch {
            windows,
            counts,
            nan_in_ocean,
            shown_planes,
            unique_planes,
            buffers,
        })
    }
}

fn in_place(unique: usize, fields: Vec<Vec<Gather>>) -> Arrangement {
    Arrangement {
        rows: (0..unique as u32).collect(),
        fields,
    }
}

/// One batch being read.
struct Reading<'a> {
    pool: &'a HostPool,
    counts: ReadCounts,
    nan_in_ocean: u64,
}

impl Reading<'_> {
    fn raw(
        &mut self,
        source: &Source,
        plan: BatchPlan,
        arrange: fn(usize, Vec<Vec<Gather>>) -> Arrangement,
    ) -> Result<RawGroups> {
        let BatchPlan {
            prognostic,
            boundary,
            label,
            inputs,
            boundaries,
            labels,
        } = plan;
        let mut group = |planes: &dyn PlaneSource, rows: &[usize], group: &Group, rows_out| {
            let cells = planes.plane().cells();
            let request = PlaneRequest {
                rows,
                channels: &group.positions,
            };
            let mut lease = self.pool.lease(request.planes() * cells)?;
            let sink = HostPlanes::new(lease.as_mut_slice(), cells);
            self.counts.add(&planes.read(&request, &sink)?);
            drop(sink);
            Result::Ok(RawHost {
                lease,
                rows: rows_out,
            })
        };
        let n = prognostic.rows.len();
        let (of_labels, own_labels) = match (&source.label, &label) {
            (Some(source), Some(plan)) => {
                let Arrangement { rows, mut fields } = arrange(plan.rows.len(), vec![labels]);
                let host = group(&*source.planes, &source.rows(plan)?, &source.group, rows)?;
                (fields.pop(), Some(host))
            }
            _ => (Some(labels), None),
        };
        let labels = of_labels.unwrap_or_default();
        let (rows, inputs, labels) = if own_labels.is_some() {
            let Arrangement { rows, mut fields } = arrange(n, vec![inputs]);
            (rows, fields.pop().unwrap_or_default(), labels)
        } else {
            let Arrangement { rows, mut fields } = arrange(n, vec![inputs, labels]);
            let labels = fields.pop().unwrap_or_default();
            (rows, fields.pop().unwrap_or_default(), labels)
        };
        let of_prognostic = group(&*source.planes, &prognostic.rows, &source.prognostic, rows)?;
        let Arrangement { rows, mut fields } = arrange(boundary.rows.len(), vec![boundaries]);
        let boundaries = fields.pop().unwrap_or_default();
        let of_boundary = group(&*source.planes, &boundary.rows, &source.boundary, rows)?;
        Ok(RawGroups {
            prognostic: of_prognostic,
            boundary: of_boundary,
            label: own_labels,
            fields: Fields {
                inputs,
                boundaries,
                labels,
            },
        })
    }

    fn prepared(&mut self, source: &Source, plan: BatchPlan) -> Result<PreparedFields> {
        let context = &source.context;
        let lease = |gathers: Vec<Gather>, channels: usize, shape: PlaneShape| {
            let tensor = |gather: Gather| {
                let lease = self
                    .pool
                    .lease(gather.rows.len() * channels * shape.cells())?;
                Ok(HostTensor { lease, gather })
            };
            gathers.into_iter().map(tensor).collect::<Result<Vec<_>>>()
        };
        let n = source.prognostic.positions.len();
        let BatchPlan {
            prognostic,
            boundary,
            label,
            inputs,
            boundaries,
            labels,
        } = plan;
        let mut inputs = lease(inputs, n, context.shape())?;
        let mut boundaries = lease(boundaries, source.boundary.positions.len(), context.shape())?;
        let mut labels = lease(labels, n, context.label_shape())?;

        let mut read = |planes: &dyn PlaneSource,
                        rows: &[usize],
                        group: &Group,
                        tensors: Vec<Gathered<'_>>| {
            let cells = planes.plane().cells();
            let preparation = context.preparation();
            let sink =
                PreparedTensors::new(rows.len(), &group.constants, preparation, cells, tensors);
            let request = PlaneRequest {
                rows,
                channels: &group.positions,
            };
            self.counts.add(&planes.read(&request, &sink)?);
            self.nan_in_ocean += sink.nan_in_ocean();
            Result::Ok(())
        };
        let mut of_prognostic = gathered(&mut inputs);
        let of_labels = gathered(&mut labels);
        match (&source.label, &label) {
            (Some(label), Some(group)) => {
                let rows = label.rows(group)?;
                read(&*label.planes, &rows, &label.group, of_labels)?;
            }
            _ => of_prognostic.extend(of_labels),
        }
        read(
            &*source.planes,
            &prognostic.rows,
            &source.prognostic,
            of_prognostic,
        )?;
        let of_boundary = gathered(&mut boundaries);
        read(
            &*source.planes,
            &boundary.rows,
            &source.boundary,
            of_boundary,
        )?;
        Ok(PreparedFields {
            inputs,
            boundaries,
            labels,
        })
    }
}

fn gathered(tensors: &mut [HostTensor]) -> Vec<Gathered<'_>> {
    let mut gathered = Vec::with_capacity(tensors.len());
    for HostTensor { lease, gather } in tensors {
        gathered.push(Gathered {
            values: lease.as_mut_slice(),
            gather,
        });
    }
    gathered
}

impl HostBatch {
    /// Bytes that cross to the device, and in how many copies.
    pub fn crossing(&self) -> (u64, u64) {
        let lengths: Vec<usize> = match &self.buffers {
            Buffers::Prepared(PreparedFields {
                inputs,
                boundaries,
                labels,
            }) => {
                let tensors = [inputs, boundaries, labels].into_iter().flatten();
                tensors.map(|t| t.lease.len()).collect()
            }
            Buffers::Raw(RawGroups {
                prognostic,
                boundary,
                label,
                ..
            }) => {
                let groups = [Some(prognostic), Some(boundary), label.as_ref()];
                groups
                    .into_iter()
                    .flatten()
                    .map(|g| g.lease.len())
                    .collect()
            }
            #[cfg(feature = "cube")]
            Buffers::Crossing(crossing) => crossing.lengths.clone(),
        };
        let floats: usize = lengths.iter().sum();
        let copies = lengths.iter().filter(|&&n| n > 0).count();
        ((floats * size_of::<f32>()) as u64, copies as u64)
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
