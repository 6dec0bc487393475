//! What a device needs once for each source, made when it is first asked for.

use crate::dataset::context::BatchContext;
use crate::dataset::source::Source;
use crate::ocean::plane::PlaneShape;
use crate::plan::roles::Role;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use std::sync::{Arc, OnceLock};

/// A value for each source of a data set. Clones share the values.
pub(crate) struct PerSource<T>(Arc<[OnceLock<T>]>);

impl<T> Clone for PerSource<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PerSource<T> {
    /// For so many sources; nothing is made yet.
    pub(crate) fn new(sources: usize) -> Self {
        Self((0..sources).map(|_| OnceLock::new()).collect())
    }

    /// The value of a source, made now if nobody has asked for it before.
    pub(crate) fn of(&self, source: &Source, make: impl FnOnce() -> T) -> &T {
        self.0[source.index].get_or_init(make)
    }
}

/// Uploads the wet cells of a kind of tensor: `(time*channel, y, x)`.
pub(crate) fn channel_mask(context: &BatchContext, role: Role, device: &Device) -> Tensor<3, Bool> {
    let constants = context.constants_of(role);
    let PlaneShape { ny, nx } = match role {
        Role::Label => context.label_shape(),
        Role::Input | Role::Boundary => context.shape(),
    };
    let wet = constants.iter().flat_map(|c| c.wet.as_slice());
    let wet = TensorData::new(wet.copied().collect::<Vec<_>>(), [constants.len(), ny, nx]);
    Tensor::<3, Bool>::from_data(wet, device).repeat_dim(0, context.window().times())
}

/// The wet masks that go with a batch.
pub(crate) struct Masks {
    /// `(time*channel, y, x)` of a label.
    pub label: Tensor<3, Bool>,
    /// `(y, x)` of the surface.
    pub boundary: Tensor<2, Bool>,
}

impl Masks {
    /// Uploads the masks of a source.
    pub(crate) fn new(context: &BatchContext, device: &Device) -> Self {
        let label = channel_mask(context, Role::Label, device);
        let PlaneShape { ny, nx } = context.shape();
        let surface = TensorData::new(context.surface().as_slice().to_vec(), [ny, nx]);
        Self {
            label,
            boundary: Tensor::from_data(surface, device),
        }
    }
}
