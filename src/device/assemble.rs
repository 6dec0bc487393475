//! From host buffers and prepared planes to the tensors of a batch.

use crate::dataset::source::Source;
use crate::device::batch::Field;
use crate::host::pool::HostLease;
use crate::host::tensors::{HostTensor, HostTensors};
use crate::observe::counters::BatchLog;
use crate::ocean::plane::PlaneShape;
use crate::plan::batch::Gather;
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::prepare::precision::Precision;
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Makes tensors on a device.
pub(crate) struct Assembler<'a> {
    pub device: &'a Device,
    /// Element type of the batch's tensors.
    pub precision: Precision,
    pub log: &'a BatchLog,
}

impl Assembler<'_> {
    /// Makes tensors of host buffers that hold their values.
    pub(crate) fn tensors(&self, tensors: HostTensors, source: &Source) -> PerRole<Field> {
        tensors.map(|role, steps| {
            let shape = source.groups.of(role).planes.shape();
            let tensor = |HostTensor { lease, gather }: HostTensor| {
                let rows = gather.rows.len() / gather.times;
                self.cast(self.upload(lease, Precision::F32, rows, shape))
            };
            Field::Ready(steps.into_iter().map(tensor).collect())
        })
    }

    /// Uploads a buffer: `(rows, channel, y, x)`, where a row is as long as the buffer says. It
    /// crosses at rank 1: higher ranks may get pitched rows, and a copy when reshaped.
    pub(crate) fn upload(
        &self,
        lease: HostLease,
        precision: Precision,
        rows: usize,
        shape: PlaneShape,
    ) -> Tensor<4> {
        let bytes = lease.bytes();
        let len = bytes / precision.bytes();
        let dtype = DType::from(precision.dtype());
        let data = TensorData::from_bytes(lease.into_bytes(), [len], dtype);
        let flat = Tensor::<1>::from_data(data, (self.device, dtype));
        self.log.uploaded(bytes);
        flat.reshape([rows, len / (rows * shape.cells()), shape.ny, shape.nx])
    }

    /// Rounds to the batch's element type.
    pub(crate) fn cast(&self, tensor: Tensor<4>) -> Tensor<4> {
        match self.precision {
            Precision::F32 => tensor,
            narrow => {
                let largest = narrow.largest();
                tensor.clamp(-largest, largest).cast(narrow.dtype())
            }
        }
    }
}

/// Tensors that are gathered from their group's planes when they are asked for.
pub(crate) fn gathered(
    planes: PerGroup<Tensor<4>>,
    gathers: PerRole<Vec<Gather>>,
) -> PerRole<Field> {
    gathers.map(|role, steps| Field::Lazy {
        planes: Box::new(planes.of(role).clone()),
        steps,
    })
}
