//! The loader: passes over the data, read ahead on threads of their own, delivered in order.
//!
//! ```text
//!  consumer            queue (bounded in batches and bytes)        reader thread
//!  next() ◀── finish ◀── [ batch N+1 ][ batch N+2 ] ◀── push ◀── plan, lease, read (Rayon)
//! ```
//!
//! The first failure of a pass arrives once, in its place in the order; good batches before it are
//! delivered; then the pass ends. A panic anywhere below is such a failure.

use crate::batch::ModelBatch;
use crate::batcher::{HostBatch, OceanBatcher, PreparedBy};
use crate::counters::{Counters, LoaderCounters};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::BatchPlan;
use crate::queue::{Bounds, Consumer, Producer, bounded};
use crate::schedule::{Epoch, Schedule, Shard};
use crate::window::Window;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use crossbeam::channel::{Sender, unbounded};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// How far the loader runs ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prefetch {
    /// Batches read ahead of the one in use. 0 reads each batch when it is asked for, on the
    /// consumer's thread: a baseline. Default 2.
    pub batches: usize,
    /// Bytes of batches read ahead. A batch that alone exceeds it is still read, alone. Default
    /// 16 GiB.
    pub bytes: u64,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            batches: 2,
            bytes: 16 << 30,
        }
    }
}

/// Batches of ocean windows, as a Burn [`DataLoader`].
///
/// Pass p (counted from the starting pass) delivers epoch p of the schedule, so the order never
/// depends on threads or prefetching. Iterators are independent of each other: each has a reader
/// thread to itself, and threads are kept for the next pass.
pub struct OceanLoader {
    batcher: OceanBatcher,
    schedule: Schedule,
    prefetch: Prefetch,
    device: Device,
    starting_pass: usize,
    passes: AtomicUsize,
    readers: Readers,
    counters: Counters,
}

impl OceanLoader {
    /// A loader that delivers to `device`.
    ///
    /// # Errors
    /// A schedule over another number of windows than the data set has.
    pub fn new(
        batcher: OceanBatcher,
        schedule: Schedule,
        prefetch: Prefetch,
        device: &Device,
    ) -> Result<Self> {
        let windows = batcher.dataset().windows();
        if schedule.groups().windows() != windows as u64 {
            return Err(
                Error::config("the schedule and the data set differ in length")
                    .expected(format!("{windows} windows"))
                    .found(schedule.groups().windows()),
            );
        }
        let counters = Counters::default();
        Ok(Self::assemble(
            batcher,
            schedule,
            prefetch,
            device.clone(),
            0,
            counters,
        ))
    }

    fn assemble(
        batcher: OceanBatcher,
        schedule: Schedule,
        prefetch: Prefetch,
        device: Device,
        starting_pass: usize,
        counters: Counters,
    ) -> Self {
        Self {
            batcher,
            schedule,
            prefetch,
            device,
            starting_pass,
            passes: AtomicUsize::new(0),
            readers: Readers::default(),
            counters,
        }
    }

    /// Makes the next pass epoch `pass`: after `Learner`'s `checkpoint(k)`, that is k.
    pub fn starting_at(mut self, pass: usize) -> Self {
        self.starting_pass = pass;
        self
    }

    /// The batcher.
    pub fn batcher(&self) -> &OceanBatcher {
        &self.batcher
    }

    /// The order of batches.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Totals so far, over all passes and iterators of this loader and its slices.
    pub fn counters(&self) -> LoaderCounters {
        self.counters.snapshot()
    }

    /// Batches in one pass.
    pub fn batches(&self) -> u64 {
        self.schedule.steps()
    }

    fn pass(&self) -> Pass {
        let pass = self.starting_pass + self.passes.fetch_add(1, Ordering::SeqCst);
        Pass {
            batcher: self.batcher.clone(),
            epoch: self.schedule.epoch(pass as u64),
            prepared_by: PreparedBy::of(&self.device),
            counters: self.counters.clone(),
        }
    }
}

