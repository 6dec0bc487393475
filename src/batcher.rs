//! From windows to a batch: plan, lease, read, and hand over to the device.

use crate::batch::{Field, ModelBatch};
use crate::dataset::{BatchContext, Group, OceanDataset, Source};
use crate::device::is_cpu;
use crate::error::Result;
use crate::host::{HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory};
use crate::plan::{BatchPlan, Gather, GroupPlan};
use crate::prepare::DevicePreparation;
use crate::read::{PlaneRequest, PlaneShape, PlaneSource, ReadCounts};
use crate::sink::{Gathered, HostPlanes, PreparedTensors};
use crate::window::Window;
use burn::data::dataloader::batcher::Batcher;
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes [`ModelBatch`]es of [`Window`]s. Cheap to clone; clones share host buffers and constants.
///
/// Each unique plane of the batch is read, decoded, normalised and masked once, whatever the number
/// of samples, rollout steps and times that show it. On a CPU device the reader prepares a plane
/// while it is hot and writes it straight into the batch's tensors; on any other device the raw
/// planes cross once and are prepared and gathered there.
///
/// It is a Burn [`Batcher`], so Burn's own `DataLoaderBuilder` takes it with an [`OceanDataset`];
/// that loader cannot promise order, bounds or errors, and turns a failed read into a panic.
/// [`OceanLoader`](crate::OceanLoader) does better.
#[derive(Clone)]
pub struct OceanBatcher {
    dataset: OceanDataset,
    pool: HostPool,
    constants: Arc<Mutex<Vec<ConstantsEntry>>>,
}

struct ConstantsEntry {
    device: Device,
    source: usize,
    constants: Arc<DeviceConstants>,
}

/// What a device needs once per source.
struct DeviceConstants {
    label_mask: Tensor<3, Bool>,
    boundary_mask: Tensor<2, Bool>,
    /// Only where the device prepares.
    preparations: Option<Preparations>,
}

struct Preparations {
    prognostic: DevicePreparation,
    boundary: DevicePreparation,
    label: Option<DevicePreparation>,
}

/// Where planes are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreparedBy {
    /// By the reader, straight into the batch's tensors.
    Reader,
    /// By the device, from raw planes.
    Device,
}

impl PreparedBy {
    pub fn of(device: &Device) -> Self {
        if is_cpu(device) {
            Self::Reader
        } else {
            Self::Device
        }
    }
}

/// A batch that has been read and waits, in host memory, for its device.
pub(crate) struct HostBatch {
    pub windows: Vec<Window>,
    pub plan: BatchPlan,
    pub counts: ReadCounts,
    pub nan_in_ocean: u64,
    buffers: Buffers,
}

enum Buffers {
    /// One buffer per tensor.
    Prepared {
        inputs: Vec<HostLease>,
        boundaries: Vec<HostLease>,
        labels: Vec<HostLease>,
    },
    /// One buffer per read group.
    Raw {
        prognostic: HostLease,
        boundary: HostLease,
        label: Option<HostLease>,
    },
}

impl HostBatch {
    /// Bytes that cross to the device.
    pub fn bytes(&self) -> u64 {
        let floats: usize = match &self.buffers {
            Buffers::Prepared {
                inputs,
                boundaries,
                labels,
            } => [inputs, boundaries, labels]
                .into_iter()
                .flatten()
                .map(HostLease::len)
                .sum(),
            Buffers::Raw {
                prognostic,
                boundary,
                label,
            } => prognostic.len() + boundary.len() + label.as_ref().map_or(0, HostLease::len),
        };
        (floats * size_of::<f32>()) as u64
    }
}

impl OceanBatcher {
    /// A batcher over a data set, with ordinary host memory.
    pub fn new(dataset: OceanDataset) -> Self {
        // On a CPU every tensor of a batch is a buffer, and comes home when the model drops it.
        let steps = dataset.context(0).window().steps;
        let keep = 3 * (3 * steps).max(3);
        let options = HostPoolOptions {
            keep,
            ..HostPoolOptions::default()
        };
        Self {
            dataset,
            pool: HostPool::new(OrdinaryMemory, options),
            constants: Arc::default(),
        }
    }

    /// The data set.
    pub fn dataset(&self) -> &OceanDataset {
        &self.dataset
    }

    /// State of the host buffers.
    pub fn host_pool(&self) -> HostPoolState {
        self.pool.state()
    }

