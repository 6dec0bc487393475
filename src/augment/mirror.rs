//! The ocean mirrored at the equator: south becomes north, and northward becomes southward.

use crate::augment::transform::Transform;
use crate::dataset::context::BatchContext;
use crate::device::batch::ModelBatch;
use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::ocean::grid::{Coordinate, Grid};
use crate::order::pick::Pick;
use crate::plan::roles::Role;
use crate::prepare::arithmetic::ChannelConstants;
use burn::tensor::{Tensor, TensorData};

/// Mirrors half of all batches at the equator: rows in reverse, masks with them, and northward
/// components (`vo`, `tauvo`) with the other sign, in physical units.
///
/// The equations of motion on a rotating sphere have this symmetry: the Coriolis parameter is odd
/// in latitude, as northward velocities are. (A mirror at a meridian is not one: it would need a
/// planet that turns the other way.) Coasts and seasons move along with the fields. What a network
/// gets to know of the grid by itself, such as learned constants per cell, does not.
///
/// A northward channel of mean m and deviation s becomes `-x - 2 m / s` where its mirrored mask is
/// wet; land keeps its value. Whether a batch is mirrored is the lowest bit of its first pick's
/// key: a batch has one set of masks. [`ModelBatch::context`] goes on describing the store,
/// unmirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EquatorMirror {
    northward: Vec<String>,
}

impl Default for EquatorMirror {
    fn default() -> Self {
        Self {
            northward: ["vo", "tauvo"].map(String::from).to_vec(),
        }
    }
}

impl EquatorMirror {
    /// Sets the variables that change their sign, by their names without a level.
    pub fn with_northward(mut self, variables: &[&str]) -> Self {
        self.northward = variables.iter().map(|v| (*v).to_owned()).collect();
        self
    }

    /// Factor and offset of every channel of a list.
    fn signs<'a>(
        &self,
        channels: &'a [Channel],
        constants: impl Fn(usize) -> &'a ChannelConstants,
    ) -> Vec<[f32; 2]> {
        let sign = |(i, channel): (usize, &Channel)| {
            if self.northward.iter().any(|v| v == channel.variable()) {
                let ChannelConstants { mean, std, .. } = constants(i);
                [-1.0, -2.0 * mean / std]
            } else {
                [1.0, 0.0]
            }
        };
        channels.iter().enumerate().map(sign).collect()
    }
}

impl Transform for EquatorMirror {
    fn name(&self) -> String {
        format!(
            "mirror at the equator, {} turned",
            self.northward.join(", ")
        )
    }

    fn check(&self, context: &BatchContext) -> Result<()> {
        if context.has_own_labels() {
            return Err(Error::config(
                "a mirror needs inputs and labels from one store, whose masks are the same",
            ));
        }
        check_symmetric(context.grid())
    }

    fn apply(&self, batch: ModelBatch, picks: &[Pick]) -> Result<ModelBatch> {
        if picks.first().is_none_or(|pick| pick.key & 1 == 0) {
            return Ok(batch);
        }
        let context = batch.context();
        let prognostic = self.signs(context.prognostic(), |c| context.constants(c));
        let boundary = self.signs(context.boundary(), |c| context.boundary_constants(c));
        let label_mask = batch.label_mask().flip([1]);
        let boundary_mask = batch.boundary_mask().flip([0]);
        let mirrored = batch.map(|role, _, tensor| {
            let shape = tensor.dims();
            let (signs, wet) = match role {
                Role::Input | Role::Label => (&prognostic, label_mask.clone().unsqueeze::<4>()),
                Role::Boundary => (&boundary, boundary_mask.clone().unsqueeze::<4>()),
            };
            let flipped = tensor.flip([2]);
            if signs.iter().all(|[factor, _]| *factor == 1.0) {
                return flipped;
            }
            let (device, dtype) = (flipped.device(), flipped.dtype());
            let times = shape[1] / signs.len();
            let per_channel = |part: usize| {
                let values: Vec<f32> = signs.iter().map(|s| s[part]).collect();
                let data = TensorData::new(values.repeat(times), [1, shape[1], 1, 1]);
                Tensor::<4>::from_data(data, (&device, dtype))
            };
            let turned = flipped.clone() * per_channel(0) + per_channel(1);
            flipped.mask_where(wet.expand(shape), turned)
        });
        Ok(mirrored.with_masks(label_mask, boundary_mask))
    }
}

/// Rows as far north as south, to a thousandth of a degree.
fn check_symmetric(grid: &Grid) -> Result<()> {
    let (latitudes, columns) = match grid.latitude() {
        None => return Err(Error::config("a mirror needs the latitudes of the grid")),
        Some(Coordinate::Line(values)) => (values, 1),
        Some(Coordinate::Plane(values)) => (values, grid.nx()),
    };
    let rows = latitudes.chunks_exact(columns);
    for (south, north) in rows.clone().zip(rows.rev()) {
        for (a, b) in south.iter().zip(north) {
            if (a + b).abs() > 1e-3 || !(a + b).is_finite() {
                return Err(Error::config("a mirror needs a grid that is one itself")
                    .expected(format!("a row at latitude {}", -a))
                    .found(b));
            }
        }
    }
    Ok(())
}
