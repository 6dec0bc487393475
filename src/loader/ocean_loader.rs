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

use crate::augment::transform::{Augment, Transform};
use crate::device::batch::ModelBatch;
use crate::device::lane::{BatchInTransit, DeviceLane, Transit};
use crate::error::{Error, ErrorKind, Result, catching};
use crate::loader::batcher::OceanBatcher;
use crate::loader::cursor::Cursor;
use crate::loader::latest::{Latest, Start};
use crate::loader::pass::{Pass, PassReader, QueuedBatch};
use crate::loader::prefetch::{PrefetchOptions, PrefetchTo};
use crate::loader::queue::{Bounds, Consumer, NextInLine, bounded};
use crate::loader::slices::{Slice, SliceSets};
use crate::loader::threads::PassThreads;
use crate::observe::counters::{BatchLog, Counters, Delivered, LoaderCounters};
use crate::observe::timeline::{Stage, Timeline};
use crate::order::fingerprint::Fingerprint;
use crate::order::schedule::{Epoch, Schedule};
use crate::order::state::{LoaderState, Position};
use crate::prepare::path::PreparedBy;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Batches of ocean windows, as a Burn [`DataLoader`].
///
/// Pass p (counted from the starting pass) delivers epoch p of the schedule, so the order never
/// depends on threads or prefetching. Iterators are independent of each other: each has a reader
/// thread to itself, and threads are kept for the next pass.
///
/// # Interruption
/// [`state`](Self::state) says how far the loader is, [`resume`](Self::resume) goes on from there:
/// in the middle of an epoch, with batch after batch as if nothing had happened, whatever the number
/// of threads and the prefetch depth are now.
///
/// ```
/// # use burn::data::dataloader::DataLoader;
/// # use burn_om4::{LoaderState, OceanLoader, Result};
/// # fn train(make: impl Fn() -> Result<OceanLoader>) -> Result<()> {
/// let loader = make()?;
/// let mut batches = loader.iter();
/// // ... some steps later, between two of them:
/// let saved = loader.state().to_json();
///
/// // ... in another process:
/// let loader = make()?.resume(&LoaderState::from_json(&saved)?)?;
/// for batch in loader.iter() { /* the rest of that epoch */ }
/// for batch in loader.iter() { /* the next epoch, whole */ }
/// # drop(batches); Ok(()) }
/// ```
pub struct OceanLoader {
    batcher: OceanBatcher,
    schedule: Schedule,
    prefetch: PrefetchOptions,
    device: Device,
    start: Start,
    passes: AtomicU64,
    latest: Latest,
    augment: Option<Augment>,
    readers: PassThreads,
    counters: Counters,
    timeline: Timeline,
    splits: SliceSets,
    /// Where this is a slice of another loader.
    part: Option<Slice>,
    /// The slice's share of the schedule, known once all slices are there.
    share: OnceLock<Schedule>,
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
        prefetch: PrefetchOptions,
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
            start: Start::of_epoch(0),
            passes: AtomicU64::new(0),
            latest: Latest::default(),
            augment: None,
            readers: PassThreads::default(),
            counters: Counters::default(),
            timeline: Timeline::default(),
            splits: SliceSets::default(),
            part: None,
            share: OnceLock::new(),
        };
        loader.ahead(&loader.batcher.lane(device)?)?;
        for warning in loader.warnings()? {
            log::warn!("{warning}");
        }
        Ok(loader)
    }

    /// Another loader with the same batcher, counters, timeline and place, before its first pass.
    fn sibling(&self, device: &Device, part: Option<Slice>) -> Self {
        Self {
            batcher: self.batcher.clone(),
            schedule: self.schedule.clone(),
            prefetch: self.prefetch,
            device: device.clone(),
            start: self.start.clone(),
            passes: AtomicU64::new(0),
            latest: self.latest.clone(),
            augment: self.augment.clone(),
            readers: PassThreads::default(),
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
            splits: SliceSets::default(),
            part,
            share: OnceLock::new(),
        }
    }

    /// Records what happens when into `timeline`.
    pub fn with_timeline(mut self, timeline: &Timeline) -> Self {
        self.timeline = timeline.clone();
        self
    }

    /// Makes the next pass epoch `pass`: after `Learner`'s `checkpoint(k)`, that is k.
    pub fn starting_at(self, pass: usize) -> Self {
        self.restarted(Start::of_epoch(pass as u64))
    }

    /// The same before its first pass, which starts there.
    fn restarted(mut self, start: Start) -> Self {
        self.start = start;
        self.passes = AtomicU64::new(0);
        self.latest = Latest::default();
        self
    }

    /// Delivers every window `picks` times per epoch, each time changed by `transform` in another
    /// way: pick p of window w is item `w * picks + p` of the schedule, which is made anew over that
    /// many items. Call it before [`resume`](Self::resume).
    ///
    /// Order, sharding and resuming are those of any schedule, and each pick has a key that depends
    /// on seed, epoch, window and pick alone ([`Pick`](crate::order::Pick)). A plane that several picks of
    /// a batch show is still read once.
    ///
    /// # Errors
    /// No pick, a transform that cannot serve the data set, or a loader that has been resumed.
    pub fn augment(mut self, picks: usize, transform: impl Transform + 'static) -> Result<Self> {
        if self.start.saved.is_some() {
            return Err(Error::config(
                "augment a loader before it is resumed, not afterwards",
            ));
        }
        let dataset = self.batcher.dataset();
        for source in dataset.sources.iter() {
            transform.check(&source.context)?;
        }
        let groups = dataset.groups().repeated(picks as u64)?;
        self.schedule = Schedule::new(self.schedule.options().clone(), groups)?;
        self.augment = Some(Augment::new(picks as u64, transform));
        let start = self.start.clone();
        Ok(self.restarted(start))
    }

    /// What a state must have been saved with.
    fn fingerprint(&self) -> Fingerprint {
        let dataset = self.batcher.dataset().fingerprint().clone();
        match &self.augment {
            Some(augment) => dataset.with("picks", augment.fingerprint()),
            None => dataset,
        }
    }

    /// Goes on from a saved state: the next pass delivers what the saved epoch had left, the passes
    /// after it the epochs that follow. What may differ from the saved run is listed at
    /// [`LoaderState`].
    ///
    /// # Errors
    /// The data set, the order or the seed is another one, or the position cannot be reached with
    /// this world or batch size.
    pub fn resume(self, state: &LoaderState) -> Result<Self> {
        let position = state.resume(&self.schedule, &self.fingerprint())?;
        let saved = Some(state.clone());
        Ok(self.restarted(Start { position, saved }))
    }

    /// How far this loader is: the place of the iterator that was made last, by the batches it has
    /// delivered. Batches that are read ahead do not count. Before the first iterator it is where
    /// that one will start.
    ///
    /// Ask between two batches, on the thread that takes them. Copies on other devices and slices
    /// count as this loader: with slices it is what every one of them has delivered, as a state of
    /// that many more ranks. An older iterator that is still in use does not count.
    pub fn state(&self) -> LoaderState {
        let store = self.fingerprint();
        match self.latest.get() {
            Some((schedule, position)) => LoaderState::new(&schedule, position, store),
            None => LoaderState::new(&self.schedule, self.start.position, store),
        }
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
        let planned = self.pass(&self.schedule, Position::default())?.plan(0)?;
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

    /// What this loader delivers: the schedule, or a slice's share of it.
    fn share(&self) -> Result<&Schedule> {
        let Some(part) = &self.part else {
            return Ok(&self.schedule);
        };
        if self.share.get().is_none() {
            let share = self.schedule.shard(part.shard()?)?;
            return Ok(self.share.get_or_init(|| share));
        }
        Ok(self.share.get().unwrap_or(&self.schedule))
    }

    /// Where the first pass starts, in steps of `share`.
    fn first(&self, share: &Schedule) -> Result<Position> {
        match (&self.part, &self.start.saved) {
            (Some(_), Some(state)) => state.resume(share, &self.fingerprint()),
            _ => Ok(self.start.position),
        }
    }

    /// The next pass, and its place, which is the loader's from now on.
    fn next_pass(&self) -> Result<(Pass, Cursor)> {
        let share = self.share()?;
        let first = self.first(share)?;
        let position = match self.passes.fetch_add(1, Ordering::SeqCst) {
            0 => first,
            pass => Position {
                epoch: first.epoch.saturating_add(pass),
                delivered: 0,
            },
        };
        let place = Cursor::new(position);
        if let Some(part) = &self.part {
            part.begins(&place);
        }
        let split = self.part.as_ref().map(Slice::split);
        self.latest.begins(share, &place, first, split);
        let pass = self.pass(share, position)?;
        Ok((pass, place))
    }

    /// The batches of an epoch from `position` on.
    fn pass(&self, schedule: &Schedule, position: Position) -> Result<Pass> {
        Ok(Pass {
            epoch: schedule.epoch(position.epoch),
            first: position.delivered,
            part: self.part.clone(),
            picks: self.augment.as_ref().map_or(1, Augment::picks),
            lane: self.batcher.lane(&self.device)?,
            pool: self.batcher.pool(&self.device)?,
            carry: self.prefetch.carry,
            batcher: self.batcher.clone(),
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
        })
    }

    /// Where the way of a batch to the device is noted.
    fn log(&self, batch: u64) -> BatchLog {
        BatchLog {
            timeline: self.timeline.clone(),
            counters: self.counters.clone(),
            batch,
        }
    }

    fn start(&self, pass: Pass) -> Result<BatchFeed> {
        let ahead = self.ahead(&pass.lane)?;
        if self.prefetch.batches == 0 {
            return Ok(BatchFeed::Here(Box::new(PassReader::new(pass))));
        }
        let bounds = Bounds {
            items: self.prefetch.batches,
            bytes: self.prefetch.bytes,
        };
        let (lane, log) = (pass.lane.clone(), self.log(0));
        let start: NextInLine<QueuedBatch> = match ahead {
            true => Box::new(move |read: QueuedBatch| {
                let batch = read.batch;
                let log = BatchLog {
                    batch,
                    ..log.clone()
                };
                QueuedBatch {
                    host: read.host.map(|host| lane.start(host, &log)),
                    ..read
                }
            }),
            false => Box::new(|read| read),
        };
        let (producer, consumer) = bounded(bounds, start);
        let producer = Arc::new(producer);
        let signal = producer.clone();
        let lane = pass.lane.clone();
        let reader = PassReader::new(pass);
        self.readers.run(move || reader.run(&producer), signal)?;
        Ok(BatchFeed::Queue(consumer, lane))
    }
}

