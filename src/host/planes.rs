//! Planes for a device that is not a CPU: each unique one once, in one buffer per read group.

use crate::dataset::source::Source;
use crate::error::Result;
use crate::host::batch::BatchFill;
use crate::host::pool::HostLease;
use crate::host::sink::{HostPlanes, PreparedPlanes, RawPlanes};
use crate::plan::arrange::Arrangement;
use crate::plan::batch::{BatchPlan, Gather};
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::prepare::transfer::HostFormat;

/// The unique planes of a batch, and how its tensors are put together from them.
pub(crate) struct PlaneBuffers {
    pub groups: PerGroup<PlaneBuffer>,
    /// Into the rows that the device will write.
    pub gathers: PerRole<Vec<Gather>>,
}

/// The unique planes of a read group.
pub(crate) struct PlaneBuffer {
    pub lease: HostLease,
    pub format: HostFormat,
    /// The unique row of each row that the device will write.
    pub rows: Vec<u32>,
}

/// In which order a device writes the unique rows of a group: [`Arrangement::in_place`] or
/// [`Arrangement::by_tensor`].
pub(crate) type Arrange = fn(usize, &[&Gather]) -> Arrangement;

/// Bytes of each buffer of a planned batch.
fn sizes(plan: &BatchPlan, source: &Source, format: HostFormat) -> Vec<usize> {
    let planned = source.groups.as_ref().zip(plan.groups.as_ref());
    let bytes = planned.iter().map(|(_, (channels, plan))| {
        plan.rows.len() * channels.row_values() * format.precision().bytes()
    });
    bytes.collect()
}

/// Bytes of the buffers of a planned batch.
pub(crate) fn bytes(plan: &BatchPlan, source: &Source, format: HostFormat) -> u64 {
    sizes(plan, source, format).iter().sum::<usize>() as u64
}

/// Leases a buffer for each group, and reads its planes into it.
///
/// # Errors
/// A pool that has no buffer, or a failed read.
pub(crate) fn fill(
    filling: &mut BatchFill<'_>,
    plan: BatchPlan,
    format: HostFormat,
    arrange: Arrange,
) -> Result<PlaneBuffers> {
    let source = filling.source;
    filling.admit(&sizes(&plan, source, format))?;
    let BatchPlan { groups, gathers } = plan;
    let arrangements = groups.as_ref().map(|group, plan| {
        let shown = gathers
            .iter()
            .filter(|(role, _)| groups.group_of(*role) == group);
        let shown: Vec<&Gather> = shown.flat_map(|(_, steps)| steps).collect();
        arrange(plan.rows.len(), &shown)
    });
    let gathers = gathers.map(|role, steps| {
        let arrangement = arrangements.of(role);
        let moved = steps.into_iter().map(|gather| arrangement.gather(gather));
        moved.collect()
    });
    let planned = source.groups.as_ref().zip(groups.as_ref());
    let planned = planned.zip(source.values.as_ref());
    let groups = planned.zip(arrangements);
    let groups = groups.try_map(|group, (((channels, plan), values), arrangement)| {
        let len = plan.rows.len() * channels.row_values();
        let what = format!("{} planes", group.name());
        let mut lease = filling.lease(len, format.precision().bytes(), what)?;
        let cells = channels.planes.shape().cells();
        match format {
            HostFormat::Raw => {
                let rows = channels.rows(plan)?;
                let planes = HostPlanes::new(lease.as_mut_slice(), cells);
                let sink = RawPlanes::new(planes, cells, &rows, channels, values);
                filling.read(group, channels, plan, &sink)?;
            }
            HostFormat::Prepared(precision) => {
                let (preparation, constants) = (source.context.preparation(), &channels.constants);
                let sink =
                    PreparedPlanes::new(&mut lease, precision, cells, preparation, constants);
                filling.read(group, channels, plan, &sink)?;
            }
        }
        Ok(PlaneBuffer {
            lease,
            format,
            rows: arrangement.rows,
        })
    })?;
    Ok(PlaneBuffers { groups, gathers })
}
