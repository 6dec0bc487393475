//! The way of batches to one device: filled in host memory, sent, and made into a [`ModelBatch`].
//!
//! ```text
//!  prepared by    crosses                      becomes tensors, on the consumer's thread
//!  host           not at all: a CPU device     the host buffers themselves
//!  kernel         on the upload thread         one launch per read group
//!  operations     on the consumer's thread     Burn's tensor operations
//! ```

use crate::dataset::planned::Planned;
use crate::device::assemble::Assembler;
use crate::device::batch::ModelBatch;
use crate::device::choice::is_cpu;
use crate::device::constants::{Masks, PerSource};
#[cfg(feature = "cube")]
use crate::device::kernel_path::{Crossing, KernelPath};
use crate::device::operations::OperationsPath;
use crate::error::{Error, Result, catching};
use crate::host::batch::{FillResources, HostBatch};
use crate::host::planes::{self, PlaneBuffers};
use crate::host::tensors::{self, HostTensors};
use crate::observe::counters::BatchLog;
use crate::observe::timeline::Stage;
use crate::plan::arrange::Arrangement;
use crate::prepare::path::DevicePath;
use crate::prepare::precision::Precision;
use crate::prepare::transfer::{HostFormat, Transfer};
use burn::tensor::Device;

/// The way to one device, with the constants of every source there. Clones share them.
#[derive(Clone)]
pub(crate) struct DeviceLane {
    /// Without autodiff: batches are constants.
    device: Device,
    precision: Precision,
    /// What host buffers hold, unless they are the tensors.
    format: HostFormat,
    path: LanePath,
    masks: PerSource<Masks>,
}

/// What prepares the planes of a batch.
#[derive(Clone)]
enum LanePath {
    /// The host, straight into the batch's tensors.
    Host,
    Operations(OperationsPath),
    #[cfg(feature = "cube")]
    Kernel(KernelPath),
}

/// A batch that has been read, and may be on its way.
pub(crate) type BatchInTransit = HostBatch<Transit>;

/// Where the planes of a batch are, and what will prepare them.
pub(crate) enum Transit {
    /// In host memory, as the tensors themselves.
    Tensors(HostTensors),
    /// In host memory, for tensor operations.
    ForOperations(PlaneBuffers, OperationsPath),
    /// In host memory, for the upload thread.
    #[cfg(feature = "cube")]
    ForKernel(PlaneBuffers, KernelPath),
    /// On their way to the device.
    #[cfg(feature = "cube")]
    Crossing(Crossing),
}

impl Transit {
    /// Sends planes on their way where that needs no consumer. Returns at once.
    pub(crate) fn start(self, log: &BatchLog) -> Self {
        match self {
            #[cfg(feature = "cube")]
            Self::ForKernel(planes, path) => Self::Crossing(path.send(planes, log)),
            waiting => {
                let _ = log;
                waiting
            }
        }
    }
}

impl DeviceLane {
    /// The way to `device` for a data set of so many sources.
    ///
    /// # Errors
    /// A path that the device or this build does not offer.
    pub(crate) fn new(
        device: &Device,
        path: DevicePath,
        precision: Precision,
        transfer: Transfer,
        sources: usize,
    ) -> Result<Self> {
        let device = device.clone().inner();
        let operations = || LanePath::Operations(OperationsPath::new(sources));
        let path = match path {
            _ if is_cpu(&device) && path != DevicePath::Kernel => LanePath::Host,
            DevicePath::Operations => operations(),
            DevicePath::Auto => kernel_path(&device, sources)?.unwrap_or_else(operations),
            DevicePath::Kernel => kernel_path(&device, sources)?.ok_or_else(|| {
                Error::config("this device has no upload thread and preparation kernel")
                    .expected("a CUDA or Vulkan device, and a build with its feature")
                    .found(format!("{device:?}"))
            })?,
        };
        Ok(Self {
            device,
            precision,
            format: HostFormat::of(transfer, precision),
            path,
            masks: PerSource::new(sources),
        })
    }