/// One pass.
struct PassIter<'a> {
    loader: &'a OceanLoader,
    source: BatchFeed,
    place: Cursor,
    /// Batches in the epoch.
    batches: u64,
    /// Windows of the batches before, delivered here or before a resume.
    windows: usize,
    /// Windows that the epoch counts as.
    total: usize,
    /// Where picks are taken from, if any.
    epoch: Option<Epoch>,
    /// When the last batch was handed out.
    handed_out: Option<Instant>,
    first: bool,
    ended: bool,
}

/// Where host batches come from.
enum BatchFeed {
    Queue(Consumer<QueuedBatch>, DeviceLane),
    /// Read when asked for.
    Here(Box<PassReader>),
    /// The pass could not start.
    Failed(Option<Error>),
}

impl PassIter<'_> {
    fn host_batch(&mut self) -> Option<Result<(BatchInTransit, DeviceLane)>> {
        let batch = self.place.get().delivered;
        match &mut self.source {
            BatchFeed::Failed(error) => error.take().map(Err),
            _ if batch >= self.batches => None,
            BatchFeed::Here(reader) => Some(
                reader
                    .read()
                    .map(|host| (host.map_buffers(Transit::Host), reader.lane().clone())),
            ),
            BatchFeed::Queue(queue, lane) => Some(match queue.pop() {
                Some(read) => read.host.map(|host| (host, lane.clone())),
                // The thread died without a word: never a silent end of an epoch.
                None => Err(
                    Error::new(ErrorKind::Interrupted, "the reader thread ended early")
                        .expected(format!("{} batches", self.batches))
                        .found(batch),
                ),
            }),
        }
    }

    fn deliver(&mut self, host: BatchInTransit, lane: &DeviceLane) -> Result<ModelBatch> {
        let (loader, at) = (self.loader, self.place.get());
        if let Some(part) = &loader.part {
            part.check(at)?;
        }
        let delivered = Delivered {
            windows: host.windows.len(),
            shown_planes: host.shown_planes,
            unique_planes: host.unique_planes,
        };
        let batch = lane.finish(host, loader.batcher.dataset(), &loader.log(at.delivered));
        let batch = batch.and_then(|batch| match (&loader.augment, &self.epoch) {
            (Some(augment), Some(epoch)) => catching("the transform", || {
                augment.apply(batch, epoch, at.delivered)
            }),
            _ => Ok(batch),
        });
        if let (Err(error), Some(part)) = (&batch, &loader.part) {
            part.failed(at, error);
        }
        let batch = batch?;
        if let BatchFeed::Queue(queue, _) = &self.source {
            // Only now: on the device's one runner the next upload would delay this batch's kernels.
            queue.start_next();
        }
        loader.counters.delivered(&delivered);
        self.windows += delivered.windows;
        self.place.advance();
        Ok(batch)
    }

    /// Notes that the consumer is done with the batch it was handed last, if it has one.
    fn used(&mut self, at: Instant) {
        if let Some(handed_out) = self.handed_out.take() {
            let last = self.place.get().delivered.saturating_sub(1);
            self.loader
                .timeline
                .span(Stage::Model, last, handed_out, at);
        }
    }
}

