//! One pass over an epoch: its batches planned and read, in order, from the first to deliver.

use crate::batcher::OceanBatcher;
use crate::counters::Counters;
use crate::error::{Error, Result, catching};
use crate::host::HostPool;
use crate::host_batch::HostBatch;
use crate::lane::DeviceLane;
use crate::plan::BatchPlan;
use crate::queue::Producer;
use crate::schedule::Epoch;
use crate::split::Part;
use crate::state::Position;
use crate::trace::{Lane, Timeline};
use crate::window::Window;
use std::time::Instant;

/// A batch in the queue, or the failure that stands in its place.
pub(crate) struct Read {
    pub batch: u64,
    pub host: Result<HostBatch>,
}

/// All that is needed to read one pass.
pub(crate) struct Pass {
    pub batcher: OceanBatcher,
    pub epoch: Epoch,
    /// The first batch to deliver.
    pub first: u64,
    /// Where the loader is a slice.
    pub part: Option<Part>,
    /// Items of the schedule for each window.
    pub picks: u64,
    pub lane: DeviceLane,
    pub pool: HostPool,
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

    /// Reads a planned batch, and lets the other slices know when that failed.
    pub fn known(&self, planned: Result<Planned>, batch: u64) -> Result<HostBatch> {
        let host = planned.and_then(|p| self.read(p, batch));
        if let (Err(error), Some(part)) = (&host, &self.part) {
            let at = Position {
                epoch: self.epoch.number(),
                delivered: batch,
            };
            part.failed(at, error);
        }
        host
    }

    /// The reader thread's work: until the end, the first failure, or the consumer's departure.
    pub fn run(&self, queue: &Producer<Read>) {
        for batch in self.first..self.epoch.len() {
            let planned = catching("the planner", || self.plan(batch));
            let bytes = planned.as_ref().map_or(0, |p| p.bytes);
            if queue.reserve(bytes).is_err() {
                return;
            }
            let host = self.known(planned, batch);
            let failed = host.is_err();
            if queue.push(Read { batch, host }, bytes).is_err() || failed {
                return;
            }
        }
    }
}
