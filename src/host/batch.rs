//! A batch in host memory: leased, read and, for a CPU device, prepared.

use crate::dataset::ocean_dataset::{ChannelGroup, LabelSource, Source};
use crate::error::Result;
use crate::host::carry::NextBatch;
use crate::host::pool::{HostLease, HostPool};
use crate::host::sink::{Gathered, HostPlanes, PreparedPlanes, PreparedTensors};
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use crate::plan::arrange::Arrangement;
use crate::plan::batch::{BatchPlan, Gather};
use crate::plan::groups::ReadGroup;
use crate::plan::window::Window;
use crate::prepare::path::PreparedBy;
use crate::prepare::transfer::HostFormat;

/// A batch that has been read and waits, in host memory, for its device.
pub(crate) struct HostBatch<B = Buffers> {
    pub windows: Vec<Window>,
    pub counts: ReadCounts,
    /// Planes that the batch before had left in memory.
    pub carried: u64,
    pub nan_in_ocean: u64,
    pub shown_planes: usize,
    pub unique_planes: usize,
    pub buffers: B,
}

pub(crate) enum Buffers {
    /// One buffer per tensor.
    Prepared(PreparedFields),
    /// One buffer per read group.
    Raw(Box<RawGroups>),
}

/// Tensors that the reader put together, each with its map, which gives the shape.
pub(crate) struct PreparedFields {
    pub inputs: Vec<HostTensor>,
    pub boundaries: Vec<HostTensor>,
    pub labels: Vec<HostTensor>,
}

pub(crate) struct HostTensor {
    pub lease: HostLease,
    pub gather: Gather,
}

/// Raw planes, and how tensors are put together from them.
pub(crate) struct RawGroups {
    pub prognostic: RawHost,
    pub boundary: RawHost,
    pub label: Option<RawHost>,
    pub fields: Fields,
}

/// The unique planes of a read group in host memory.
pub(crate) struct RawHost {
    pub lease: HostLease,
    pub held: HostFormat,
    /// The unique row of each row that the device will write.
    pub rows: Vec<u32>,
}

/// Gather maps into the rows that a device has written.
pub(crate) struct Fields {
    pub inputs: Vec<Gather>,
    pub boundaries: Vec<Gather>,
    pub labels: Vec<Gather>,
}

impl<B> HostBatch<B> {
    /// The same batch, with its buffers further on their way.
    pub fn map_buffers<C>(self, f: impl FnOnce(B) -> C) -> HostBatch<C> {
        HostBatch {
            windows: self.windows,
            counts: self.counts,
            carried: self.carried,
            nan_in_ocean: self.nan_in_ocean,
            shown_planes: self.shown_planes,
            unique_planes: self.unique_planes,
            buffers: f(self.buffers),
        }
    }
}

impl HostBatch {
    /// Leases, reads and, where that is the reader's part, prepares.
    pub fn read(
        source: &Source,
        windows: Vec<Window>,
        plan: BatchPlan,
        by: PreparedBy,
        held: HostFormat,
        buffers: BatchBuffers<'_>,
        ahead: NextBatch<'_>,
    ) -> Result<Self> {
        let (shown_planes, unique_planes) = (plan.touched_planes(), plan.unique_planes());
        ahead.carry.begin(windows[0].source);
        let mut reading = Reading {
            buffers,
            ahead,
            counts: ReadCounts::default(),
            nan_in_ocean: 0,
        };
        let buffers = match by {
            PreparedBy::Host => Buffers::Prepared(reading.prepared(source, plan)?),
            PreparedBy::Operations => {
                Buffers::Raw(reading.raw(source, plan, held, in_place)?.into())
            }
            PreparedBy::Kernel => {
                Buffers::Raw(reading.raw(source, plan, held, Arrangement::new)?.into())
            }
        };
        let Reading {
            counts,
            nan_in_ocean,
            ..
        } = reading;
        Ok(Self {
            windows,
            carried: (unique_planes as u64).saturating_sub(counts.planes),
            counts,
            nan_in_ocean,
            shown_planes,
            unique_planes,
            buffers,
        })
    }
}

