//! One pass over an epoch: its batches planned and read, in order, from the first to deliver.

use crate::dataset::ocean_dataset::OceanDataset;
use crate::dataset::planned::Planned;
use crate::device::lane::{BatchInTransit, DeviceLane};
use crate::error::{Error, Result, catching};
use crate::host::batch::FillResources;
use crate::host::carry::RowCarry;
use crate::host::pool::Expected;
use crate::loader::queue::{NextInLine, Producer};
use crate::loader::slices::Slice;
use crate::observe::counters::{BatchLog, Counters};
use crate::observe::timeline::{Stage, Timeline};
use crate::order::schedule::Epoch;
use crate::order::state::Position;
use crate::sync::Stop;
use std::time::Instant;

/// A batch in the queue, or the failure that stands in its place.
pub(crate) struct QueuedBatch {
    pub batch: Result<BatchInTransit>,
    /// Where its upload is noted, if it is sent to the device before its consumer asks for it.
    pub upload_ahead: Option<BatchLog>,
}

impl NextInLine for QueuedBatch {
    fn next_in_line(self) -> Self {
        match (self.batch, self.upload_ahead) {
            (Ok(batch), Some(log)) => Self {
                batch: Ok(batch.map_buffers(|transit| transit.start(&log))),
                upload_ahead: None,
            },
            (batch, upload_ahead) => Self {
                batch,
                upload_ahead,
            },
        }
    }
}

/// All that is needed to read one pass.
pub(crate) struct Pass {
    pub dataset: OceanDataset,
    pub epoch: Epoch,
    /// The first batch to deliver.
    pub first: u64,
    /// Where the loader is a slice.
    pub slice: Option<Slice>,
    /// Items of the schedule for each window.
    pub picks: u64,
    pub lane: DeviceLane,
    /// Of the host, in their pool.
    pub buffers: Expected,
    /// Set when its consumer is gone.
    pub stop: Stop,
    /// Bytes that a batch may leave in memory for the next.
    pub carry: u64,
    /// Whether the next batch is sent to the device before it is asked for.
    pub upload_ahead: bool,
    pub counters: Counters,
    pub timeline: Timeline,
}

impl Pass {
    /// Where the way of a batch to the device is noted.
    pub(crate) fn log(&self, batch: u64) -> BatchLog {
        BatchLog::new(&self.timeline, &self.counters, batch)
    }
}

/// Plans batch `batch` of an epoch with so many items for each window.
///
/// # Errors
/// A window that does not exist, or that its source does not hold.
pub(crate) fn plan(
    dataset: &OceanDataset,
    epoch: &Epoch,
    picks: u64,
    batch: u64,
) -> Result<Planned> {
    let find = |item: u64| {
        let index = item / picks;
        let window = usize::try_from(index).ok().and_then(|i| dataset.window(i));
        window.ok_or_else(|| {
            Error::config("the schedule names a window that does not exist").found(index)
        })
    };
    let windows = epoch.batch(batch).into_iter().map(find);
    dataset.planned(windows.collect::<Result<Vec<_>>>()?)
}

/// A pass being read, batch by batch from its first: each knows what the next will want.
pub(crate) struct PassReader {
    pass: Pass,
    carry: RowCarry,
    /// The batch to be read next, and its plan once it is made.
    batch: u64,
    planned: Option<Result<Planned>>,
}

impl PassReader {
    pub(crate) fn new(pass: Pass) -> Self {
        Self {
            carry: RowCarry::new(pass.carry),
            batch: pass.first,
            planned: None,
            pass,
        }
    }

    fn plan(&self) -> Result<Planned> {
        let Pass {
            dataset,
            epoch,
            picks,
            ..
        } = &self.pass;
        catching("the planner", || plan(dataset, epoch, *picks, self.batch))
    }

    /// Bytes that the next batch will take.
    fn bytes(&mut self) -> u64 {
        let planned = self.planned.take().unwrap_or_else(|| self.plan());
        let bytes = planned.as_ref().map_or(0, |p| self.pass.lane.host_bytes(p));
        self.planned = Some(planned);
        bytes
    }

    /// Reads the next batch, and lets the other slices know when that failed.
    pub(crate) fn next_batch(&mut self) -> Result<BatchInTransit> {
        let planned = self.planned.take().unwrap_or_else(|| self.plan());
        let number = self.batch;
        self.batch += 1;
        if self.batch < self.pass.epoch.len() {
            self.planned = Some(self.plan());
        }
        let batch = planned.and_then(|planned| self.fill(planned, number));
        // A batch that nobody waits for any more has not failed.
        let wanted = !self.pass.stop.is_set();
        if let (Err(error), Some(slice), true) = (&batch, &self.pass.slice, wanted) {
            let at = Position {
                epoch: self.pass.epoch.number(),
                delivered: number,
            };
            slice.failed(at, error);
        }
        batch
    }

    fn fill(&mut self, planned: Planned, number: u64) -> Result<BatchInTransit> {
        let started = Instant::now();
        let pass = &self.pass;
        let next = self.planned.as_ref().and_then(|next| next.as_ref().ok());
        let next = next.filter(|next| next.source.index == planned.source.index);
        let resources = FillResources {
            pool: pass.buffers.pool(),
            batch: Some(number),
            carry: &mut self.carry,
            next: next.map(|next| &next.plan),
            stop: &pass.stop,
        };
        let batch = pass.timeline.record(Stage::Read, number, || {
            catching("the reader", || pass.lane.fill(planned, resources))
        })?;
        pass.counters
            .read(&batch.counts, batch.carried, &batch.odd, started.elapsed());
        Ok(batch)
    }

    /// The pass thread's work: until the end, the first failure, or the consumer's departure.
    /// Gives the queue back, so that whoever called it says when the pass has ended.
    pub(crate) fn run(mut self, queue: Producer<QueuedBatch>) -> Producer<QueuedBatch> {
        while self.batch < self.pass.epoch.len() {
            let (number, bytes) = (self.batch, self.bytes());
            if queue.reserve(bytes).is_err() {
                break;
            }
            let batch = self.next_batch();
            let failed = batch.is_err();
            let upload_ahead = self.pass.upload_ahead.then(|| self.pass.log(number));
            let queued = QueuedBatch {
                batch,
                upload_ahead,
            };
            if queue.push(queued, bytes).is_err() || failed {
                break;
            }
        }
        queue
    }
}
