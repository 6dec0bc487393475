//! Where host memory is the device's memory: buffers that become the batch's tensors.

use crate::dataset::source::Source;
use crate::error::Result;
use crate::host::batch::BatchFill;
use crate::host::pool::HostLease;
use crate::host::sink::{Gathered, PreparedTensors};
use crate::plan::batch::{BatchPlan, Gather};
use crate::plan::roles::PerRole;

/// The tensors of a batch, one per rollout step, prepared in float32.
pub(crate) type HostTensors = PerRole<Vec<HostTensor>>;

/// A tensor in host memory, with its map, which gives the shape.
pub(crate) struct HostTensor {
    pub lease: HostLease,
    pub gather: Gather,
}

/// Bytes of each tensor of a planned batch.
fn sizes(plan: &BatchPlan, source: &Source) -> Vec<usize> {
    let tensors = plan.gathers.iter().flat_map(|(role, steps)| {
        let row_bytes = source.groups.of(role).row_values() * size_of::<f32>();
        let bytes = move |gather: &Gather| gather.rows.len() * row_bytes;
        steps.iter().map(bytes)
    });
    tensors.collect()
}

/// Bytes of the tensors of a planned batch.
pub(crate) fn bytes(plan: &BatchPlan, source: &Source) -> u64 {
    sizes(plan, source).iter().sum::<usize>() as u64
}

/// Leases the tensors, and prepares every plane in the first place that shows it.
///
/// # Errors
/// A pool that has no buffer, or a failed read.
pub(crate) fn fill(filling: &mut BatchFill<'_>, plan: BatchPlan) -> Result<HostTensors> {
    let source = filling.source;
    filling.admit(&sizes(&plan, source))?;
    let BatchPlan { groups, gathers } = plan;
    let mut tensors = gathers.try_map(|role, steps| {
        let row_values = source.groups.of(role).row_values();
        let lease = |(step, gather): (usize, Gather)| {
            let what = format!("{} {step}", role.name());
            let len = gather.rows.len() * row_values;
            let lease = filling.lease(len, size_of::<f32>(), what)?;
            Ok(HostTensor { lease, gather })
        };
        steps.into_iter().enumerate().map(lease).collect()
    })?;
    let preparation = source.context.preparation();
    let planned = source.groups.as_ref().zip(groups.as_ref());
    planned.try_map(|group, (channels, plan)| {
        let shown = tensors
            .iter_mut()
            .filter(|(role, _)| groups.group_of(*role) == group);
        let shown = shown
            .flat_map(|(_, tensors)| tensors)
            .map(|tensor: &mut HostTensor| Gathered {
                values: tensor.lease.as_mut_slice(),
                gather: &tensor.gather,
            });
        let sink = PreparedTensors::new(
            plan.rows.len(),
            &channels.constants,
            preparation,
            channels.planes.shape().cells(),
            shown.collect(),
        );
        filling.read(group, channels, plan, &sink)
    })?;
    Ok(tensors)
}
