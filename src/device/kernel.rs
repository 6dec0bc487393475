//! One kernel from raw to prepared planes: normalise in float32, select by the wet mask, gather
//! rows, cast. The arithmetic is that of [`prepare`](crate::prepare::arithmetic), whose tensor
//! operations stay as the reference and serve devices without CubeCL.
//!
//! The grid of cubes is (cells of a plane, channels, rows), so a position is known without a
//! division, and every index is below the length of a buffer, whose length chooses between 32 and
//! 64 bits. The launch is the bounds-checked one: no unsafe code.

use crate::device::upload::{RawGroup, on_device};
use crate::error::{Error, ErrorKind, Result};
use crate::ocean::plane::PlaneShape;
use crate::prepare::arithmetic::{ChannelConstants, MaskOrder, Preparation};
use crate::prepare::precision::Precision;
use crate::prepare::transfer::HostFormat;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

/// Threads of a cube, each of which makes one cell.
const UNITS: u32 = 256;

#[cube(launch, address_type = "dynamic")]
fn prepare_planes<I: Float, O: Float>(
    // (unique row, channel, cell)
    planes: &[I],
    // output row -> unique row
    rows: &[u32],
    // Per channel.
    mean: &[f32],
    std: &[f32],
    // Per channel, `words` words of one bit per cell.
    wet: &[u32],
    // (row, channel, cell)
    out: &mut [O],
    cells: u32,
    words: u32,
    fill: f32,
    limit: f32,
    #[comptime] step: Step,
    #[define(I)] _input: ElemType,
    #[define(O)] _output: ElemType,
) {
    let cell = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
    if cell >= cells {
        terminate!();
    }
    let channel = CUBE_POS_Y as usize;
    let channels = CUBE_COUNT_Y as usize;
    let row = CUBE_POS_Z as usize;
    let source = rows[row] as usize;
    let value = planes[(source * channels + channel) * cells as usize + cell as usize];
    let at = (row * channels + channel) * cells as usize + cell as usize;
    if comptime!(step == Step::Gather) {
        out[at] = O::cast_from(value);
    } else {
        let value = f32::cast_from(value);
        let word = wet[channel * words as usize + (cell / 32) as usize];
        let ocean = (word >> (cell % 32)) & 1 == 1;
        let (mean, std) = (mean[channel], std[channel]);
        let result = if comptime!(step == Step::MaskFirst) {
            normalise(select(ocean, value, fill), mean, std, limit)
        } else {
            select(ocean, normalise(value, mean, std, limit), fill)
        };
        out[at] = O::cast_from(result);
    }
}

/// What the kernel does to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    NormaliseFirst,
    MaskFirst,
    /// Nothing: the host has prepared it.
    Gather,
}

/// NaN is recognised by its bits: compilers may assume that arithmetic meets none.
#[cube]
fn normalise(value: f32, mean: f32, std: f32, limit: f32) -> f32 {
    let z = (value - mean) / std;
    let finite = clamp(z, -limit, limit);
    select(is_nan(value) || is_nan(z), 0.0f32, finite)
}

#[cube]
fn is_nan(value: f32) -> bool {
    u32::reinterpret(value) & 0x7fff_ffff > 0x7f80_0000
}

/// The constants of a group of channels, on a device.
pub(crate) struct KernelConstants {
    preparation: Preparation,
    device: CubeDevice,
    shape: PlaneShape,
    channels: usize,
    mean: CubeTensor,
    std: CubeTensor,
    /// Bits, each channel from a word of its own.
    wet: CubeTensor,
}

impl KernelConstants {
    /// Uploads the constants of `channels` on the stream of this thread, which is the consumer's.
    pub(crate) fn new(
        preparation: Preparation,
        channels: &[ChannelConstants],
        shape: PlaneShape,
        device: &CubeDevice,
    ) -> Self {
        let floats = |values: Vec<f32>| on_device(device, values, DType::F32);
        let bits = channels
            .iter()
            .flat_map(|c| c.wet.as_slice().chunks(32).map(word));
        Self {
            preparation,
            device: device.clone(),
            shape,
            channels: channels.len(),
            mean: floats(channels.iter().map(|c| c.mean).collect()),
            std: floats(channels.iter().map(|c| c.std).collect()),
            wet: on_device(device, bits.collect::<Vec<u32>>(), DType::U32),
        }
    }

