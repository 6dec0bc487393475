//! The loader: passes over the data, read ahead on threads of their own, delivered in order.
//!
//! ```text
//!  consumer            queue (bounded in batches and bytes)        reader thread
//!  next() ◀── finish ◀── [ batch N+1 ][ batch N+2 ] ◀── push ◀── plan, lease, read (Rayon)
//!                          │
//!                          └ prefetched to the device: its upload starts when it is next in line
//! ```
//!
//! The first failure of a pass arrives once, in its place in the order; good batches before it are
//! delivered; then the pass ends. A panic anywhere below is such a failure.

use crate::batch::ModelBatch;
use crate::batcher::OceanBatcher;
use crate::counters::{Counters, Delivered, LoaderCounters};
use crate::error::{Error, ErrorKind, Result, catching};
use crate::host::HostPool;
use crate::host_batch::HostBatch;
use crate::lane::{DeviceLane, PreparedBy};
use crate::plan::BatchPlan;
use crate::prefetch::{Prefetch, PrefetchTo};
use crate::queue::{Bounds, Consumer, NextInLine, Producer, bounded};
use crate::readers::Readers;
use crate::schedule::{Epoch, Schedule, Shard};
use crate::trace::{Lane, Timeline};
use crate::window::Window;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

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
    timeline: Timeline,
}

impl OceanLoader {
    /// A loader that delivers to `device`.
    ///
    /// # Errors
    /// A schedule over another number of windows than the data set has, or a prefetch that the
    /// device cannot serve.
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
        let loader = Self {
            batcher,
            schedule,
            prefetch,
            device: device.clone(),
            starting_pass: 0,
            passes: AtomicUsize::new(0),
            readers: Readers::default(),
            counters: Counters::default(),
            timeline: Timeline::default(),
        };
        loader.ahead(&loader.batcher.lane(device)?)?;
        for warning in loader.warnings()? {
            log::warn!("{warning}");
        }
        Ok(loader)
    }

    /// Another loader over the same batcher, counters and timeline, from the starting pass.
    fn with(&self, schedule: Schedule, device: Device) -> Self {
        Self {
            batcher: self.batcher.clone(),
            schedule,
            prefetch: self.prefetch,
            device,
            starting_pass: self.starting_pass,
            passes: AtomicUsize::new(0),
            readers: Readers::default(),
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
        }
    }

    /// Records what happens when into `timeline`.
    pub fn with_timeline(mut self, timeline: &Timeline) -> Self {
        self.timeline = timeline.clone();
        self
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

    /// What makes this loader slower than it could be, judged by its first batch; also logged when
    /// it is made.
    ///
    /// # Errors
    /// The first batch cannot be planned.
    pub fn warnings(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        if self.batches() == 0 {
            return Ok(warnings);
        }
        let planned = self.pass(0)?.plan(0)?;
        let (planes, readers) = (planned.plan.unique_planes(), rayon::current_num_threads());
        if planes < readers {
            warnings.push(format!(
                "a batch has {planes} planes, fewer than the {readers} reader threads: some idle"
            ));
        }
        if self.prefetch.batches > 0 && planned.bytes > self.prefetch.bytes {
            warnings.push(format!(
                "a batch of {} bytes exceeds the prefetch bound of {} bytes: it is read alone",
                planned.bytes, self.prefetch.bytes
            ));
        }
        Ok(warnings)
    }

    /// Whether the next batch is sent to the device before it is asked for.
    fn ahead(&self, lane: &DeviceLane) -> Result<bool> {
        let possible = lane.prepared_by() == PreparedBy::Kernel && self.prefetch.batches > 0;
        match self.prefetch.to {
            PrefetchTo::Host => Ok(false),
            PrefetchTo::Auto => Ok(possible),
            PrefetchTo::Device if possible => Ok(true),
            PrefetchTo::Device => Err(Error::config("batches cannot be prefetched to this device")
                .expected("a device with an upload thread, and at least 1 batch of prefetch")
                .found(format!(
                    "{:?}, {} batches of prefetch",
                    self.device, self.prefetch.batches
                ))),
        }
    }

    fn pass(&self, epoch: usize) -> Result<Pass> {
        Ok(Pass {
            epoch: self.schedule.epoch(epoch as u64),
            lane: self.batcher.lane(&self.device)?,
            pool: self.batcher.pool(&self.device)?,
            batcher: self.batcher.clone(),
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
        })
    }

    fn start(&self, pass: Pass) -> Result<From> {
        let ahead = self.ahead(&pass.lane)?;
        if self.prefetch.batches == 0 {
            return Ok(From::Here(pass));
        }
        let bounds = Bounds {
            items: self.prefetch.batches,
            bytes: self.prefetch.bytes,
        };
        let (lane, timeline) = (pass.lane.clone(), self.timeline.clone());
        let start: NextInLine<Read> = match ahead {
            true => Box::new(move |read: Read| Read {
                host: read
                    .host
                    .map(|host| lane.start(host, &timeline, read.batch)),
                ..read
            }),
            false => Box::new(|read| read),
        };
        let (producer, consumer) = bounded(bounds, start);
        let producer = Arc::new(producer);
        let signal = producer.clone();
        let lane = pass.lane.clone();
        self.readers.run(move || pass.run(&producer), signal)?;
        Ok(From::Queue(consumer, lane))
    }
}

