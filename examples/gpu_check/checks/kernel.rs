//! The preparation kernel against the tensor operations it stands for, in bytes a second.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::planes::{ONE_DEGREE, QUARTER_DEGREE, constants};
use crate::spread::Spread;
use anyhow::Result;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_om4::ocean::PlaneShape;
use burn_om4::prepare::Preparation;
use burn_om4::{MaskOrder, Precision, testing};
use std::time::Instant;

/// Rows of a batch with one step and one time of history.
const ROWS: usize = 4;
/// Launches between two looks at the clock.
const AT_ONCE: usize = 10;

/// Seconds of one call of `work` in each round, launched several times in a row. What they make is kept until the
/// clock has stopped: fusion does nothing for a tensor that nobody can see.
fn time(
    device: &Device,
    rounds: usize,
    mut work: impl FnMut() -> Result<Tensor<4>>,
) -> Result<Vec<f64>> {
    let mut seconds = Vec::with_capacity(rounds);
    // The first round compiles.
    for _ in 0..=rounds {
        device.sync()?;
        let mut made = Vec::with_capacity(AT_ONCE);
        let started = Instant::now();
        for _ in 0..AT_ONCE {
            made.push(work()?);
        }
        device.sync()?;
        seconds.push(started.elapsed().as_secs_f64() / AT_ONCE as f64);
    }
    Ok(seconds.split_off(1))
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let shape = bench.pick(QUARTER_DEGREE, QUARTER_DEGREE, ONE_DEGREE);
    let (channels, rounds) = bench.pick((77, 20), (77, 5), (5, 3));
    let PlaneShape { ny, nx } = shape;
    let values: Vec<f32> = (0..ROWS * channels * shape.cells())
        .map(|cell| (cell % 1009) as f32)
        .collect();
    let len = values.len();
    let constants = constants(shape, channels)?;
    let preparation = Preparation {
        order: MaskOrder::NormaliseFirst,
        fill: 0.0,
    };
    let data = TensorData::new(values.clone(), [len]);
    let rows = (0..ROWS as u32).collect();
    let device = &bench.device;
    let planes =
        testing::PlanesOnDevice::new(preparation, &constants, shape, values, rows, device)?;
    let kernel = |precision: Precision| time(device, rounds, || Ok(planes.prepare(precision)?));
    let (single, brain) = (
        kernel(Precision::F32)?,
        match device.supports_dtype(Precision::Bf16.dtype()) {
            true => Some(kernel(Precision::Bf16)?),
            false => None,
        },
    );

    let operations = testing::DevicePreparation::new(preparation, &constants, shape, device);
    let raw = Tensor::<1>::from_data(data, (device, DType::F32)).reshape([ROWS, channels, ny, nx]);
    let by_operations = time(device, rounds, || Ok(operations.prepare(raw.clone())))?;

    // Read once and written once; the mask's bits are a hundredth of it.
    let moved = |bytes: usize, seconds: &[f64]| {
        Spread::rates(seconds, (len * (size_of::<f32>() + bytes)) as f64 / 1e9)
    };
    let (fast, slow) = (moved(4, &single), moved(4, &by_operations));
    let mut finding = Finding::new("the kernel is no slower than the operations it stands for")
        .number("planes", (len * size_of::<f32>()) as f64 / 1e9, "GB")
        .spread("kernel", fast, "GB/s")
        .spread("operations", slow, "GB/s")
        .number("ratio", fast.median / slow.median, "");
    if let Some(seconds) = brain {
        finding = finding.spread("kernel to bfloat16", moved(2, &seconds), "GB/s");
    }
    finding
        .must_on_cuda(bench, fast.median >= slow.median)
        .found()
}