impl Drop for PassIter<'_> {
    /// A pass that is dropped early has been used until now.
    fn drop(&mut self) {
        self.used(Instant::now());
    }
}

impl Iterator for PassIter<'_> {
    type Item = Result<ModelBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let asked = Instant::now();
        self.used(asked);
        let batch = self.host_batch();
        let batch = batch.map(|b| b.and_then(|(host, lane)| self.deliver(host, &lane)));
        if batch.is_some() {
            let first = std::mem::take(&mut self.first);
            self.loader.counters.waited(asked.elapsed(), first);
        }
        self.ended = !matches!(batch, Some(Ok(_)));
        self.handed_out = (!self.ended).then(Instant::now);
        batch.map(|b| b.map_err(DatasetError::new))
    }
}

impl DataLoaderIterator<ModelBatch> for PassIter<'_> {
    /// Complete with the last batch, whatever its length: Burn takes the last step of accumulated
    /// gradients then.
    fn progress(&self) -> Progress {
        let windows = match self.place.get().delivered {
            delivered if delivered >= self.batches => self.total,
            _ => self.windows.min(self.total),
        };
        Progress::new(windows, self.total, Some("windows".into()))
    }
}

/// Windows that an epoch counts as: a short batch is a full one where there are several ranks.
fn items(schedule: &Schedule) -> usize {
    let spec = schedule.options();
    let items = match spec.world {
        1 if !spec.drop_last => schedule.groups().windows(),
        _ => schedule.steps().saturating_mul(spec.batch_size as u64),
    };
    usize::try_from(items).unwrap_or(usize::MAX)
}

