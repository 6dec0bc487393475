//! From a batch in host memory to a [`ModelBatch`] on its device.
//!
//! ```text
//!  prepared by    crosses                      becomes tensors, on the consumer's thread
//!  reader         not at all: a CPU device     the host buffers themselves
//!  kernel         on the upload thread         one launch per read group
//!  operations     on the consumer's thread     Burn's tensor operations
//! ```

use crate::dataset::ocean_dataset::{BatchContext, ChannelGroup, OceanDataset, Source};
use crate::device::batch::{Field, ModelBatch};
use crate::device::choice::is_cpu;
#[cfg(feature = "cube")]
use crate::device::kernel::KernelConstants;
use crate::device::operations::DevicePreparation;
#[cfg(feature = "cube")]
use crate::device::upload::{HostGroup, RawGroup, Ticket, Uploader, cube_device};
use crate::error::{Error, Result, catching};
use crate::host::batch::{
    Buffers, Fields, HostBatch, HostTensor, PreparedFields, RawGroups, RawHost,
};
use crate::host::pool::HostLease;
use crate::observe::counters::BatchLog;
use crate::observe::timeline::Stage;
use crate::ocean::plane::PlaneShape;
use crate::plan::batch::Gather;
use crate::prepare::path::{DevicePath, PreparedBy};
use crate::prepare::precision::Precision;
use crate::prepare::transfer::HostFormat;
use crate::sync::lock;
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use std::sync::{Arc, Mutex};

/// The way to one device.
#[derive(Clone)]
pub(crate) struct DeviceLane {
    /// Without autodiff: batches are constants.
    device: Device,
    way: Way,
    precision: Precision,
    constants: Constants,
}

/// Where the planes of a batch are.
pub(crate) enum Transit {
    /// In host memory.
    Host(Buffers),
    /// On their way to the device.
    #[cfg(feature = "cube")]
    Crossing(Crossing),
}

/// A batch that has been read, and may be on its way.
pub(crate) type BatchInTransit = HostBatch<Transit>;

#[derive(Clone)]
enum Way {
    Host,
    Operations,
    #[cfg(feature = "cube")]
    Kernel(Uploader),
}

impl DeviceLane {
    /// # Errors
    /// A path that the device or this build does not offer.
    pub fn new(
        device: &Device,
        path: DevicePath,
        precision: Precision,
        constants: Constants,
    ) -> Result<Self> {
        let device = device.clone().inner();
        let way = match path {
            _ if is_cpu(&device) && path != DevicePath::Kernel => Way::Host,
            DevicePath::Operations => Way::Operations,
            DevicePath::Auto => kernel_way(&device)?.unwrap_or(Way::Operations),
            DevicePath::Kernel => kernel_way(&device)?.ok_or_else(|| {
                Error::config("this device has no upload thread and preparation kernel")
                    .expected("a CUDA or Vulkan device, and a build with its feature")
                    .found(format!("{device:?}"))
            })?,
        };
        Ok(Self {
            device,
            way,
            precision,
            constants,
        })
    }

    pub fn prepared_by(&self) -> PreparedBy {
        match &self.way {
            Way::Host => PreparedBy::Host,
            Way::Operations => PreparedBy::Operations,
            #[cfg(feature = "cube")]
            Way::Kernel(_) => PreparedBy::Kernel,
        }
    }

    /// Sends the planes of a batch on their way, where that needs no consumer. Returns at once.
    pub fn start(&self, batch: BatchInTransit, log: &BatchLog) -> BatchInTransit {
        batch.map_buffers(|buffers| match (&self.way, buffers) {
            #[cfg(feature = "cube")]
            (Way::Kernel(uploader), Transit::Host(Buffers::Raw(groups))) => {
                Transit::Crossing(Crossing::start(*groups, uploader, log))
            }
            (_, buffers) => {
                let _ = log;
                buffers
            }
        })
    }

    /// Waits for the upload, and makes the batch. Call it on the thread that uses the batch.
    ///
    /// # Errors
    /// A failed upload or launch, or a device that panics.
    pub fn finish(
        &self,
        batch: BatchInTransit,
        dataset: &OceanDataset,
        log: &BatchLog,
    ) -> Result<ModelBatch> {
        catching("the device", || {
            let host = self.start(batch, log);
            let source = dataset.source_of(&host.windows)?;
            let constants = self.constants.of(host.windows[0].source, source, self);
            let finishing = Assembler {
                device: &self.device,
                context: &source.context,
                preparations: &constants.preparations,
                precision: self.precision,
                log,
            };
            let fields = match host.buffers {
                Transit::Host(Buffers::Prepared(fields)) => {
                    log.record(Stage::Prepare, || finishing.ready(fields))
                }
                Transit::Host(Buffers::Raw(groups)) => {
                    log.record(Stage::Prepare, || finishing.by_operations(*groups))
                }
                #[cfg(feature = "cube")]
                Transit::Crossing(crossing) => {
                    let Crossing { ticket, fields } = crossing;
                    let groups = ticket.wait()?;
                    log.record(Stage::Prepare, || finishing.by_kernel(groups, fields))?
                }
            };
            Ok(ModelBatch::new(
                host.windows.into(),
                source.context.clone(),
                fields,
                constants.label_mask.clone(),
                constants.boundary_mask.clone(),
            ))
        })
    }
}