    /// The device, without autodiff.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Whether a batch can be sent to the device before its consumer asks for it.
    pub(crate) fn uploads_ahead(&self) -> bool {
        match &self.path {
            LanePath::Host | LanePath::Operations(_) => false,
            #[cfg(feature = "cube")]
            LanePath::Kernel(_) => true,
        }
    }

    /// Bytes of host memory that a planned batch takes until its device has it.
    pub(crate) fn host_bytes(&self, planned: &Planned) -> u64 {
        let Planned { plan, source, .. } = planned;
        match &self.path {
            LanePath::Host => tensors::bytes(plan, source),
            LanePath::Operations(_) => planes::bytes(plan, source, self.format),
            #[cfg(feature = "cube")]
            LanePath::Kernel(_) => planes::bytes(plan, source, self.format),
        }
    }

    /// Host buffers that a batch of this many rollout steps takes at most until its device has it.
    pub(crate) fn host_buffers(&self, steps: usize) -> usize {
        match &self.path {
            // An input, a boundary and a label for each.
            LanePath::Host => 3 * steps,
            // One for each read group.
            LanePath::Operations(_) => 3,
            #[cfg(feature = "cube")]
            LanePath::Kernel(_) => 3,
        }
    }

    /// Leases the buffers of a planned batch and reads into them; where the host prepares, it does
    /// so at once.
    ///
    /// # Errors
    /// A pool that has no buffer, or a failed read.
    pub(crate) fn fill(
        &self,
        planned: Planned,
        resources: FillResources<'_>,
    ) -> Result<BatchInTransit> {
        let format = self.format;
        match &self.path {
            LanePath::Host => {
                let batch = HostBatch::fill(planned, resources, tensors::fill)?;
                Ok(batch.map_buffers(Transit::Tensors))
            }
            LanePath::Operations(path) => {
                let batch = HostBatch::fill(planned, resources, |filling, plan| {
                    planes::fill(filling, plan, format, Arrangement::in_place)
                })?;
                Ok(batch.map_buffers(|planes| Transit::ForOperations(planes, path.clone())))
            }
            #[cfg(feature = "cube")]
            LanePath::Kernel(path) => {
                let batch = HostBatch::fill(planned, resources, |filling, plan| {
                    planes::fill(filling, plan, format, Arrangement::by_tensor)
                })?;
                Ok(batch.map_buffers(|planes| Transit::ForKernel(planes, path.clone())))
            }
        }
    }

    /// Waits for the upload, and makes the batch. Call it on the thread that uses the batch.
    ///
    /// # Errors
    /// A failed upload or launch, or a device that panics.
    pub(crate) fn finish(&self, batch: BatchInTransit, log: &BatchLog) -> Result<ModelBatch> {
        catching("the device", || {
            let (source, precision) = (&*batch.source, self.precision);
            let masks = self
                .masks
                .of(source, || Masks::new(&source.context, &self.device));
            let assembler = Assembler {
                device: &self.device,
                precision,
                log,
            };
            let fields = match batch.buffers {
                Transit::Tensors(tensors) => {
                    log.record(Stage::Prepare, || assembler.tensors(tensors, source))
                }
                Transit::ForOperations(planes, path) => {
                    // Made before the span: they are of the source, not of the batch.
                    path.constants(source, &self.device);
                    log.record(Stage::Prepare, || path.finish(planes, source, &assembler))
                }
                #[cfg(feature = "cube")]
                Transit::ForKernel(planes, path) => {
                    path.send(planes, log).finish(source, precision, log)?
                }
                #[cfg(feature = "cube")]
                Transit::Crossing(crossing) => crossing.finish(source, precision, log)?,
            };
            Ok(ModelBatch::new(
                batch.windows.into(),
                source.context.clone(),
                fields,
                masks.label.clone(),
                masks.boundary.clone(),
            ))
        })
    }
}

#[cfg(feature = "cube")]
fn kernel_path(device: &Device, sources: usize) -> Result<Option<LanePath>> {
    Ok(KernelPath::to(device, sources)?.map(LanePath::Kernel))
}

#[cfg(not(feature = "cube"))]
fn kernel_path(_: &Device, _: usize) -> Result<Option<LanePath>> {
    Ok(None)
}