    /// Reads `windows` and puts their batch on `device`.
    ///
    /// # Errors
    /// A plan that cannot be made, or a failed read; nothing is left behind.
    pub fn try_batch(&self, windows: Vec<Window>, device: &Device) -> Result<ModelBatch> {
        let plan = self.dataset.plan(&windows)?;
        let host = self.read(windows, plan, PreparedBy::of(device))?;
        self.finish(host, device)
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
            PreparedBy::Device => {
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
    ) -> Result<HostBatch> {
        let source = self.dataset.source_of(&windows)?;
        match by {
            PreparedBy::Reader => self.read_prepared(source, windows, plan),
            PreparedBy::Device => self.read_raw(source, windows, plan),
        }
    }

    fn read_raw(
        &self,
        source: &Source,
        windows: Vec<Window>,
        plan: BatchPlan,
    ) -> Result<HostBatch> {
        let mut counts = ReadCounts::default();
        let mut read = |planes: &dyn PlaneSource, rows: &[usize], group: &Group| {
            let cells = planes.plane().cells();
            let request = PlaneRequest {
                rows,
                channels: &group.positions,
            };
            let mut lease = self.pool.lease(request.planes() * cells)?;
            let sink = HostPlanes::new(lease.as_mut_slice(), cells);
            counts.add(&planes.read(&request, &sink)?);
            drop(sink);
            Ok(lease)
        };
        let prognostic = read(&*source.planes, &plan.prognostic.rows, &source.prognostic)?;
        let boundary = read(&*source.planes, &plan.boundary.rows, &source.boundary)?;
        let label = match (&source.label, &plan.label) {
            (Some(label), Some(group)) => {
                let rows = label.rows(group)?;
                Some(read(&*label.planes, &rows, &label.group)?)
            }
            _ => None,
        };
        let buffers = Buffers::Raw {
            prognostic,
            boundary,
            label,
        };
        Ok(HostBatch {
            windows,
            plan,
            counts,
            nan_in_ocean: 0,
            buffers,
        })
    }

    fn read_prepared(
        &self,
        source: &Source,
        windows: Vec<Window>,
        plan: BatchPlan,
    ) -> Result<HostBatch> {
        let context = &source.context;
        let lease = |gathers: &[Gather], channels: usize, shape: PlaneShape| {
            let len = |g: &Gather| g.rows.len() * channels * shape.cells();
            gathers
                .iter()
                .map(|g| self.pool.lease(len(g)))
                .collect::<Result<Vec<_>>>()
        };
        let n = source.prognostic.positions.len();
        let mut inputs = lease(&plan.inputs, n, context.shape())?;
        let mut boundaries = lease(
            &plan.boundaries,
            source.boundary.positions.len(),
            context.shape(),
        )?;
        let mut labels = lease(&plan.labels, n, context.label_shape())?;

        let mut counts = ReadCounts::default();
        let mut nan_in_ocean = 0;
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
            counts.add(&planes.read(&request, &sink)?);
            nan_in_ocean += sink.nan_in_ocean();
            Result::Ok(())
        };
        let mut of_prognostic = gathered(&mut inputs, &plan.inputs);
        let of_labels = gathered(&mut labels, &plan.labels);
        match (&source.label, &plan.label) {
            (Some(label), Some(group)) => {
                let rows = label.rows(group)?;
                read(&*label.planes, &rows, &label.group, of_labels)?;
            }
            _ => of_prognostic.extend(of_labels),
        }
        read(
            &*source.planes,
            &plan.prognostic.rows,
            &source.prognostic,
            of_prognostic,
        )?;
        let of_boundary = gathered(&mut boundaries, &plan.boundaries);
        read(
            &*source.planes,
            &plan.boundary.rows,
            &source.boundary,
            of_boundary,
        )?;
        let buffers = Buffers::Prepared {
            inputs,
            boundaries,
            labels,
        };
        Ok(HostBatch {
            windows,
            plan,
            counts,
            nan_in_ocean,
            buffers,
        })
    }

    /// Uploads, and prepares where the device does that. Call it on the thread that uses the batch.
    pub(crate) fn finish(&self, host: HostBatch, device: &Device) -> Result<ModelBatch> {
        // Batches are constants: they live on the device without autodiff.
        let device = &device.clone().inner();
        let HostBatch {
            windows,
            plan,
            buffers,
            ..
        } = host;
        let source = self.dataset.source_of(&windows)?;
        let context = &source.context;
        let prepared_by = match &buffers {
            Buffers::Prepared { .. } => PreparedBy::Reader,
            Buffers::Raw { .. } => PreparedBy::Device,
        };
        let constants = self.constants(windows[0].source, source, device, prepared_by);
        let fields = match (buffers, &constants.preparations) {
            (
                Buffers::Prepared {
                    inputs,
                    boundaries,
                    labels,
                },
                _,
            ) => {
                let tensors = |leases: Vec<HostLease>, gathers: &[Gather], shape: PlaneShape| {
                    let each = leases.into_iter().zip(gathers);
                    Field::Ready(each.map(|(l, g)| tensor(l, g, shape, device)).collect())
                };
                [
                    tensors(inputs, &plan.inputs, context.shape()),
                    tensors(boundaries, &plan.boundaries, context.shape()),
                    tensors(labels, &plan.labels, context.label_shape()),
                ]
            }
            (
                Buffers::Raw {
                    prognostic,
                    boundary,
                    label,
                },
                Some(prepare),
            ) => {
                let planes = |lease, rows: &GroupPlan, shape, by: &DevicePreparation| {
                    by.planes(upload(lease, rows.rows.len(), shape, device))
                };
                let p = planes(
                    prognostic,
                    &plan.prognostic,
                    context.shape(),
                    &prepare.prognostic,
                );
                let b = planes(boundary, &plan.boundary, context.shape(), &prepare.boundary);
                let l = match (label, &plan.label, &prepare.label) {
                    (Some(lease), Some(rows), Some(by)) => {
                        planes(lease, rows, context.label_shape(), by)
                    }
                    _ => p.clone(),
                };
                let lazy = |planes, steps| Field::Lazy {
                    planes,
                    steps: Arc::new(steps),
                };
                [
                    lazy(p, plan.inputs),
                    lazy(b, plan.boundaries),
                    lazy(l, plan.labels),
                ]
            }
            (Buffers::Raw { .. }, None) => unreachable!("raw planes come with preparations"),
        };
        let label_mask = constants.label_mask.clone();
        let boundary_mask = constants.boundary_mask.clone();
        let context = context.clone();
        Ok(ModelBatch::new(
            windows.into(),
            context,
            fields,
            label_mask,
            boundary_mask,
        ))
    }