#[cfg(feature = "cube")]
fn kernel_way(device: &Device) -> Result<Option<Way>> {
    let device = cube_device(device);
    device
        .map(|device| Uploader::of(&device).map(Way::Kernel))
        .transpose()
}

#[cfg(not(feature = "cube"))]
fn kernel_way(_: &Device) -> Result<Option<Way>> {
    Ok(None)
}

/// Raw planes on their way, and how tensors are put together from them.
#[cfg(feature = "cube")]
pub(crate) struct Crossing {
    ticket: Ticket,
    fields: Fields,
}

#[cfg(feature = "cube")]
impl Crossing {
    fn start(groups: RawGroups, uploader: &Uploader, log: &BatchLog) -> Self {
        let RawGroups {
            prognostic,
            boundary,
            label,
            fields,
        } = groups;
        let groups = [Some(prognostic), Some(boundary), label];
        let host = |RawHost { lease, held, rows }| HostGroup {
            planes: lease.into_bytes(),
            held,
            rows,
        };
        let groups = groups.into_iter().flatten().map(host).collect();
        let ticket = uploader.send(groups, log);
        Self { ticket, fields }
    }
}

/// What makes tensors of a batch.
struct Assembler<'a> {
    device: &'a Device,
    context: &'a BatchContext,
    preparations: &'a Preparations,
    precision: Precision,
    log: &'a BatchLog,
}

impl Assembler<'_> {
    /// Host buffers that become tensors themselves.
    fn ready(&self, fields: PreparedFields) -> [Field; 3] {
        let PreparedFields {
            inputs,
            boundaries,
            labels,
        } = fields;
        let field = |tensors: Vec<HostTensor>, shape: PlaneShape| {
            let tensor = |HostTensor { lease, gather }: HostTensor| {
                let rows = gather.rows.len() / gather.times;
                self.cast(self.upload(lease, Precision::F32, rows, shape))
            };
            Field::Ready(tensors.into_iter().map(tensor).collect())
        };
        [
            field(inputs, self.context.shape()),
            field(boundaries, self.context.shape()),
            field(labels, self.context.label_shape()),
        ]
    }

    /// Raw planes, uploaded here and prepared by tensor operations.
    fn by_operations(&self, groups: RawGroups) -> [Field; 3] {
        let RawGroups {
            prognostic,
            boundary,
            label,
            fields,
        } = groups;
        let Preparations::Operations(by) = self.preparations else {
            unreachable!("raw planes meet the preparations of their device")
        };
        let planes = |host: RawHost, shape: PlaneShape, by: &DevicePreparation| {
            let RawHost { lease, held, rows } = host;
            let planes = self.upload(lease, held.precision(), rows.len(), shape);
            match held {
                HostFormat::Raw => self.cast(by.prepare(planes)),
                HostFormat::Prepared(_) => planes,
            }
        };
        let p = planes(prognostic, self.context.shape(), &by.prognostic);
        let b = planes(boundary, self.context.shape(), &by.boundary);
        let l = match (label, &by.label) {
            (Some(host), Some(by)) => planes(host, self.context.label_shape(), by),
            _ => p.clone(),
        };
        gathered([p, b, l], fields)
    }

    /// Raw planes that the upload thread has put on the device, prepared by one launch per group.
    #[cfg(feature = "cube")]
    fn by_kernel(&self, groups: Vec<RawGroup>, fields: Fields) -> Result<[Field; 3]> {
        let Preparations::Kernel(by) = self.preparations else {
            unreachable!("raw planes meet the preparations of their device")
        };
        let each = [Some(&by.prognostic), Some(&by.boundary), by.label.as_ref()];
        let each = groups.into_iter().zip(each.into_iter().flatten());
        let planes = each.map(|(raw, by)| by.prepare(raw, self.precision));
        match planes.collect::<Result<Vec<_>>>()?.as_slice() {
            [p, b, l] => Ok(gathered([p.clone(), b.clone(), l.clone()], fields)),
            [p, b] => Ok(gathered([p.clone(), b.clone(), p.clone()], fields)),
            _ => unreachable!("a batch has two read groups, or three"),
        }
    }

    /// `(rows, channel, y, x)`, where a row is as long as the buffer says. Uploaded at rank 1: higher
    /// ranks may get pitched rows, and a copy when reshaped.
    fn upload(
        &self,
        lease: HostLease,
        precision: Precision,
        rows: usize,
        shape: PlaneShape,
    ) -> Tensor<4> {
        let bytes = lease.bytes();
        let len = bytes / precision.bytes();
        let dtype = DType::from(precision.dtype());
        let data = TensorData::from_bytes(lease.into_bytes(), [len], dtype);
        let flat = Tensor::<1>::from_data(data, (self.device, dtype));
        self.log.uploaded(bytes);
        flat.reshape([rows, len / (rows * shape.cells()), shape.ny, shape.nx])
    }

    fn cast(&self, tensor: Tensor<4>) -> Tensor<4> {
        match self.precision {
            Precision::F32 => tensor,
            narrow => {
                let largest = narrow.largest();
                tensor.clamp(-largest, largest).cast(narrow.dtype())
            }
        }
    }
}

