//! What a device needs once for each source, made when it is first asked for.

use crate::dataset::context::BatchContext;
use crate::dataset::source::Source;
use crate::ocean::plane::PlaneShape;
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
        let PlaneShape { ny, nx } = context.label_shape();
        let n = context.prognostic().len();
        let of_labels = (0..n).flat_map(|c| context.constants(c).wet.as_slice().iter().copied());
        let mask: Vec<bool> = of_labels.collect();
        let times = context.window().times();
        let label = Tensor::<3, Bool>::from_data(TensorData::new(mask, [n, ny, nx]), device)
            .repeat_dim(0, times);
        let PlaneShape { ny, nx } = context.shape();
        let surface = TensorData::new(context.surface().as_slice().to_vec(), [ny, nx]);
        Self {
            label,
            boundary: Tensor::from_data(surface, device),
        }
    }
}