    /// Prepares uploaded planes, or gathers those that the host has prepared:
    /// `(row, channel, y, x)`, the rows that were asked for at the upload.
    ///
    /// Runs on the stream of this thread, which has to be the consumer's: under fusion a tensor
    /// belongs to the stream of the thread that made it.
    ///
    /// # Errors
    /// More rows or channels than the device counts in one launch.
    pub(crate) fn prepare(&self, raw: RawGroup, precision: Precision) -> Result<Tensor<4>> {
        let PlaneShape { ny, nx } = self.shape;
        let (rows, channels, cells) = (raw.wanted, self.channels, self.shape.cells());
        let step = match (raw.format, self.preparation.order) {
            (HostFormat::Prepared(_), _) => Step::Gather,
            (HostFormat::Raw, MaskOrder::NormaliseFirst) => Step::NormaliseFirst,
            (HostFormat::Raw, MaskOrder::MaskFirst) => Step::MaskFirst,
        };
        let input = raw.format.dtype();
        let shape = [rows, channels, ny, nx];
        let values: usize = shape.iter().product();
        let dtype = DType::from(precision.dtype());
        let client = self.device.client();
        let handle = client.empty(values * dtype.size());
        let shape = Shape::from(shape.to_vec());
        let out = CubeTensor::new_contiguous(client, self.device.clone(), shape, handle, dtype);
        if values > 0 {
            let grid = self.grid([cells.div_ceil(UNITS as usize), channels, rows])?;
            let addresses = raw
                .planes
                .required_address_type()
                .max(out.required_address_type());
            prepare_planes::launch(
                &self.device.client(),
                grid,
                CubeDim::new_1d(UNITS),
                addresses,
                raw.planes.into_buffer_arg(),
                raw.rows.into_buffer_arg(),
                self.mean.clone().into_buffer_arg(),
                self.std.clone().into_buffer_arg(),
                self.wet.clone().into_buffer_arg(),
                out.clone().into_buffer_arg(),
                cells as u32,
                cells.div_ceil(32) as u32,
                self.fill(precision),
                precision.largest(),
                step,
                burn::backend::cubecl::dtype_to_storage_type(input),
                burn::backend::cubecl::dtype_to_storage_type(dtype),
            );
        }
        Ok(register(out))
    }

    /// What land is filled with: before normalising as it is, after it within the range.
    fn fill(&self, precision: Precision) -> f32 {
        match self.preparation.order {
            MaskOrder::NormaliseFirst => precision.clamp(self.preparation.fill),
            MaskOrder::MaskFirst => self.preparation.fill,
        }
    }

    fn grid(&self, wanted: [usize; 3]) -> Result<CubeCount> {
        let (x, y, z) = self.device.client().properties().hardware.max_cube_count;
        let fits = |(wanted, most): (usize, u32)| u32::try_from(wanted).ok().filter(|&n| n <= most);
        let counts: Vec<u32> = wanted.into_iter().zip([x, y, z]).filter_map(fits).collect();
        match counts[..] {
            [x, y, z] => Ok(CubeCount::Static(x, y, z)),
            _ => Err(
                Error::new(ErrorKind::Device, "a batch is too large for one launch")
                    .expected(format!(
                        "at most {:?} (256 cells, channels, rows)",
                        (x, y, z)
                    ))
                    .found(format!("{wanted:?}")),
            ),
        }
    }
}

/// Up to 32 cells, the first in the lowest bit.
fn word(wet: &[bool]) -> u32 {
    wet.iter()
        .rev()
        .fold(0, |word, &wet| word << 1 | u32::from(wet))
}

/// Makes a Burn tensor of a CubeCL one, on the thread that will use it.
#[cfg(not(feature = "fusion"))]
fn register(tensor: CubeTensor) -> Tensor<4> {
    Tensor::from_primitive::<CubeBackend>(tensor)
}

/// Makes a Burn tensor of a CubeCL one, on the thread that will use it: a fusion tensor remembers
/// its thread's stream, and every use from another thread waits for the fusion server.
#[cfg(feature = "fusion")]
fn register(tensor: CubeTensor) -> Tensor<4> {
    use burn::backend::TensorMetadata;
    use burn::backend::fusion::{NoOp, client::GlobalFusionClient};
    use burn::backend::ir::{BackendIr, InitOperationIr, OperationIr, OperationOutput};
    use burn_cubecl::fusion::FusionCubeRuntime;
    let client = GlobalFusionClient::<FusionCubeRuntime>::load(&tensor.device);
    let (shape, dtype) = (tensor.shape(), tensor.dtype);
    let handle = CubeBackend::float_tensor_handle(tensor);
    let init = InitOperationIr::create(shape, dtype, || client.register_tensor_handle(handle));
    let stream = burn::tensor::StreamId::current();
    let outputs = client.register(stream, OperationIr::Init(init), NoOp::<CubeBackend>::new());
    Tensor::from_primitive::<burn_cubecl::Cube>(outputs.output())
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn words_hold_cells_from_the_lowest_bit() {
        assert_eq!(word(&[true, false, true]), 0b101);
        assert_eq!(word(&[]), 0);
        let mut wet = [false; 32];
        wet[31] = true;
        assert_eq!(word(&wet), 1 << 31);
    }
}