/// Where a batch's buffers come from.
#[derive(Clone, Copy)]
pub(crate) struct BatchBuffers<'a> {
    pub pool: &'a HostPool,
    /// Its number in its pass, if it has one.
    pub batch: Option<u64>,
}

impl BatchBuffers<'_> {
    /// Leases room for `len` values of `size` bytes each.
    fn lease(&self, len: usize, size: usize, what: String) -> Result<HostLease> {
        let purpose = match self.batch {
            Some(batch) => format!("{what} of batch {batch}"),
            None => what,
        };
        self.pool.lease_of(len, size, purpose.into())
    }
}

fn in_place(unique: usize, fields: Vec<Vec<Gather>>) -> Arrangement {
    Arrangement {
        rows: (0..unique as u32).collect(),
        fields,
    }
}

/// One batch being read.
struct Reading<'a> {
    buffers: BatchBuffers<'a>,
    ahead: NextBatch<'a>,
    counts: ReadCounts,
    nan_in_ocean: u64,
}

impl Reading<'_> {
    fn raw(
        &mut self,
        source: &Source,
        plan: BatchPlan,
        held: HostFormat,
        arrange: fn(usize, Vec<Vec<Gather>>) -> Arrangement,
    ) -> Result<RawGroups> {
        let BatchPlan {
            prognostic,
            boundary,
            label,
            inputs,
            boundaries,
            labels,
        } = plan;
        let preparation = source.context.preparation();
        let mut group = |part: ReadGroup,
                         planes: &dyn PlaneSource,
                         rows: &[usize],
                         group: &ChannelGroup,
                         next: RowsOf<'_>,
                         rows_out| {
            let cells = planes.shape().cells();
            let request = PlaneRequest {
                rows,
                channels: &group.positions,
            };
            let size = held.precision().bytes();
            let what = format!("{} planes", part.name());
            let mut lease = self.buffers.lease(request.planes() * cells, size, what)?;
            let mut read = |sink: &dyn PlaneSink| {
                let read = self.ahead.read(part, planes, &request, next, sink)?;
                self.counts.add(&read);
                Result::Ok(())
            };
            match held {
                HostFormat::Raw => read(&HostPlanes::new(lease.as_mut_slice(), cells))?,
                HostFormat::Prepared(precision) => {
                    let channels = &group.constants;
                    let sink =
                        PreparedPlanes::new(&mut lease, precision, cells, preparation, channels);
                    read(&sink)?;
                    self.nan_in_ocean += sink.nan_in_ocean();
                }
            }
            Result::Ok(RawHost {
                lease,
                held,
                rows: rows_out,
            })
        };
        let n = prognostic.rows.len();
        let (of_labels, own_labels) = match (&source.label, &label) {
            (Some(source), Some(plan)) => {
                let Arrangement { rows, mut fields } = arrange(plan.rows.len(), vec![labels]);
                let (wanted, next) = (source.rows(plan)?, |p: &BatchPlan| label_rows(source, p));
                let planes = &*source.planes;
                let host = group(
                    ReadGroup::Label,
                    planes,
                    &wanted,
                    &source.group,
                    &next,
                    rows,
                )?;
                (fields.pop(), Some(host))
            }
            _ => (Some(labels), None),
        };
        let labels = of_labels.unwrap_or_default();
        let (rows, inputs, labels) = if own_labels.is_some() {
            let Arrangement { rows, mut fields } = arrange(n, vec![inputs]);
            (rows, fields.pop().unwrap_or_default(), labels)
        } else {
            let Arrangement { rows, mut fields } = arrange(n, vec![inputs, labels]);
            let labels = fields.pop().unwrap_or_default();
            (rows, fields.pop().unwrap_or_default(), labels)
        };
        let of_prognostic = group(
            ReadGroup::Prognostic,
            &*source.planes,
            &prognostic.rows,
            &source.prognostic,
            &prognostic_rows,
            rows,
        )?;
        let Arrangement { rows, mut fields } = arrange(boundary.rows.len(), vec![boundaries]);
        let boundaries = fields.pop().unwrap_or_default();
        let of_boundary = group(
            ReadGroup::Boundary,
            &*source.planes,
            &boundary.rows,
            &source.boundary,
            &boundary_rows,
            rows,
        )?;
        Ok(RawGroups {
            prognostic: of_prognostic,
            boundary: of_boundary,
            label: own_labels,
            fields: Fields {
                inputs,
                boundaries,
                labels,
            },
        })
    }

    fn prepared(&mut self, source: &Source, plan: BatchPlan) -> Result<PreparedFields> {
        let context = &source.context;
        let lease = |what: &str, gathers: Vec<Gather>, channels: usize, shape: PlaneShape| {
            let tensor = |(step, gather): (usize, Gather)| {
                let len = gather.rows.len() * channels * shape.cells();
                let what = format!("{what} {step}");
                let lease = self.buffers.lease(len, size_of::<f32>(), what)?;
                Ok(HostTensor { lease, gather })
            };
            let steps = gathers.into_iter().enumerate();
            steps.map(tensor).collect::<Result<Vec<_>>>()
        };
        let n = source.prognostic.positions.len();
        let BatchPlan {
            prognostic,
            boundary,
            label,
            inputs,
            boundaries,
            labels,
        } = plan;
        let of_boundary = source.boundary.positions.len();
        let mut inputs = lease("input", inputs, n, context.shape())?;
        let mut boundaries = lease("boundary", boundaries, of_boundary, context.shape())?;
        let mut labels = lease("label", labels, n, context.label_shape())?;

        let mut read = |part: ReadGroup,
                        planes: &dyn PlaneSource,
                        rows: &[usize],
                        group: &ChannelGroup,
                        next: RowsOf<'_>,
                        tensors: Vec<Gathered<'_>>| {
            let cells = planes.shape().cells();
            let preparation = context.preparation();
            let sink =
                PreparedTensors::new(rows.len(), &group.constants, preparation, cells, tensors);
            let request = PlaneRequest {
                rows,
                channels: &group.positions,
            };
            let read = self.ahead.read(part, planes, &request, next, &sink)?;
            self.counts.add(&read);
            self.nan_in_ocean += sink.nan_in_ocean();
            Result::Ok(())
        };
        let mut of_prognostic = gathered(&mut inputs);
        let of_labels = gathered(&mut labels);
        match (&source.label, &label) {
            (Some(label), Some(group)) => {
                let rows = label.rows(group)?;
                let next = |plan: &BatchPlan| label_rows(label, plan);
                let (planes, part) = (&*label.planes, ReadGroup::Label);
                read(part, planes, &rows, &label.group, &next, of_labels)?;
            }
            _ => of_prognostic.extend(of_labels),
        }
        read(
            ReadGroup::Prognostic,
            &*source.planes,
            &prognostic.rows,
            &source.prognostic,
            &prognostic_rows,
            of_prognostic,
        )?;
        let of_boundary = gathered(&mut boundaries);
        read(
            ReadGroup::Boundary,
            &*source.planes,
            &boundary.rows,
            &source.boundary,
            &boundary_rows,
            of_boundary,
        )?;
        Ok(PreparedFields {
            inputs,
            boundaries,
            labels,
        })
    }
}

/// Which rows of a part a plan reads.
type RowsOf<'a> = &'a dyn Fn(&BatchPlan) -> Result<Vec<usize>>;

fn prognostic_rows(plan: &BatchPlan) -> Result<Vec<usize>> {
    Ok(plan.prognostic.rows.clone())
}

fn boundary_rows(plan: &BatchPlan) -> Result<Vec<usize>> {
    Ok(plan.boundary.rows.clone())
}

fn label_rows(label: &LabelSource, plan: &BatchPlan) -> Result<Vec<usize>> {
    let rows = plan.label.as_ref().map(|group| label.rows(group));
    Ok(rows.transpose()?.unwrap_or_default())
}

fn gathered(tensors: &mut [HostTensor]) -> Vec<Gathered<'_>> {
    let mut gathered = Vec::with_capacity(tensors.len());
    for HostTensor { lease, gather } in tensors {
        gathered.push(Gathered {
            values: lease.as_mut_slice(),
            gather,
        });
    }
    gathered
}
