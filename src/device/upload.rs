//! Uploads: one persistent thread per device with two streams in turn.
//!
//! ```text
//!  consumer or reader      upload thread                       copy queue of the device
//!  send() ──▶ Upload ──▶ [jobs] ──▶ create(Bytes) ─────────▶ copy ──▶ fence
//!  Ticket::wait() ◀───────────────── RawGroup ◀── waits here ──────────┘  Bytes dropped: lease home
//! ```
//!
//! * *One thread for the whole process*, because a CubeCL stream belongs to a thread and the memory
//!   of a dead thread's stream is never reclaimed.
//! * *Two streams in turn*, because a kernel that reads another stream's memory waits for the tail
//!   of that stream: on one stream it would also wait for the next upload.
//! * *One upload per read group, awaited before the next*, because CubeCL lets go of page-locked
//!   buffers on its runner thread, and waits there for the previous fence after 10 MiB of them: the
//!   model's launches would stand still for the whole transfer. Waited for here, the fence has
//!   always passed, and every lease is home before the planes are announced.

use crate::error::{Error, ErrorKind, Result, catching};
use crate::observe::counters::BatchLog;
use crate::observe::timeline::Stage;
use crate::plan::groups::PerGroup;
use crate::prepare::transfer::HostFormat;
use crate::sync::lock;
use burn::backend::DispatchDevice;
use burn::tensor::{Bytes, DType, Device, Element, Shape, StreamId};
use burn_cubecl::CubeDevice;
use burn_cubecl::cubecl::future::block_on;
use burn_cubecl::tensor::CubeTensor;
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// One read group in host memory, about to cross.
pub(crate) struct HostGroup {
    /// Planes, unique rows one after the other: raw ones in float32, or prepared ones.
    pub planes: Bytes,
    pub format: HostFormat,
    /// The unique row of each row that the kernel will write.
    pub rows: Vec<u32>,
}

/// One read group on its device. Clones share the memory.
#[derive(Clone)]
pub(crate) struct RawGroup {
    pub planes: CubeTensor,
    pub format: HostFormat,
    pub rows: CubeTensor,
    /// Entries of `rows`.
    pub wanted: usize,
}

/// The CubeCL device behind a Burn device, if that is what it is.
pub(crate) fn cube_device(device: &Device) -> Option<CubeDevice> {
    match device.clone().inner().as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.clone()),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// Which CUDA device this is, if it is one.
#[cfg(feature = "cuda")]
pub(crate) fn cuda_index(device: &Device) -> Option<usize> {
    match cube_device(device)? {
        CubeDevice::Cuda(cuda) => Some(cuda.index),
        _ => None,
    }
}

/// A rank-1 tensor on the stream of this thread.
pub(crate) fn on_device<E: Element>(
    device: &CubeDevice,
    values: Vec<E>,
    dtype: DType,
) -> CubeTensor {
    let len = values.len();
    tensor(device, Bytes::from_elems(values), len, dtype)
}

fn tensor(device: &CubeDevice, bytes: Bytes, len: usize, dtype: DType) -> CubeTensor {
    let client = device.client();
    let handle = client.create(bytes);
    CubeTensor::new_contiguous(
        client,
        device.clone(),
        Shape::from(vec![len]),
        handle,
        dtype,
    )
}

/// The upload thread of a device.
#[derive(Clone)]
pub(crate) struct Uploader {
    device: CubeDevice,
    jobs: Sender<Job>,
}

struct Job {
    groups: PerGroup<HostGroup>,
    log: BatchLog,
    /// Set when nobody wants the planes any more.
    cancelled: Arc<AtomicBool>,
    done: Sender<Result<PerGroup<RawGroup>>>,
}

/// An upload that was asked for. Dropping it cancels an upload that has not begun.
pub(crate) struct Ticket {
    cancelled: Arc<AtomicBool>,
    done: Receiver<Result<PerGroup<RawGroup>>>,
}