/// All that is needed to read one pass.
struct Pass {
    batcher: OceanBatcher,
    epoch: Epoch,
    prepared_by: PreparedBy,
    counters: Counters,
}

/// A batch that is known but not read.
struct Planned {
    windows: Vec<Window>,
    plan: BatchPlan,
    bytes: u64,
}

impl Pass {
    fn plan(&self, batch: u64) -> Result<Planned> {
        let dataset = self.batcher.dataset();
        let find = |index: u64| {
            let window = usize::try_from(index).ok().and_then(|i| dataset.window(i));
            window.ok_or_else(|| {
                Error::config("the schedule names a window that does not exist").found(index)
            })
        };
        let windows = self
            .epoch
            .batch(batch)
            .into_iter()
            .map(find)
            .collect::<Result<Vec<_>>>()?;
        let plan = dataset.plan(&windows)?;
        let bytes = self.batcher.host_bytes(&windows, &plan, self.prepared_by)?;
        Ok(Planned {
            windows,
            plan,
            bytes,
        })
    }

    fn read(&self, planned: Planned) -> Result<HostBatch> {
        let started = Instant::now();
        let read = || {
            self.batcher
                .read(planned.windows, planned.plan, self.prepared_by)
        };
        let host = catching("the reader", read)?;
        self.counters
            .read(&host.counts, host.nan_in_ocean, started.elapsed());
        Ok(host)
    }

    /// The reader thread's work: until the end, the first failure, or the consumer's departure.
    fn run(&self, queue: &Producer<Result<HostBatch>>) {
        for batch in 0..self.epoch.len() {
            let planned = catching("the planner", || self.plan(batch));
            let bytes = planned.as_ref().map_or(0, |p| p.bytes);
            if queue.reserve(bytes).is_err() {
                return;
            }
            let host = planned.and_then(|p| self.read(p));
            let failed = host.is_err();
            if queue.push(host, bytes).is_err() || failed {
                return;
            }
        }
    }
}

/// Runs `f`, and makes an error of a panic.
fn catching<T>(what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        Err(
            Error::new(ErrorKind::Interrupted, format!("{what} panicked"))
                .found(panic_text(&*panic)),
        )
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}

type Job = Box<dyn FnOnce() + Send>;

/// Reader threads, one per iterator alive at the same time, kept between passes.
#[derive(Default)]
struct Readers {
    threads: Mutex<Vec<Reader>>,
}

struct Reader {
    jobs: Option<Sender<Job>>,
    /// Shared with the job that runs, if one does.
    busy: Arc<()>,
    thread: Option<JoinHandle<()>>,
}

impl Readers {
    /// Runs `work` on an idle thread, or on a new one. `signal` is dropped when the thread is idle
    /// again, so whoever waits for it finds the thread free.
    fn run(&self, work: impl FnOnce() + Send + 'static, signal: impl Send + 'static) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = threads.iter().position(|r| Arc::strong_count(&r.busy) == 1);
        let index = match idle {
            Some(index) => index,
            None => {
                let index = threads.len();
                threads.push(Reader::start(index)?);
                index
            }
        };
        let busy = threads[index].busy.clone();
        let job: Job = Box::new(move || {
            work();
            drop(busy);
            drop(signal);
        });
        match threads[index].jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Interrupted,
                "a reader thread is gone",
            )),
        }
    }
}

