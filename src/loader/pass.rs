//! One pass over an epoch: its batches planned and read, in order, from the first to deliver.

use crate::device::lane::{BatchInTransit, DeviceLane, Transit};
use crate::error::{Error, Result, catching};
use crate::host::batch::{BatchBuffers, HostBatch};
use crate::host::carry::{Carry, NextBatch};
use crate::host::pool::HostPool;
use crate::loader::batcher::OceanBatcher;
use crate::loader::queue::Producer;
use crate::loader::slices::Slice;
use crate::observe::counters::Counters;
use crate::observe::timeline::{Stage, Timeline};
use crate::order::schedule::Epoch;
use crate::order::state::Position;
use crate::plan::batch::BatchPlan;
use crate::plan::window::Window;
use std::time::Instant;

/// A batch in the queue, or the failure that stands in its place.
pub(crate) struct QueuedBatch {
    pub batch: u64,
    pub host: Result<BatchInTransit>,
}

/// All that is needed to read one pass.
pub(crate) struct Pass {
    pub batcher: OceanBatcher,
    pub epoch: Epoch,
    /// The first batch to deliver.
    pub first: u64,
    /// Where the loader is a slice.
    pub part: Option<Slice>,
    /// Items of the schedule for each window.
    pub picks: u64,
    pub lane: DeviceLane,
    pub pool: HostPool,
    /// Bytes that a batch may leave in memory for the next.
    pub carry: u64,
    pub counters: Counters,
    pub timeline: Timeline,
}

/// A batch that is known but not read.
pub(crate) struct Planned {
    windows: Vec<Window>,
    pub plan: BatchPlan,
    pub bytes: u64,
}

impl Pass {
    pub fn plan(&self, batch: u64) -> Result<Planned> {
        let dataset = self.batcher.dataset();
        let find = |item: u64| {
            let index = item / self.picks;
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

    fn read(
        &self,
        planned: Planned,
        batch: u64,
        next: Option<&Planned>,
        carry: &mut Carry,
    ) -> Result<HostBatch> {
        let started = Instant::now();
        let by = self.lane.prepared_by();
        let source = planned.windows[0].source;
        let next = next.filter(|next| next.windows[0].source == source);
        let next = next.map(|next| &next.plan);
        let read = || {
            let ahead = NextBatch { carry, next };
            let Planned { windows, plan, .. } = planned;
            let buffers = BatchBuffers {
                pool: &self.pool,
                batch: Some(batch),
            };
            self.batcher.read(windows, plan, by, buffers, ahead)
        };
        let host = self
            .timeline
            .record(Stage::Read, batch, || catching("the reader", read))?;
        let took = started.elapsed();
        self.counters
            .read(&host.counts, host.carried, host.nan_in_ocean, took);
        Ok(host)
    }
}

/// A pass being read, batch by batch from its first: each knows what the next will want.
pub(crate) struct PassReader {
    pass: Pass,
    carry: Carry,
    /// The batch to be read next, and its plan once it is made.
    batch: u64,
    planned: Option<Result<Planned>>,
}

impl PassReader {
    pub fn new(pass: Pass) -> Self {
        Self {
            carry: Carry::new(pass.carry),
            batch: pass.first,
            planned: None,
            pass,
        }
    }

    /// The way to the device.
    pub fn lane(&self) -> &DeviceLane {
        &self.pass.lane
    }

    fn plan(&self) -> Result<Planned> {
        catching("the planner", || self.pass.plan(self.batch))
    }

    /// Bytes that the next batch will take.
    fn bytes(&mut self) -> u64 {
        let planned = self.planned.take().unwrap_or_else(|| self.plan());
        let bytes = planned.as_ref().map_or(0, |p| p.bytes);
        self.planned = Some(planned);
        bytes
    }

    /// Reads the next batch, and lets the other slices know when that failed.
    pub fn read(&mut self) -> Result<HostBatch> {
        let planned = self.planned.take().unwrap_or_else(|| self.plan());
        let batch = self.batch;
        self.batch += 1;
        if self.batch < self.pass.epoch.len() {
            self.planned = Some(self.plan());
        }
        let next = self.planned.as_ref().and_then(|p| p.as_ref().ok());
        let host = planned.and_then(|p| self.pass.read(p, batch, next, &mut self.carry));
        if let (Err(error), Some(part)) = (&host, &self.pass.part) {
            let at = Position {
                epoch: self.pass.epoch.number(),
                delivered: batch,
            };
            part.failed(at, error);
        }
        host
    }

    /// The reader thread's work: until the end, the first failure, or the consumer's departure.
    pub fn run(mut self, queue: &Producer<QueuedBatch>) {
        while self.batch < self.pass.epoch.len() {
            let (batch, bytes) = (self.batch, self.bytes());
            if queue.reserve(bytes).is_err() {
                return;
            }
            let host = self.read().map(|host| host.map_buffers(Transit::Host));
            let failed = host.is_err();
            if queue.push(QueuedBatch { batch, host }, bytes).is_err() || failed {
                return;
            }
        }
    }
}