impl DataLoader<ModelBatch> for OceanLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<ModelBatch> + 'a> {
        let mut batches = PassIter {
            loader: self,
            source: BatchFeed::Failed(None),
            place: Cursor::new(self.start.position),
            batches: 0,
            windows: 0,
            total: 0,
            epoch: None,
            handed_out: None,
            first: true,
            ended: false,
        };
        let source = self.next_pass().and_then(|(pass, place)| {
            let schedule = pass.epoch.schedule();
            batches.batches = schedule.steps();
            batches.total = items(schedule);
            let before = pass.first as usize;
            batches.windows = before.saturating_mul(schedule.options().batch_size);
            batches.place = place;
            batches.epoch = self.augment.is_some().then(|| pass.epoch.clone());
            self.start(pass)
        });
        batches.source = source.unwrap_or_else(|error| BatchFeed::Failed(Some(error)));
        Box::new(batches)
    }

    /// Windows per pass. With several ranks it is the same on each, and counts a short batch as a
    /// full one.
    fn num_items(&self) -> usize {
        match (self.share(), &self.part) {
            (Ok(share), _) => items(share),
            // A slice whose siblings are not there yet.
            (Err(_), Some(part)) => part.items(),
            (Err(_), None) => items(&self.schedule),
        }
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<ModelBatch>> {
        Arc::new(self.sibling(device, self.part.clone()))
    }

    /// The share of one of n devices, as Burn's multi-device strategies cut them: n equal slices,
    /// all made before one of them is iterated. Each epoch is shuffled as a whole and then dealt out
    /// batch by batch, so shares are disjoint, of equal length, and other ones in every epoch. With
    /// fewer windows than devices some are drawn twice.
    ///
    /// When a slice fails at some batch, the others deliver what comes before it, and fail there too
    /// (or, where they are ahead, at their next batch); all stay failed.
    ///
    /// Slices that are no such n make passes that consist of that error.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<ModelBatch>> {
        let part = match &self.part {
            Some(part) => part.nested(),
            None => self.splits.add(self.num_items(), start..end),
        };
        Arc::new(self.sibling(&self.device, Some(part)))
    }
}