impl Ticket {
    /// Waits for the planes.
    ///
    /// # Errors
    /// The copy failed, or the upload thread is gone.
    pub(crate) fn wait(self) -> Result<PerGroup<RawGroup>> {
        self.done.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Interrupted, "the upload thread is gone")
}

/// Every device's thread, started at the first upload and kept until the process ends.
static UPLOADERS: Mutex<Vec<Uploader>> = Mutex::new(Vec::new());

impl Uploader {
    /// The uploader of a device.
    ///
    /// # Errors
    /// Its thread cannot be started.
    pub(crate) fn of(device: &CubeDevice) -> Result<Self> {
        let mut uploaders = lock(&UPLOADERS);
        if let Some(known) = uploaders.iter().find(|u| u.device == *device) {
            return Ok(known.clone());
        }
        let (jobs, work) = unbounded();
        let uploader = Self {
            device: device.clone(),
            jobs,
        };
        let device = device.clone();
        std::thread::Builder::new()
            .name(format!("om4-upload-{}", uploaders.len()))
            .spawn(move || run(&device, &work))
            .map_err(|e| Error::new(ErrorKind::Io, "cannot start an upload thread").caused_by(e))?;
        uploaders.push(uploader.clone());
        Ok(uploader)
    }

    pub(crate) fn device(&self) -> &CubeDevice {
        &self.device
    }

    /// Asks for an upload and returns at once. Uploads of a device happen in the order asked for.
    pub(crate) fn send(&self, groups: PerGroup<HostGroup>, log: &BatchLog) -> Ticket {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (done, result) = bounded(1);
        let job = Job {
            groups,
            log: log.clone(),
            cancelled: cancelled.clone(),
            done,
        };
        // A thread that is gone drops the job, and the ticket says so.
        let _ = self.jobs.send(job);
        Ticket {
            cancelled,
            done: result,
        }
    }
}

fn run(device: &CubeDevice, work: &Receiver<Job>) {
    let streams = [StreamId::allocate(), StreamId::allocate()];
    for (job, stream) in work.iter().zip(streams.into_iter().cycle()) {
        let Job {
            groups,
            log,
            cancelled,
            done,
        } = job;
        if cancelled.load(Ordering::Relaxed) {
            continue;
        }
        let planes = log.record(Stage::Upload, || {
            let one = |_, group| upload(device, group, &log);
            catching("the upload thread", || {
                stream.executes(|| groups.try_map(one))
            })
        });
        // Nobody waits any more: the planes are dropped here.
        let _ = done.send(planes);
    }
}

/// Copies one group and waits until the copy is done and the host buffer is home.
fn upload(device: &CubeDevice, group: HostGroup, log: &BatchLog) -> Result<RawGroup> {
    let failed =
        |what: String| Error::new(ErrorKind::Device, "an upload to the device failed").found(what);
    let HostGroup {
        planes,
        format,
        rows,
    } = group;
    let (bytes, wanted) = (planes.len(), rows.len());
    let values = bytes / format.dtype().size();
    if values == 0 {
        // A group without channels: nothing crosses, and nothing is read from it.
        let nothing = || on_device(device, vec![0u32], DType::U32);
        return Ok(RawGroup {
            planes: nothing(),
            format,
            rows: nothing(),
            wanted,
        });
    }
    let raw = RawGroup {
        planes: tensor(device, planes, values, format.dtype()),
        format,
        rows: on_device(device, rows, DType::U32),
        wanted,
    };
    let client = device.client();
    // Waits on this thread, and reports a failed copy.
    let copied = block_on(client.sync_buffers([&raw.planes.handle, &raw.rows.handle]));
    copied.map_err(|e| failed(format!("{e:?}")))?;
    // CubeCL keeps host buffers in two lists: a flush frees the second and moves up the first. A
    // copy of more than 10 MiB has flushed once by itself, a smaller one has not: two flushes free
    // either. All fences have passed, so nothing is waited for.
    for _ in 0..2 {
        client.flush().map_err(|e| failed(format!("{e:?}")))?;
    }
    log.uploaded(bytes);
    Ok(raw)
}
