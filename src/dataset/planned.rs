//! A batch that is known but not read.

use crate::dataset::source::Source;
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