impl Reader {
    fn start(index: usize) -> Result<Self> {
        let (jobs, work) = unbounded::<Job>();
        let thread = std::thread::Builder::new()
            .name(format!("om4-reader-{index}"))
            .spawn(move || work.into_iter().for_each(|job| job()))
            .map_err(|e| Error::new(ErrorKind::Io, "cannot start a reader thread").caused_by(e))?;
        Ok(Self {
            jobs: Some(jobs),
            busy: Arc::default(),
            thread: Some(thread),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Iterators borrow the loader, so all are gone: at most one read is still in flight.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One pass.
struct Batches<'a> {
    loader: &'a OceanLoader,
    source: From,
    delivered: u64,
    windows: usize,
    ended: bool,
}

/// Where host batches come from.
enum From {
    Queue(Consumer<Result<HostBatch>>),
    /// Read when asked for.
    Here(Pass),
    /// The pass could not start.
    Failed(Option<Error>),
}

impl Batches<'_> {
    fn host_batch(&mut self) -> Option<Result<HostBatch>> {
        match &mut self.source {
            From::Failed(error) => error.take().map(Err),
            _ if self.delivered == self.loader.batches() => None,
            From::Here(pass) => Some(pass.plan(self.delivered).and_then(|p| pass.read(p))),
            From::Queue(queue) => Some(queue.pop().unwrap_or_else(|| {
                // The thread died without a word: never a silent end of an epoch.
                Err(
                    Error::new(ErrorKind::Interrupted, "the reader thread ended early")
                        .expected(format!("{} batches", self.loader.batches()))
                        .found(self.delivered),
                )
            })),
        }
    }

    fn deliver(&mut self, host: HostBatch) -> Result<ModelBatch> {
        let loader = self.loader;
        let (windows, bytes) = (host.windows.len(), host.bytes());
        let (shown, unique) = (host.plan.touched_planes(), host.plan.unique_planes());
        let batch = catching("the device", || loader.batcher.finish(host, &loader.device))?;
        loader.counters.delivered(windows, shown, unique, bytes);
        self.windows += windows;
        self.delivered += 1;
        Ok(batch)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<ModelBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let asked = Instant::now();
        let batch = self
            .host_batch()
            .map(|host| host.and_then(|host| self.deliver(host)));
        if batch.is_some() {
            self.loader
                .counters
                .waited(asked.elapsed(), self.delivered <= 1);
        }
        self.ended = !matches!(batch, Some(Ok(_)));
        batch.map(|b| b.map_err(DatasetError::new))
    }
}

impl DataLoaderIterator<ModelBatch> for Batches<'_> {
    fn progress(&self) -> Progress {
        Progress::new(
            self.windows,
            self.loader.num_items(),
            Some("windows".into()),
        )
    }
}

impl DataLoader<ModelBatch> for OceanLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<ModelBatch> + 'a> {
        let pass = self.pass();
        let source = if self.prefetch.batches == 0 {
            From::Here(pass)
        } else {
            let bounds = Bounds {
                items: self.prefetch.batches,
                bytes: self.prefetch.bytes,
            };
            let (producer, consumer) = bounded(bounds);
            let producer = Arc::new(producer);
            let signal = producer.clone();
            match self.readers.run(move || pass.run(&producer), signal) {
                Ok(()) => From::Queue(consumer),
                Err(error) => From::Failed(Some(error)),
            }
        };
        Box::new(Batches {
            loader: self,
            source,
            delivered: 0,
            windows: 0,
            ended: false,
        })
    }

    /// Windows per pass. With several ranks it is the same on each, and counts a short batch as a
    /// full one.
    fn num_items(&self) -> usize {
        let spec = self.schedule.spec();
        let all = spec.world == 1 && !spec.drop_last;
        if all {
            self.batcher.dataset().windows()
        } else {
            self.batches() as usize * spec.batch_size
        }
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<ModelBatch>> {
        Arc::new(Self::assemble(
            self.batcher.clone(),
            self.schedule.clone(),
            self.prefetch,
            device.clone(),
            self.starting_pass,
            self.counters.clone(),
        ))
    }

    /// One of n equal shares, for n devices. Each epoch is shuffled as a whole and then dealt out
    /// batch by batch, so shares are disjoint, of equal length, and other ones in every epoch.
    ///
    /// # Panics
    /// When `start..end` is not one of n equal slices, as Burn's multi-device strategies cut them.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<ModelBatch>> {
        let shard = Shard::of_slice(self.num_items(), start, end);
        let schedule = shard.and_then(|shard| self.schedule.shard(shard));
        Arc::new(Self::assemble(
            self.batcher.clone(),
            schedule.unwrap_or_else(|e| panic!("{e}")),
            self.prefetch,
            self.device.clone(),
            self.starting_pass,
            self.counters.clone(),
        ))
    }
}