/// A batch in the queue, or the failure that stands in its place.
struct Read {
    batch: u64,
    host: Result<HostBatch>,
}

/// All that is needed to read one pass.
struct Pass {
    batcher: OceanBatcher,
    epoch: Epoch,
    lane: DeviceLane,
    pool: HostPool,
    counters: Counters,
    timeline: Timeline,
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
        let bytes = self
            .batcher
            .host_bytes(&windows, &plan, self.lane.prepared_by())?;
        Ok(Planned {
            windows,
            plan,
            bytes,
        })
    }

    fn read(&self, planned: Planned, batch: u64) -> Result<HostBatch> {
        let started = Instant::now();
        let by = self.lane.prepared_by();
        let read = || {
            self.batcher
                .read(planned.windows, planned.plan, by, &self.pool)
        };
        let host = self
            .timeline
            .record(Lane::Read, batch, || catching("the reader", read))?;
        self.counters
            .read(&host.counts, host.nan_in_ocean, started.elapsed());
        Ok(host)
    }

    /// The reader thread's work: until the end, the first failure, or the consumer's departure.
    fn run(&self, queue: &Producer<Read>) {
        for batch in 0..self.epoch.len() {
            let planned = catching("the planner", || self.plan(batch));
            let bytes = planned.as_ref().map_or(0, |p| p.bytes);
            if queue.reserve(bytes).is_err() {
                return;
            }
            let host = planned.and_then(|p| self.read(p, batch));
            let failed = host.is_err();
            if queue.push(Read { batch, host }, bytes).is_err() || failed {
                return;
            }
        }
    }
}

/// One pass.
struct Batches<'a> {
    loader: &'a OceanLoader,
    source: From,
    delivered: u64,
    windows: usize,
    /// When the last batch was handed out.
    handed_out: Option<Instant>,
    ended: bool,
}

/// Where host batches come from.
enum From {
    Queue(Consumer<Read>, DeviceLane),
    /// Read when asked for.
    Here(Pass),
    /// The pass could not start.
    Failed(Option<Error>),
}

impl Batches<'_> {
    fn host_batch(&mut self) -> Option<Result<(HostBatch, DeviceLane)>> {
        let batch = self.delivered;
        match &mut self.source {
            From::Failed(error) => error.take().map(Err),
            _ if batch == self.loader.batches() => None,
            From::Here(pass) => {
                let read = pass.plan(batch).and_then(|p| pass.read(p, batch));
                Some(read.map(|host| (host, pass.lane.clone())))
            }
            From::Queue(queue, lane) => Some(match queue.pop() {
                Some(read) => read.host.map(|host| (host, lane.clone())),
                // The thread died without a word: never a silent end of an epoch.
                None => Err(
                    Error::new(ErrorKind::Interrupted, "the reader thread ended early")
                        .expected(format!("{} batches", self.loader.batches()))
                        .found(batch),
                ),
            }),
        }
    }

    fn deliver(&mut self, host: HostBatch, lane: &DeviceLane) -> Result<ModelBatch> {
        let loader = self.loader;
        let (bytes, uploads) = host.crossing();
        let delivered = Delivered {
            windows: host.windows.len(),
            shown_planes: host.shown_planes,
            unique_planes: host.unique_planes,
            bytes,
            uploads,
        };
        let batch = lane.finish(host, &loader.batcher, &loader.timeline, self.delivered)?;
        if let From::Queue(queue, _) = &self.source {
            // Only now: on the device's one runner the next upload would delay this batch's kernels.
            queue.start_next();
        }
        loader.counters.delivered(&delivered);
        self.windows += delivered.windows;
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
        if let Some(handed_out) = self.handed_out.take() {
            self.loader
                .timeline
                .span(Lane::Model, self.delivered - 1, handed_out, asked);
        }
        let batch = self.host_batch();
        let batch = batch.map(|b| b.and_then(|(host, lane)| self.deliver(host, &lane)));
        if batch.is_some() {
            self.loader
                .counters
                .waited(asked.elapsed(), self.delivered <= 1);
            self.handed_out = Some(Instant::now());
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
        let epoch = self.starting_pass + self.passes.fetch_add(1, Ordering::SeqCst);
        let source = self.pass(epoch).and_then(|pass| self.start(pass));
        Box::new(Batches {
            loader: self,
            source: source.unwrap_or_else(|error| From::Failed(Some(error))),
            delivered: 0,
            windows: 0,
            handed_out: None,
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
        Arc::new(self.with(self.schedule.clone(), device.clone()))
    }

    /// One of n equal shares, for n devices. Each epoch is shuffled as a whole and then dealt out
    /// batch by batch, so shares are disjoint, of equal length, and other ones in every epoch.
    ///
    /// # Panics
    /// When `start..end` is not one of n equal slices, as Burn's multi-device strategies cut them.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<ModelBatch>> {
        let shard = Shard::of_slice(self.num_items(), start, end);
        let schedule = shard.and_then(|shard| self.schedule.shard(shard));
        let schedule = schedule.unwrap_or_else(|e| panic!("{e}"));
        Arc::new(self.with(schedule, self.device.clone()))
    }
}
