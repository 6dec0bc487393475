//! A batch in host memory: leased and filled.

use crate::dataset::channel_group::ChannelGroup;
use crate::dataset::planned::Planned;
use crate::dataset::source::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::host::carry::RowCarry;
use crate::host::pool::{Admission, HostLease, HostPool};
use crate::host::promise::PromisedPlanes;
use crate::host::sink::{MeetsCells, MetPlane};
use crate::ocean::plane::{PlaneRequest, PlaneSink, ReadCounts};
use crate::plan::batch::{BatchPlan, GroupPlan};
use crate::plan::groups::ReadGroup;
use crate::plan::window::Window;
use crate::prepare::odd_cells::OddCounts;
use crate::sync::Stop;
use std::borrow::Cow;
use std::sync::Arc;

/// A batch that has been read, in buffers of type `B`.
pub(crate) struct HostBatch<B> {
    pub source: Arc<Source>,
    pub windows: Vec<Window>,
    pub counts: ReadCounts,
    /// Planes that the batch before had left in memory.
    pub carried: u64,
    /// What wet cells of its unique planes held that they should not.
    pub odd: OddCounts,
    pub shown_planes: usize,
    pub unique_planes: usize,
    pub buffers: B,
}

impl<B> HostBatch<B> {
    /// Fills a planned batch: `fill` leases its buffers and reads into them.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn fill(
        planned: Planned,
        resources: FillResources<'_>,
        fill: impl FnOnce(&mut BatchFill<'_>, BatchPlan) -> Result<B>,
    ) -> Result<Self> {
        let Planned {
            source,
            windows,
            plan,
        } = planned;
        let (shown_planes, unique_planes) = (plan.touched_planes(), plan.unique_planes());
        resources.carry.begin(source.index);
        let mut filling = BatchFill {
            source: &source,
            resources,
            admission: None,
            counts: ReadCounts::default(),
            odd: OddCounts::default(),
        };
        let buffers = fill(&mut filling, plan)?;
        let (counts, odd) = (filling.counts, filling.odd);
        Ok(Self {
            source,
            windows,
            carried: (unique_planes as u64).saturating_sub(counts.planes),
            counts,
            odd,
            shown_planes,
            unique_planes,
            buffers,
        })
    }

    /// The same batch, with its buffers further on their way.
    pub(crate) fn map_buffers<C>(self, f: impl FnOnce(B) -> C) -> HostBatch<C> {
        HostBatch {
            source: self.source,
            windows: self.windows,
            counts: self.counts,
            carried: self.carried,
            odd: self.odd,
            shown_planes: self.shown_planes,
            unique_planes: self.unique_planes,
            buffers: f(self.buffers),
        }
    }
}

/// What a batch is filled from.
pub(crate) struct FillResources<'a> {
    pub pool: &'a HostPool,
    /// Its number in its pass, if it has one.
    pub batch: Option<u64>,
    /// The rows that the batch before left.
    pub carry: &'a mut RowCarry,
    /// The next batch, when it is known and of the same source.
    pub next: Option<&'a BatchPlan>,
    /// Set when nobody wants the batch any more.
    pub stop: &'a Stop,
}

/// One batch being filled.
pub(crate) struct BatchFill<'a> {
    pub source: &'a Source,
    resources: FillResources<'a>,
    admission: Option<Admission>,
    counts: ReadCounts,
    odd: OddCounts,
}

impl BatchFill<'_> {
    /// Waits until buffers of all these sizes, in bytes, may be leased: together, so that two batches
    /// being filled never wait for each other's.
    ///
    /// # Errors
    /// A pool whose limit stays reached, or nobody wants the batch any more.
    pub(crate) fn admit(&mut self, bytes: &[usize]) -> Result<()> {
        let FillResources { pool, stop, .. } = self.resources;
        self.admission = Some(Admission::of(pool, bytes, stop)?);
        Ok(())
    }

    /// Leases room for `len` values of `size` bytes each.
    pub(crate) fn lease(&mut self, len: usize, size: usize, what: String) -> Result<HostLease> {
        let purpose = match self.resources.batch {
            Some(batch) => format!("{what} of batch {batch}"),
            None => what,
        };
        match &mut self.admission {
            Some(admission) => admission.lease(len, size, purpose.into()),
            None => self.resources.pool.lease_of(len, size, purpose.into()),
        }
    }

    /// Reads the planned rows of a group, and judges what their wet cells hold.
    ///
    /// # Errors
    /// Those of the source and the sink; a source that did not fill every plane once; in strict mode
    /// an infinity, or too many NaN, in wet cells.
    pub(crate) fn read(
        &mut self,
        group: ReadGroup,
        channels: &ChannelGroup,
        plan: &GroupPlan,
        sink: &(impl PlaneSink + MeetsCells),
    ) -> Result<()> {
        let FillResources {
            carry, next, stop, ..
        } = &mut self.resources;
        if stop.is_set() {
            return Err(Error::new(
                ErrorKind::Interrupted,
                "nobody waits for this batch",
            ));
        }
        let rows = channels.rows(plan)?;
        let next = match next.and_then(|next| next.groups.get(group)) {
            Some(plan) => channels.rows(plan)?,
            None => Cow::Borrowed(&[][..]),
        };
        let request = PlaneRequest {
            rows: &rows,
            channels: &channels.positions,
        };
        let promised = PromisedPlanes::new(sink, group, channels, request);
        let counts = carry.read(group, &*channels.planes, &request, &next, &promised)?;
        promised.kept()?;
        self.counts.add(&counts);
        let Some(values) = self.source.values.get(group) else {
            return Ok(());
        };
        let n = channels.positions.len();
        for MetPlane { plane, cells } in sink.met() {
            values.met(channels, rows[plane / n], plane % n, cells)?;
        }
        let judged = values.judge(channels, &rows, 0..n)?;
        for warning in judged.warnings {
            self.source.say(warning);
        }
        self.odd.add(&judged.counts);
        Ok(())
    }
}
