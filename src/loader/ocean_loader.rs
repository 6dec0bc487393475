//! The loader: passes over the data, read ahead on threads of their own, delivered in order.
//!
//! ```text
//!  consumer            queue (bounded in batches and bytes)        pass thread
//!  next() ◀── finish ◀── [ batch N+1 ][ batch N+2 ] ◀── push ◀── plan, lease, read (Rayon)
//!                          │
//!                          └ prefetched to the device: its upload starts when it is next in line
//! ```
//!
//! The first failure of a pass arrives once, in its place in the order; good batches before it are
//! delivered; then the pass ends. A panic anywhere below is such a failure.

use crate::augment::transform::{Augment, Transform};
use crate::device::batch::ModelBatch;
use crate::device::lane::DeviceLane;
use crate::error::{Error, Result};
use crate::loader::batcher::OceanBatcher;
use crate::loader::cursor::Cursor;
use crate::loader::latest::{Latest, Start};
use crate::loader::pass::{self, Pass};
use crate::loader::pass_iter::{FailedPass, PassIter, items};
use crate::loader::prefetch::{PrefetchOptions, PrefetchTo};
use crate::loader::slices::{Slice, SliceSets};
use crate::loader::threads::PassThreads;
use crate::observe::counters::{Counters, LoaderCounters};
use crate::observe::timeline::Timeline;
use crate::order::fingerprint::Fingerprint;
use crate::order::schedule::Schedule;
use crate::order::state::{LoaderState, Position};
use crate::sync::Stop;
use crate::threads;
use burn::data::dataloader::{DataLoader, DataLoaderIterator};
use burn::tensor::Device;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Batches of ocean windows, as a Burn [`DataLoader`].
///
/// Pass p (counted from the starting pass) delivers epoch p of the schedule, so the order never
/// depends on threads or prefetching. Iterators are independent of each other: each has a pass
/// thread to itself, and threads are kept for the next pass.
///
/// # Ending
/// An iterator may be dropped at any time, which waits for nothing: its reader ends after the read that
/// is under way. A loader has at most two reader threads more than it ever had iterators at once: where
/// that many are still inside a read of an iterator that is gone, a new one begins when the first of them
/// ends. Dropping the loader waits up to five seconds for readers to end. A reader that is
/// still inside its source then is left behind, with an error in the log: the thread keeps what it reads
/// from, and ends when the source returns.
///
/// # Interruption
/// [`state`](Self::state) says how far the loader is, [`resume`](Self::resume) goes on from there:
/// in the middle of an epoch, with batch after batch as if nothing had happened, whatever the
/// number of threads and the prefetch depth are now.
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
    threads: PassThreads,
    counters: Counters,
    timeline: Timeline,
    slice_sets: SliceSets,
    /// Where this is a slice of another loader.
    slice: Option<Slice>,
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
            threads: PassThreads::default(),
            counters: Counters::default(),
            timeline: Timeline::default(),
            slice_sets: SliceSets::default(),
            slice: None,
            share: OnceLock::new(),
        };
        loader.upload_ahead(&loader.batcher.lane(device)?)?;
        // Page-locked memory that the driver refuses is an error here, not in the first pass.
        loader.batcher.pool(device)?;
        for warning in loader.warnings()? {
            log::warn!("{warning}");
        }
        Ok(loader)
    }

    /// Another loader with the same batcher, counters, timeline and place, before its first pass.
    fn sibling(&self, device: &Device, slice: Option<Slice>) -> Self {
        Self {
            batcher: self.batcher.clone(),
            schedule: self.schedule.clone(),
            prefetch: self.prefetch,
            device: device.clone(),
            start: self.start.clone(),
            passes: AtomicU64::new(0),
            latest: self.latest.clone(),
            augment: self.augment.clone(),
            threads: PassThreads::default(),
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
            slice_sets: SliceSets::default(),
            slice,
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
    /// way: pick p of window w is item `w * picks + p` of the schedule, which is made anew over
    /// that many items. Call it before [`resume`](Self::resume).
    ///
    /// Order, sharding and resuming are those of any schedule, and each pick has a key that depends
    /// on seed, epoch, window and pick alone ([`Pick`](crate::order::Pick)). A plane that several
    /// picks of a batch show is still read once.
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
    /// A state that slices saved can be resumed by as many slices in every order. With one that forbids
    /// another world (Samudra's, custom) a pass of the loader as a whole, or of another number of
    /// slices, then consists of that error.
    ///
    /// # Errors
    /// The data set, the order or the seed is another one, or the position cannot be reached with
    /// this world or batch size.
    pub fn resume(self, state: &LoaderState) -> Result<Self> {
        let store = self.fingerprint();
        let position = match state.resume(&self.schedule, &store) {
            Ok(position) => position,
            Err(_) if state.fits_slices_of(&self.schedule, &store) => state.position(),
            Err(error) => return Err(error),
        };
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
            None => match self.of_slices(&store) {
                Some(saved) => saved.clone(),
                None => LoaderState::new(&self.schedule, self.start.position, store),
            },
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
    /// it is made:
    ///
    /// * nothing is read ahead ([`PrefetchOptions::batches`] is 0, or the builder's `num_workers`);
    /// * one reader thread, where the machine has more cores;
    /// * fewer planes in a batch, or fewer chunks that hold them, than reader threads;
    /// * a batch that is larger than what may be read ahead.
    ///
    /// What is odd about the data is told by [`OceanDataset::warnings`](crate::OceanDataset::warnings).
    ///
    /// # Errors
    /// The first batch cannot be planned.
    pub fn warnings(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        if self.batches() == 0 {
            return Ok(warnings);
        }
        let epoch = self.schedule.epoch(0);
        let planned = pass::plan(self.batcher.dataset(), &epoch, self.picks(), 0)?;
        let bytes = self.batcher.lane(&self.device)?.host_bytes(&planned);
        let (planes, chunks) = (planned.plan.unique_planes() as u64, planned.chunks()?);
        // Of the pool that reads, whether it runs yet or not.
        let readers = threads::planned_threads()?;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        if readers == 1 && cores > 1 {
            warnings.push(format!(
                "1 reader thread reads and decodes, of {cores} cores"
            ));
        }
        // A source without chunks says 0.
        let parts = if chunks == 0 {
            planes
        } else {
            planes.min(chunks)
        };
        if parts < readers as u64 {
            warnings.push(format!(
                "a batch has {planes} planes in {chunks} chunks, fewer than the {readers} reader \
                 threads: some idle"
            ));
        }
        if self.prefetch.batches == 0 {
            warnings.push(
                "nothing is read ahead: the model waits for every batch to be read".to_owned(),
            );
        } else if bytes > self.prefetch.bytes {
            warnings.push(format!(
                "a batch of {bytes} bytes exceeds the prefetch bound of {} bytes: it is read alone",
                self.prefetch.bytes
            ));
        }
        Ok(warnings)
    }

    /// Whether the next batch is sent to the device before it is asked for.
    fn upload_ahead(&self, lane: &DeviceLane) -> Result<bool> {
        let possible = lane.uploads_ahead() && self.prefetch.batches > 0;
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
        let Some(slice) = &self.slice else {
            return Ok(&self.schedule);
        };
        if self.share.get().is_none() {
            let share = self.schedule.shard(slice.shard()?)?;
            return Ok(self.share.get_or_init(|| share));
        }
        Ok(self.share.get().unwrap_or(&self.schedule))
    }

    /// Where the first pass starts, in steps of `share`.
    fn first(&self, share: &Schedule) -> Result<Position> {
        match &self.start.saved {
            Some(state) => state.resume(share, &self.fingerprint()),
            None => Ok(self.start.position),
        }
    }

    /// What was resumed, where only slices can go on from it.
    fn of_slices(&self, store: &Fingerprint) -> Option<&LoaderState> {
        let saved = self.start.saved.as_ref()?;
        saved.fits_slices_of(&self.schedule, store).then_some(saved)
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
        let cursor = Cursor::new(position);
        if let Some(slice) = &self.slice {
            slice.begins(&cursor);
        }
        let slice_set = self.slice.as_ref().map(Slice::set);
        self.latest.begins(share, &cursor, first, slice_set);
        let pass = self.pass(share, position)?;
        Ok((pass, cursor))
    }

    /// Items of the schedule for each window.
    fn picks(&self) -> u64 {
        self.augment.as_ref().map_or(1, Augment::picks)
    }

    /// The batches of an epoch from `position` on.
    fn pass(&self, schedule: &Schedule, position: Position) -> Result<Pass> {
        let dataset = self.batcher.dataset();
        let lane = self.batcher.lane(&self.device)?;
        let pool = self.batcher.pool(&self.device)?;
        // Of those that wait, the one being read, and two that the consumer has; a short batch at the
        // end may take smaller ones.
        let batches = self.prefetch.batches.saturating_add(4);
        let steps = dataset.context(0).window().steps;
        let buffers = batches.saturating_mul(lane.host_buffers(steps));
        Ok(Pass {
            buffers: pool.expect(buffers),
            dataset: dataset.clone(),
            stop: Stop::default(),
            epoch: schedule.epoch(position.epoch),
            first: position.delivered,
            slice: self.slice.clone(),
            picks: self.picks(),
            upload_ahead: self.upload_ahead(&lane)?,
            lane,
            carry: self.prefetch.carry,
            counters: self.counters.clone(),
            timeline: self.timeline.clone(),
        })
    }
}

impl DataLoader<ModelBatch> for OceanLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<ModelBatch> + 'a> {
        let pass = self.next_pass().and_then(|(pass, cursor)| {
            let augment = self.augment.clone();
            PassIter::new(pass, cursor, augment, self.prefetch, &self.threads)
        });
        match pass {
            Ok(pass) => Box::new(pass),
            Err(error) => Box::new(FailedPass::new(error)),
        }
    }

    /// Windows per pass. With several ranks it is the same on each, and counts a short batch as a
    /// full one.
    fn num_items(&self) -> usize {
        match (self.share(), &self.slice) {
            (Ok(share), _) => items(share),
            // A slice whose siblings are not there yet.
            (Err(_), Some(slice)) => slice.items(),
            (Err(_), None) => items(&self.schedule),
        }
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<ModelBatch>> {
        Arc::new(self.sibling(device, self.slice.clone()))
    }

    /// The share of one of n devices, as Burn's multi-device strategies cut them: n equal slices,
    /// all made before one of them is iterated. Each epoch is shuffled as a whole and then dealt
    /// out batch by batch, so shares are disjoint, of equal length, and other ones in every epoch.
    /// With fewer windows than devices some are drawn twice.
    ///
    /// When a slice fails at some batch, the others deliver what comes before it, and fail there
    /// too (or, where they are ahead, at their next batch); all stay failed.
    ///
    /// Slices that are no such n make passes that consist of that error.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<ModelBatch>> {
        let slice = match &self.slice {
            Some(slice) => slice.nested(),
            None => self.slice_sets.add(self.num_items(), start..end),
        };
        Arc::new(self.sibling(&self.device, Some(slice)))
    }
}
