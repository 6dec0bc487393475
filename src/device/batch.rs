//! What the model gets: per rollout step an input, a boundary and a label, with their names.

use crate::dataset::context::BatchContext;
use crate::error::{Error, Result};
use crate::order::pick::Pick;
use crate::plan::batch::Gather;
use crate::plan::roles::{PerRole, Role};
use crate::plan::window::Window;
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use std::sync::Arc;

/// One batch of rollout windows on a device, normalised and masked, float32.
///
/// Axis order is `(batch, time*channel, y, x)` throughout: time-major, oldest first, channels in
/// the order of the channel list. With history h there are `h + 1` times.
///
/// * [`input`](Self::input)`(k)`: prognostic channels at the input times of step k;
/// * [`boundary`](Self::boundary)`(k)`: boundary channels at the same times;
/// * [`label`](Self::label)`(k)`: prognostic channels at the `h + 1` times after them.
///
/// A rollout reads `input(0)` and then every step's boundary and label; the inputs of later steps
/// are the labels of the steps before, and are not held a second time.
///
/// Cloning shares the tensors.
#[derive(Clone, Debug)]
pub struct ModelBatch {
    windows: Arc<[Window]>,
    context: Arc<BatchContext>,
    fields: PerRole<Field>,
    label_mask: Tensor<3, Bool>,
    boundary_mask: Tensor<2, Bool>,
    picks: Arc<[Pick]>,
}

/// The steps of one kind of tensor.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    /// Put together already, one tensor per step.
    Ready(Vec<Tensor<4>>),
    /// Unique planes `(row, channel, y, x)`, gathered when asked for.
    Lazy {
        planes: Box<Tensor<4>>,
        steps: Vec<Gather>,
    },
}

impl Field {
    fn step(&self, step: usize) -> Option<Tensor<4>> {
        match self {
            Self::Ready(tensors) => tensors.get(step).cloned(),
            Self::Lazy { planes, steps } => Some(gather(planes, steps.get(step)?)),
        }
    }

    fn steps(&self) -> usize {
        match self {
            Self::Ready(tensors) => tensors.len(),
            Self::Lazy { steps, .. } => steps.len(),
        }
    }

    fn map(&self, mut f: impl FnMut(usize, Tensor<4>) -> Tensor<4>) -> Self {
        let steps = (0..self.steps()).filter_map(|k| Some(f(k, self.step(k)?)));
        Self::Ready(steps.collect())
    }
}

/// Consecutive rows are a view; others are selected.
fn gather(planes: &Tensor<4>, gather: &Gather) -> Tensor<4> {
    let [_, channels, ny, nx] = planes.dims();
    let n = gather.rows.len();
    let rows = if let Some(slice) = gather.slice() {
        planes.clone().narrow(0, slice.start, n)
    } else {
        let rows: Vec<i32> = gather.rows.iter().map(|&r| r as i32).collect();
        let device = planes.device();
        let index = Tensor::<1, Int>::from_data(TensorData::new(rows, [n]), (&device, DType::I32));
        planes.clone().select(0, index)
    };
    rows.reshape([n / gather.times, gather.times * channels, ny, nx])
}

impl ModelBatch {
    pub(crate) fn new(
        windows: Arc<[Window]>,
        context: Arc<BatchContext>,
        fields: PerRole<Field>,
        label_mask: Tensor<3, Bool>,
        boundary_mask: Tensor<2, Bool>,
    ) -> Self {
        Self {
            windows,
            context,
            fields,
            label_mask,
            boundary_mask,
            picks: Arc::default(),
        }
    }

    /// A batch whose tensors are `f(role, step, tensor)`; the tensor is
    /// `(batch, time*channel, y, x)`.
    ///
    /// `f` sees the inputs that the batch holds, every boundary and every label. Inputs of later
    /// steps that are the labels of the steps before change with those.
    pub fn map(&self, mut f: impl FnMut(Role, usize, Tensor<4>) -> Tensor<4>) -> Self {
        let fields = self.fields.as_ref();
        Self {
            fields: fields.map(|role, field| field.map(|step, tensor| f(role, step, tensor))),
            ..self.clone()
        }
    }

    /// A batch with other masks: `(time*channel, y, x)` of labels, `(y, x)` of the surface.
    ///
    /// Its [`context`](Self::context) goes on describing the store.
    pub fn with_masks(mut self, label: Tensor<3, Bool>, boundary: Tensor<2, Bool>) -> Self {
        (self.label_mask, self.boundary_mask) = (label, boundary);
        self
    }

    pub(crate) fn with_picks(mut self, picks: Arc<[Pick]>) -> Self {
        self.picks = picks;
        self
    }

    /// Samples in the batch.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Never true of a batch from a loader.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Rollout steps.
    pub fn steps(&self) -> usize {
        self.context.window().steps
    }

    /// Prognostic channels at the input times of `step`: `(batch, time*channel, y, x)`.
    ///
    /// # Errors
    /// `step` is not below [`steps`](Self::steps), or its input was not asked for: inputs of later
    /// steps are known from the labels unless labels come from a store of their own; then choose
    /// [`Inputs::All`](crate::Inputs::All).
    pub fn input(&self, step: usize) -> Result<Tensor<4>> {
        let known = match self.fields.input.step(step) {
            Some(input) => Some(input),
            None if step > 0 && step < self.steps() && !self.context.has_own_labels() => {
                // The label times of step k are the input times of step k + 1.
                self.fields.label.step(step - 1)
            }
            None => None,
        };
        known.ok_or_else(|| {
            Error::config("the input of this rollout step is not part of the batch")
                .expected(format!(
                    "a step below {} and, with labels of their own, `Inputs::All`",
                    self.steps()
                ))
                .found(format!("step {step}"))
        })
    }

    /// Boundary channels at the input times of `step`: `(batch, time*channel, y, x)`.
    ///
    /// # Panics
    /// When `step` is not below [`steps`](Self::steps).
    pub fn boundary(&self, step: usize) -> Tensor<4> {
        self.fields
            .boundary
            .step(step)
            .unwrap_or_else(|| self.no_step(step))
    }

    /// Prognostic channels at the label times of `step`: `(batch, time*channel, y, x)`. The grid is
    /// the label store's.
    ///
    /// # Panics
    /// When `step` is not below [`steps`](Self::steps).
    pub fn label(&self, step: usize) -> Tensor<4> {
        self.fields
            .label
            .step(step)
            .unwrap_or_else(|| self.no_step(step))
    }

    fn no_step(&self, step: usize) -> ! {
        panic!("rollout step {step} of a batch with {} steps", self.steps())
    }

    /// Wet mask of a label: `(time*channel, y, x)`, true in the ocean.
    pub fn label_mask(&self) -> Tensor<3, Bool> {
        self.label_mask.clone()
    }

    /// Wet mask of the surface on the input grid: `(y, x)`, true in the ocean.
    pub fn boundary_mask(&self) -> Tensor<2, Bool> {
        self.boundary_mask.clone()
    }

    /// The windows, in the order of the batch axis.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Which picks of its windows these are; empty unless the loader
    /// [augments](crate::OceanLoader::augment).
    pub fn picks(&self) -> &[Pick] {
        &self.picks
    }

    /// Names, masks, grid and units of what the tensors hold.
    pub fn context(&self) -> &BatchContext {
        &self.context
    }

    /// The device the tensors live on.
    pub fn device(&self) -> Device {
        self.label_mask.device()
    }
}
