//! The iterator over one pass: takes batches in order and makes them ready for the model.

use crate::augment::transform::Augment;
use crate::device::batch::ModelBatch;
use crate::device::lane::{BatchInTransit, DeviceLane};
use crate::error::{Error, ErrorKind, Result, catching};
use crate::host::pool::HostPool;
use crate::loader::cursor::Cursor;
use crate::loader::pass::{Pass, PassReader, QueuedBatch};
use crate::loader::prefetch::PrefetchOptions;
use crate::loader::queue::{Bounds, Consumer, bounded};
use crate::loader::slices::Slice;
use crate::loader::threads::PassThreads;
use crate::observe::counters::{BatchLog, Counters, Delivered};
use crate::observe::timeline::{Stage, Timeline};
use crate::order::schedule::{Epoch, Schedule};
use crate::sync::Stop;
use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use std::time::Instant;

/// One pass, as its consumer sees it.
pub(crate) struct PassIter {
    feed: BatchFeed,
    /// Tells the reader that nobody waits any more.
    stop: Stop,
    /// Where the reader may wait for a buffer.
    pool: HostPool,
    lane: DeviceLane,
    cursor: Cursor,
    /// Where the loader is a slice.
    slice: Option<Slice>,
    /// What changes batches, and where picks are taken from.
    augment: Option<(Augment, Epoch)>,
    counters: Counters,
    timeline: Timeline,
    /// Batches in the epoch.
    batches: u64,
    /// Windows of the batches before, delivered here or before a resume.
    windows: usize,
    /// Windows that the epoch counts as.
    total: usize,
    /// When the last batch was handed out.
    handed_out: Option<Instant>,
    first: bool,
    ended: bool,
}

/// Where host batches come from.
enum BatchFeed {
    /// Read ahead on a thread.
    Queue(Consumer<QueuedBatch>),
    /// Read when asked for.
    Here(Box<PassReader>),
}

impl BatchFeed {
    fn new(pass: Pass, prefetch: PrefetchOptions, threads: &PassThreads) -> Result<Self> {
        if prefetch.batches == 0 {
            return Ok(Self::Here(Box::new(PassReader::new(pass))));
        }
        let (producer, consumer) = bounded(Bounds {
            items: prefetch.batches,
            bytes: prefetch.bytes,
        });
        let stop = pass.stop.clone();
        let reader = PassReader::new(pass);
        threads.run(stop, move || reader.run(producer))?;
        Ok(Self::Queue(consumer))
    }
}