/// Rows that were written once, gathered when a tensor is asked for.
fn gathered([inputs, boundaries, labels]: [Tensor<4>; 3], fields: Fields) -> [Field; 3] {
    let lazy = |planes, steps: Vec<Gather>| Field::Lazy {
        planes: Box::new(planes),
        steps,
    };
    [
        lazy(inputs, fields.inputs),
        lazy(boundaries, fields.boundaries),
        lazy(labels, fields.labels),
    ]
}

/// What devices need once per source, made when it is first asked for.
#[derive(Clone, Default)]
pub(crate) struct Constants(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    device: Device,
    source: usize,
    constants: Arc<DeviceConstants>,
}

impl Constants {
    fn of(&self, index: usize, source: &Source, lane: &DeviceLane) -> Arc<DeviceConstants> {
        let mut entries = lock(&self.0);
        let known = entries
            .iter()
            .find(|e| e.source == index && e.device == lane.device);
        if let Some(entry) = known {
            return entry.constants.clone();
        }
        let constants = Arc::new(DeviceConstants::new(source, lane));
        let (device, source) = (lane.device.clone(), index);
        entries.push(Entry {
            device,
            source,
            constants: constants.clone(),
        });
        constants
    }
}

struct DeviceConstants {
    label_mask: Tensor<3, Bool>,
    boundary_mask: Tensor<2, Bool>,
    preparations: Preparations,
}

// One for each device and source, kept for good.
#[allow(clippy::large_enum_variant)]
enum Preparations {
    Host,
    Operations(OfGroups<DevicePreparation>),
    #[cfg(feature = "cube")]
    Kernel(OfGroups<KernelConstants>),
}

/// One for each read group.
struct OfGroups<T> {
    prognostic: T,
    boundary: T,
    label: Option<T>,
}

impl<T> OfGroups<T> {
    fn new(source: &Source, make: impl Fn(&ChannelGroup, PlaneShape) -> T) -> Self {
        let (shape, label_shape) = (source.context.shape(), source.context.label_shape());
        Self {
            prognostic: make(&source.prognostic, shape),
            boundary: make(&source.boundary, shape),
            label: source.label.as_ref().map(|l| make(&l.group, label_shape)),
        }
    }
}

impl DeviceConstants {
    fn new(source: &Source, lane: &DeviceLane) -> Self {
        let (context, device) = (&source.context, &lane.device);
        let PlaneShape { ny, nx } = context.label_shape();
        let n = source.prognostic.positions.len();
        let of_labels = (0..n).flat_map(|c| context.constants(c).wet.as_slice().iter().copied());
        let mask: Vec<bool> = of_labels.collect();
        let times = context.window().times();
        let label_mask = Tensor::<3, Bool>::from_data(TensorData::new(mask, [n, ny, nx]), device)
            .repeat_dim(0, times);
        let PlaneShape { ny, nx } = context.shape();
        let surface = TensorData::new(context.surface().as_slice().to_vec(), [ny, nx]);
        let preparation = context.preparation();
        let preparations = match &lane.way {
            Way::Host => Preparations::Host,
            Way::Operations => Preparations::Operations(OfGroups::new(source, |group, shape| {
                DevicePreparation::new(preparation, &group.constants, shape, device)
            })),
            #[cfg(feature = "cube")]
            Way::Kernel(uploader) => Preparations::Kernel(OfGroups::new(source, |group, shape| {
                KernelConstants::new(preparation, &group.constants, shape, uploader.device())
            })),
        };
        Self {
            label_mask,
            boundary_mask: Tensor::from_data(surface, device),
            preparations,
        }
    }
}