    fn constants(
        &self,
        index: usize,
        source: &Source,
        device: &Device,
        by: PreparedBy,
    ) -> Arc<DeviceConstants> {
        let mut entries = self
            .constants
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .iter()
            .find(|e| e.source == index && e.device == *device);
        if let Some(entry) = known {
            return entry.constants.clone();
        }
        let constants = Arc::new(DeviceConstants::new(source, device, by));
        let entry = ConstantsEntry {
            device: device.clone(),
            source: index,
            constants,
        };
        entries.push(entry);
        entries[entries.len() - 1].constants.clone()
    }
}

impl DeviceConstants {
    fn new(source: &Source, device: &Device, by: PreparedBy) -> Self {
        let context: &BatchContext = &source.context;
        let PlaneShape { ny, nx } = context.label_shape();
        let n = source.prognostic.positions.len();
        let of_labels = (0..n).flat_map(|c| context.constants(c).wet.as_slice().iter().copied());
        let mask: Vec<bool> = of_labels.collect();
        let times = context.window().times();
        let label_mask = Tensor::<3, Bool>::from_data(TensorData::new(mask, [n, ny, nx]), device)
            .repeat_dim(0, times);
        let PlaneShape { ny, nx } = context.shape();
        let surface = TensorData::new(context.surface().as_slice().to_vec(), [ny, nx]);
        let preparation = |group: &Group, shape: PlaneShape| {
            DevicePreparation::new(context.preparation(), &group.constants, shape, device)
        };
        Self {
            label_mask,
            boundary_mask: Tensor::from_data(surface, device),
            preparations: (by == PreparedBy::Device).then(|| Preparations {
                prognostic: preparation(&source.prognostic, context.shape()),
                boundary: preparation(&source.boundary, context.shape()),
                label: source
                    .label
                    .as_ref()
                    .map(|l| preparation(&l.group, context.label_shape())),
            }),
        }
    }
}

fn gathered<'a>(leases: &'a mut [HostLease], gathers: &'a [Gather]) -> Vec<Gathered<'a>> {
    let pairs = leases.iter_mut().zip(gathers);
    pairs
        .map(|(lease, gather)| Gathered {
            values: lease.as_mut_slice(),
            gather,
        })
        .collect()
}

/// A prepared tensor `(batch, time*channel, y, x)` around its host buffer.
fn tensor(lease: HostLease, gather: &Gather, shape: PlaneShape, device: &Device) -> Tensor<4> {
    let batch = gather.rows.len() / gather.times;
    let channels = lease.len() / (batch * shape.cells());
    upload_flat(lease, device).reshape([batch, channels, shape.ny, shape.nx])
}

/// Raw planes `(row, channel, y, x)`.
fn upload(lease: HostLease, rows: usize, shape: PlaneShape, device: &Device) -> Tensor<4> {
    let channels = lease.len() / (rows * shape.cells());
    upload_flat(lease, device).reshape([rows, channels, shape.ny, shape.nx])
}

/// Rank 1: higher ranks may get pitched rows, and a copy when reshaped.
fn upload_flat(lease: HostLease, device: &Device) -> Tensor<1> {
    let len = lease.len();
    let data = TensorData::from_bytes(lease.into_bytes(), [len], DType::F32);
    Tensor::from_data(data, (device, DType::F32))
}

impl Batcher<Window, ModelBatch> for OceanBatcher {
    /// # Panics
    /// When a read fails: this trait has no other way out.
    fn batch(&self, windows: Vec<Window>, device: &Device) -> ModelBatch {
        self.try_batch(windows, device)
            .unwrap_or_else(|e| panic!("{e:?}"))
    }
}
