//! Planes that an upload thread puts on the device, and one launch per read group prepares.

use crate::dataset::source::Source;
use crate::device::assemble::gathered;
use crate::device::batch::Field;
use crate::device::constants::PerSource;
use crate::device::kernel::KernelConstants;
use crate::device::upload::{HostGroup, Ticket, Uploader, cube_device};
use crate::error::Result;
use crate::host::planes::{PlaneBuffer, PlaneBuffers};
use crate::observe::counters::BatchLog;
use crate::observe::timeline::Stage;
use crate::plan::batch::Gather;
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::prepare::precision::Precision;
use burn::tensor::Device;

/// The upload thread of a device, and the kernel's constants there.
#[derive(Clone)]
pub(crate) struct KernelPath {
    uploader: Uploader,
    constants: PerSource<PerGroup<KernelConstants>>,
}

impl KernelPath {
    /// The path to a device, if it is a CubeCL device.
    ///
    /// # Errors
    /// Its upload thread cannot be started.
    pub(crate) fn to(device: &Device, sources: usize) -> Result<Option<Self>> {
        let Some(device) = cube_device(device) else {
            return Ok(None);
        };
        Ok(Some(Self {
            uploader: Uploader::of(&device)?,
            constants: PerSource::new(sources),
        }))
    }

    /// Hands planes to the upload thread, and returns at once.
    pub(crate) fn send(self, planes: PlaneBuffers, log: &BatchLog) -> Crossing {
        let PlaneBuffers { groups, gathers } = planes;
        let host = |_, buffer: PlaneBuffer| HostGroup {
            planes: buffer.lease.into_bytes(),
            format: buffer.format,
            rows: buffer.rows,
        };
        let ticket = self.uploader.send(groups.map(host), log);
        Crossing {
            path: self,
            ticket,
            gathers,
        }
    }

    /// Uploads the constants of a source on the stream of this thread.
    fn constants(&self, source: &Source) -> PerGroup<KernelConstants> {
        let preparation = source.context.preparation();
        source.groups.as_ref().map(|_, group| {
            let shape = group.planes.shape();
            let device = self.uploader.device();
            KernelConstants::new(preparation, &group.constants, shape, device)
        })
    }
}

/// Planes on their way, and how tensors are put together from them.
pub(crate) struct Crossing {
    path: KernelPath,
    ticket: Ticket,
    gathers: PerRole<Vec<Gather>>,
}

impl Crossing {
    /// Waits for the planes and launches the kernel on the stream of this thread, which has to be
    /// the consumer's.
    ///
    /// # Errors
    /// A failed upload or launch.
    pub(crate) fn finish(
        self,
        source: &Source,
        precision: Precision,
        log: &BatchLog,
    ) -> Result<PerRole<Field>> {
        let path = &self.path;
        let constants = path.constants.of(source, || path.constants(source));
        let uploaded = self.ticket.wait()?;
        log.record(Stage::Prepare, || {
            let groups = uploaded.zip(constants.as_ref());
            let prepare =
                |_, (raw, constants): (_, &KernelConstants)| constants.prepare(raw, precision);
            Ok(gathered(groups.try_map(prepare)?, self.gathers))
        })
    }
}
