//! One walk over everything a state dict holds, under the original's names.
//!
//! Loading, saving, listing and averaging all go through [`Slot`], so that a name is spelled
//! once.

use burn::module::{Module, Param, ParamId, RunningState};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};

/// Receives each name with its tensor.
pub(crate) type Visit<'a> = dyn FnMut(&str, Slot<'_>) + 'a;

/// A named tensor of the network, by what a state dict keeps of it.
pub(crate) enum Slot<'a> {
    /// A learned vector.
    Vector(&'a mut Param<Tensor<1>>),
    /// Learned constant channels, `(channel, y, x)`.
    Planes(&'a mut Param<Tensor<3>>),
    /// A learned kernel, `(out, in, k, k)`.
    Kernel(&'a mut Param<Tensor<4>>),
    /// A learned 1 x 1 kernel that a state dict holds as `(out, in)`.
    Matrix(&'a mut Param<Tensor<4>>),
    /// A learned matrix, `(out, in)`.
    Linear(&'a mut Param<Tensor<2>>),
    /// A learned parameter once more, under a second name; the first one's name comes with it.
    Tied(String, Box<Slot<'a>>),
    /// A running statistic.
    Running(&'a mut RunningState<Tensor<1>>),
    /// A scalar that the original stores and this network has built in.
    Constant(Constant),
}

/// A scalar buffer of the original without a counterpart here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    /// The cap of an activation; the value is part of the network.
    Cap(f32),
    /// How many batches a norm has seen. With a fixed momentum nothing depends on it.
    BatchCounter,
}

impl Slot<'_> {
    /// The id of a learned parameter.
    pub(crate) fn parameter(&self) -> Option<ParamId> {
        match self {
            Self::Vector(p) => Some(p.id),
            Self::Planes(p) => Some(p.id),
            Self::Kernel(p) | Self::Matrix(p) => Some(p.id),
            Self::Linear(p) => Some(p.id),
            Self::Tied(..) | Self::Running(_) | Self::Constant(_) => None,
        }
    }

    /// Shape in a state dict. Reads no values.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Vector(p) => p.lazy_shape().to_vec(),
            Self::Planes(p) => p.lazy_shape().to_vec(),
            Self::Kernel(p) => p.lazy_shape().to_vec(),
            Self::Matrix(p) => p.lazy_shape()[..2].to_vec(),
            Self::Linear(p) => p.lazy_shape().to_vec(),
            Self::Tied(_, first) => first.shape(),
            Self::Running(r) => r.value().dims().to_vec(),
            Self::Constant(_) => Vec::new(),
        }
    }

    /// Copies the values to the host, in the state dict's shape.
    pub(crate) fn get(&self) -> TensorData {
        match self {
            Self::Vector(p) => p.val().into_data(),
            Self::Planes(p) => p.val().into_data(),
            Self::Kernel(p) => p.val().into_data(),
            Self::Matrix(p) => with_shape(p.val().into_data(), self.shape()),
            Self::Linear(p) => p.val().into_data(),
            Self::Tied(_, first) => first.get(),
            // A forward pass in training leaves its update pending; `valid` takes it in.
            Self::Running(r) => r.valid().value().into_data(),
            Self::Constant(Constant::Cap(cap)) => TensorData::new(vec![*cap], [0; 0]),
            Self::Constant(Constant::BatchCounter) => TensorData::new(vec![0_i64], [0; 0]),
        }
    }

    /// Replaces the values by data of [`Self::shape`].
    pub(crate) fn set(self, data: TensorData) {
        match self {
            Self::Vector(p) => replace(p, data),
            Self::Planes(p) => replace(p, data),
            Self::Kernel(p) => replace(p, data),
            Self::Matrix(p) => {
                let shape = p.lazy_shape();
                replace(p, with_shape(data, shape));
            }
            Self::Linear(p) => replace(p, data),
            Self::Running(r) => {
                let device = r.value().device();
                // A state of its own: clones of the network share the old one.
                *r = RunningState::new(float(data, &device));
            }
            // It was set under its first name.
            Self::Tied(..) | Self::Constant(_) => {}
        }
    }

    /// A learned parameter's values in one row.
    pub(crate) fn flat(&self) -> Option<Tensor<1>> {
        match self {
            Self::Vector(p) => Some(p.val()),
            Self::Planes(p) => Some(p.val().flatten(0, 2)),
            Self::Kernel(p) | Self::Matrix(p) => Some(p.val().flatten(0, 3)),
            Self::Linear(p) => Some(p.val().flatten(0, 1)),
            Self::Tied(..) | Self::Running(_) | Self::Constant(_) => None,
        }
    }

    /// Replaces a learned parameter's values by a row of as many.
    pub(crate) fn set_flat(self, values: Tensor<1>) {
        match self {
            Self::Vector(p) => reshaped(p, values),
            Self::Planes(p) => reshaped(p, values),
            Self::Kernel(p) | Self::Matrix(p) => reshaped(p, values),
            Self::Linear(p) => reshaped(p, values),
            Self::Tied(..) | Self::Running(_) | Self::Constant(_) => {}
        }
    }
}

fn reshaped<const D: usize>(param: &mut Param<Tensor<D>>, values: Tensor<1>) {
    *param = param.clone().map(|old| values.reshape(old.dims()));
}

/// The same values under another shape of as many elements.
fn with_shape(data: TensorData, shape: impl Into<Shape>) -> TensorData {
    let (bytes, _, dtype) = data.into_parts();
    TensorData::from_bytes(bytes, shape, dtype)
}

fn replace<const D: usize>(param: &mut Param<Tensor<D>>, data: TensorData) {
    let value = float(data, &param.lazy_device());
    *param = param.clone().transform_for_load(value, param.id);
}

fn float<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    Tensor::from_data(data.convert_dtype(DType::F32), (device, DType::F32))
}
