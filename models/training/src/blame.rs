//! Why a step failed: the learning rate, or a value of the batch that no network can learn from.

use anyhow::Result;
use burn::tensor::Tensor;
use burn_om4::{ModelBatch, Role};
use std::fmt;

/// Deviations from the mean beyond which a value is not taken for weather: its square and the gradient
/// of that leave float32 before long. What a store holds as infinite is normalised to 3.4e38.
const EXTREME: f32 = 1e6;

/// The most extreme value of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extreme {
    role: Role,
    channel: String,
    date: String,
    row: usize,
    /// `(y, x)`
    cell: (usize, usize),
    deviations: f32,
    mean: f32,
    std: f32,
}

impl Extreme {
    /// Finds it in whatever tensors the batch holds; none where all are within reason.
    ///
    /// # Errors
    /// The batch lacks its first input.
    pub(crate) fn of(batch: &ModelBatch) -> Result<Option<Self>> {
        let mut found = Self::in_tensor(batch, Role::Input, 0, batch.input(0)?)?;
        for step in 0..batch.steps() {
            for (role, tensor) in [
                (Role::Boundary, batch.boundary(step)),
                (Role::Label, batch.label(step)),
            ] {
                let other = Self::in_tensor(batch, role, step, tensor)?;
                let size = |of: &Option<Self>| of.as_ref().map_or(0.0, Self::size);
                if size(&other) > size(&found) {
                    found = other;
                }
            }
        }
        Ok(found)
    }

    /// NaN is worse than anything.
    fn size(&self) -> f32 {
        size(self.deviations)
    }

    /// In a tensor `(batch, time*channel, y, x)` of rollout step `step`.
    fn in_tensor(
        batch: &ModelBatch,
        role: Role,
        step: usize,
        tensor: Tensor<4>,
    ) -> Result<Option<Self>> {
        let context = batch.context();
        let [_, planes, ny, nx] = tensor.dims();
        let values = tensor.into_data();
        let values = values.iter::<f32>().enumerate();
        let Some((at, deviations)) = values.max_by(|a, b| size(a.1).total_cmp(&size(b.1))) else {
            return Ok(None);
        };
        if size(deviations) < EXTREME {
            return Ok(None);
        }
        let (plane, cell) = (at / (ny * nx), at % (ny * nx));
        let (sample, plane) = (plane / planes, plane % planes);
        let channels = context.channels(role);
        let (time, channel) = (plane / channels.len(), plane % channels.len());
        let start = batch.windows()[sample].start;
        // The label times of a step are the input times of the next.
        let after = step + usize::from(role == Role::Label);
        let mut rows = context.window().input_rows(start, after);
        let constants = &context.constants_of(role)[channel];
        Ok(Some(Self {
            role,
            channel: channels[channel].name().to_owned(),
            date: batch.step(step)?.dates(role)[sample][time].to_string(),
            row: rows.nth(time).unwrap_or(start),
            cell: (cell / nx, cell % nx),
            deviations,
            mean: constants.mean,
            std: constants.std,
        }))
    }
}

fn size(value: f32) -> f32 {
    match value.is_nan() {
        true => f32::INFINITY,
        false => value.abs(),
    }
}

impl fmt::Display for Extreme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            channel,
            date,
            row,
            cell: (y, x),
            deviations,
            mean,
            std,
            ..
        } = self;
        let role = match self.role {
            Role::Input => "input",
            Role::Boundary => "boundary",
            Role::Label => "label",
        };
        write!(
            f,
            "the {role} {channel} of {date} (row {row} of the store) "
        )?;
        match deviations.abs() < f32::MAX {
            true => write!(f, "is {deviations:.3e} deviations off")?,
            false => f.write_str("is infinite, or becomes so when it is normalised,")?,
        }
        write!(
            f,
            " at cell (y {y}, x {x}), counted from 0, by mean {mean} and deviation {std}"
        )
    }
}