impl PassIter {
    /// Begins to read a pass, whose place `cursor` shows.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn new(
        pass: Pass,
        cursor: Cursor,
        augment: Option<Augment>,
        prefetch: PrefetchOptions,
        threads: &PassThreads,
    ) -> Result<Self> {
        let schedule = pass.epoch.schedule();
        let before = pass.first as usize;
        Ok(Self {
            stop: pass.stop.clone(),
            pool: pass.buffers.pool().clone(),
            lane: pass.lane.clone(),
            cursor,
            slice: pass.slice.clone(),
            augment: augment.map(|augment| (augment, pass.epoch.clone())),
            counters: pass.counters.clone(),
            timeline: pass.timeline.clone(),
            batches: schedule.steps(),
            windows: before.saturating_mul(schedule.options().batch_size),
            total: items(schedule),
            handed_out: None,
            first: true,
            ended: false,
            feed: BatchFeed::new(pass, prefetch, threads)?,
        })
    }

    fn host_batch(&mut self) -> Option<Result<BatchInTransit>> {
        let batch = self.cursor.get().delivered;
        if batch >= self.batches {
            return None;
        }
        Some(match &mut self.feed {
            BatchFeed::Here(reader) => reader.next_batch(),
            BatchFeed::Queue(queue) => match queue.pop() {
                Some(queued) => queued.batch,
                // The thread died without a word: never a silent end of an epoch.
                None => Err(
                    Error::new(ErrorKind::Interrupted, "the reader thread ended early")
                        .expected(format!("{} batches", self.batches))
                        .found(batch),
                ),
            },
        })
    }

    fn deliver(&mut self, host: BatchInTransit) -> Result<ModelBatch> {
        let at = self.cursor.get();
        if let Some(slice) = &self.slice {
            slice.check(at)?;
        }
        let delivered = Delivered {
            windows: host.windows.len(),
            shown_planes: host.shown_planes,
            unique_planes: host.unique_planes,
        };
        let log = BatchLog::new(&self.timeline, &self.counters, at.delivered);
        let batch = self.lane.finish(host, &log);
        let batch = batch.and_then(|batch| match &self.augment {
            Some((augment, epoch)) => catching("the transform", || {
                augment.apply(batch, epoch, at.delivered)
            }),
            None => Ok(batch),
        });
        if let (Err(error), Some(slice)) = (&batch, &self.slice) {
            slice.failed(at, error);
        }
        let batch = batch?;
        if let BatchFeed::Queue(queue) = &self.feed {
            // Only now: on the device's one runner the next upload would delay this batch's
            // kernels.
            queue.start_next();
        }
        self.counters.delivered(&delivered);
        self.windows += delivered.windows;
        self.cursor.advance();
        Ok(batch)
    }

    /// Notes that the consumer is done with the batch it was handed last, if it has one.
    fn used(&mut self, at: Instant) {
        if let Some(handed_out) = self.handed_out.take() {
            let last = self.cursor.get().delivered.saturating_sub(1);
            self.timeline.span(Stage::Model, last, handed_out, at);
        }
    }
}

impl Drop for PassIter {
    /// A pass that is dropped early has been used until now. Its reader ends after the read that is
    /// under way, and at once where it waits for a buffer; nobody waits for it here.
    fn drop(&mut self) {
        self.used(Instant::now());
        self.stop.set();
        self.pool.wake();
    }
}

impl Iterator for PassIter {
    type Item = Result<ModelBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let asked = Instant::now();
        self.used(asked);
        let batch = self.host_batch();
        let batch = batch.map(|host| host.and_then(|host| self.deliver(host)));
        if batch.is_some() {
            let first = std::mem::take(&mut self.first);
            self.counters.waited(asked.elapsed(), first);
        }
        self.ended = !matches!(batch, Some(Ok(_)));
        self.handed_out = (!self.ended).then(Instant::now);
        batch.map(|batch| batch.map_err(DatasetError::new))
    }
}

impl DataLoaderIterator<ModelBatch> for PassIter {
    /// Complete with the last batch, whatever its length: Burn takes the last step of accumulated
    /// gradients then.
    fn progress(&self) -> Progress {
        let windows = match self.cursor.get().delivered {
            delivered if delivered >= self.batches => self.total,
            _ => self.windows.min(self.total),
        };
        Progress::new(windows, self.total, Some("windows".into()))
    }
}

/// A pass that could not start: the error, and the end.
pub(crate) struct FailedPass(Option<Error>);

impl FailedPass {
    pub(crate) fn new(error: Error) -> Self {
        Self(Some(error))
    }
}

impl Iterator for FailedPass {
    type Item = Result<ModelBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|error| Err(DatasetError::new(error)))
    }
}

impl DataLoaderIterator<ModelBatch> for FailedPass {
    fn progress(&self) -> Progress {
        Progress::new(0, 0, Some("windows".into()))
    }
}

/// Windows that an epoch counts as: a short batch is a full one where there are several ranks.
pub(crate) fn items(schedule: &Schedule) -> usize {
    let options = schedule.options();
    let items = match options.world {
        1 if !options.drop_last => schedule.groups().windows(),
        _ => schedule.steps().saturating_mul(options.batch_size as u64),
    };
    usize::try_from(items).unwrap_or(usize::MAX)
}
