//! A batch that is known but not read.

use crate::dataset::source::Source;
use crate::error::Result;
use crate::ocean::plane::PlaneRequest;
use crate::plan::batch::BatchPlan;
use crate::plan::window::Window;
use std::sync::Arc;

/// Windows, the source they are all of, and what their batch reads from it.
pub(crate) struct Planned {
    pub source: Arc<Source>,
    /// In the order of the batch axis.
    pub windows: Vec<Window>,
    pub plan: BatchPlan,
}

impl Planned {
    /// Chunks that hold its planes.
    ///
    /// # Errors
    /// A row that a source lacks.
    pub(crate) fn chunks(&self) -> Result<u64> {
        let groups = self.source.groups.as_ref().zip(self.plan.groups.as_ref());
        let chunks = groups.try_map(|_, (channels, plan)| {
            channels.planes.planned_chunks(&PlaneRequest {
                rows: &channels.rows(plan)?,
                channels: &channels.positions,
            })
        })?;
        Ok(chunks.iter().map(|(_, chunks)| chunks).sum())
    }
}
