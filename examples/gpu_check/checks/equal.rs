//! Batches against the CPU's: the arithmetic, the gather maps, and the rounding.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, ON_DEMAND, loader};
use crate::planes::{Case, ONE_DEGREE, TINY};
use anyhow::{Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device, Tensor};
use burn_om4::{
    DevicePath, MaskOrder, ModelBatch, OceanBatcher, OceanDataset, Order, Precision, Transfer,
};

/// Units in the last place of float32. CUDA divides correctly rounded, and so has to give the CPU's
/// bits. Vulkan may be off by 2.5 in a division.
const VULKAN_ULPS: u64 = 3;

/// How far apart two lots of values are.
#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    values: u64,
    different: u64,
    /// In units of the last place of float32; NaN is infinitely far.
    ulps: u64,
    /// Largest difference as a share of the CPU's value.
    relative: f64,
}

impl Distance {
    fn add(&mut self, found: &[f32], expected: &[f32]) -> Result<()> {
        ensure!(
            found.len() == expected.len(),
            "{} values where the CPU has {}",
            found.len(),
            expected.len()
        );
        for (f, e) in found.iter().zip(expected) {
            let ulps = ulps(*f, *e);
            self.different += u64::from(f.to_bits() != e.to_bits());
            self.ulps = self.ulps.max(ulps);
            if ulps > 0 {
                let difference = (f64::from(*f) - f64::from(*e)).abs();
                let relative = difference / f64::from(e.abs()).max(f64::from(f32::MIN_POSITIVE));
                self.relative = self.relative.max(relative);
            }
        }
        self.values += found.len() as u64;
        Ok(())
    }
}

fn ulps(a: f32, b: f32) -> u64 {
    let key = |x: f32| {
        let bits = i64::from(x.to_bits() as i32);
        if bits < 0 {
            i64::from(i32::MIN) - bits
        } else {
            bits
        }
    };
    if a.is_nan() || b.is_nan() {
        u64::MAX
    } else {
        key(a).abs_diff(key(b))
    }
}

fn values(tensor: Tensor<4>) -> Result<Vec<f32>> {
    Ok(tensor.cast(DType::F32).into_data().try_to_vec::<f32>()?)
}

/// Everything that a batch shows.
fn shown(batch: &ModelBatch) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for step in 0..batch.steps() {
        for tensor in [batch.input(step)?, batch.boundary(step), batch.label(step)] {
            all.extend(values(tensor)?);
        }
    }
    Ok(all)
}

/// The same batches on the device and on the CPU.
struct Comparison<'a> {
    bench: &'a Bench,
    dataset: &'a OceanDataset,
    order: Order,
    path: DevicePath,
    precision: Precision,
    transfer: Transfer,
    batches: usize,
}

impl Comparison<'_> {
    fn run(&self, distance: &mut Distance) -> Result<()> {
        let make = |device: &Device, path: DevicePath| {
            let batcher = OceanBatcher::new(self.dataset.clone())
                .with_precision(self.precision)
                .with_transfer(self.transfer)
                .with_device_path(path);
            let ahead = path == DevicePath::Kernel;
            let prefetch = if ahead { AHEAD } else { ON_DEMAND };
            loader(batcher, self.order.clone(), 2, prefetch, device)
        };
        let cpu = make(&Device::flex(), DevicePath::Auto)?;
        let device = make(&self.bench.device, self.path)?;
        let both = device.iter().zip(cpu.iter());
        for (found, expected) in both.take(self.batches) {
            distance.add(&shown(&found?)?, &shown(&expected?)?)?;
        }
        Ok(())
    }
}

pub fn float32(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let (mut kernel, mut operations) = (Distance::default(), Distance::default());
    let mut compare = |case: &Case, batches: usize| -> Result<()> {
        let dataset = case.dataset()?;
        // Shuffled windows lie apart, or overlap; sequential ones always overlap.
        for order in [Order::Sequential, Order::Shuffled] {
            for (path, distance) in [
                (DevicePath::Kernel, &mut kernel),
                (DevicePath::Operations, &mut operations),
            ] {
                let comparison = Comparison {
                    bench,
                    dataset: &dataset,
                    order: order.clone(),
                    path,
                    precision: Precision::F32,
                    transfer: Transfer::Raw,
                    batches,
                };
                comparison.run(distance)?;
            }
        }
        Ok(())
    };
    for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
        let small = Case::new(TINY, 5, 16).with_window(1, 2).with_order(order);
        compare(&small, usize::MAX)?;
    }
    if bench.cuda.is_some() {
        compare(&Case::new(ONE_DEGREE, 77, 16), bench.pick(4, 1, 1))?;
    }
    ensure!(kernel.values > 0, "nothing was compared");
    let (allowed, rule) = match bench.cuda {
        Some(_) => (
            0,
            "CUDA divides correctly rounded: the CPU's values, bit for bit",
        ),
        None => (
            VULKAN_ULPS,
            "at most 3 units in the last place, as Vulkan's division may",
        ),
    };
    Finding::new(rule)
        .number("values", (kernel.values + operations.values) as f64, "")
        .number("kernel, largest distance", kernel.ulps as f64, "ulp")
        .number("kernel, different bits", kernel.different as f64, "")
        .number(
            "operations, largest distance",
            operations.ulps as f64,
            "ulp",
        )
        .number(
            "operations, different bits",
            operations.different as f64,
            "",
        )
        .must(kernel.ulps <= allowed && operations.ulps <= allowed)
        .found()
}

pub fn bfloat16(bench: &Bench) -> Result<Outcome> {
    narrow(bench, Precision::Bf16)
}

pub fn float16(bench: &Bench) -> Result<Outcome> {
    narrow(bench, Precision::F16)
}

fn narrow(bench: &Bench, precision: Precision) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    if !bench.device.supports_dtype(precision.dtype()) {
        return not_run("this device lacks the type");
    }
    let mut distance = Distance::default();
    let mut compare = |case: &Case, path: DevicePath, transfer: Transfer, batches: usize| {
        let comparison = Comparison {
            bench,
            dataset: &case.dataset()?,
            order: Order::Sequential,
            path,
            precision,
            transfer,
            batches,
        };
        comparison.run(&mut distance)
    };
    let small = Case::new(TINY, 5, 16).with_window(1, 2);
    let raw = Transfer::Raw;
    compare(&small, DevicePath::Kernel, raw, usize::MAX)?;
    // Rounded by the readers, half the bytes cross.
    compare(&small, DevicePath::Kernel, Transfer::Prepared, usize::MAX)?;
    if bench.cuda.is_some() {
        compare(&small, DevicePath::Operations, raw, usize::MAX)?;
        let large = Case::new(ONE_DEGREE, 77, 16);
        compare(&large, DevicePath::Kernel, raw, bench.pick(4, 1, 1))?;
    }
    ensure!(distance.values > 0, "nothing was compared");
    let (allowed, rule) = match bench.cuda {
        Some(_) => (
            0.0,
            "float32 equals the CPU's, and both round to nearest: bit for bit",
        ),
        // 3 ulp of float32 move a value by one step of the narrow type at most.
        None => (
            0.01,
            "one step of the narrow type, because Vulkan's float32 may differ",
        ),
    };
    Finding::new(rule)
        .number("values", distance.values as f64, "")
        .number("different", distance.different as f64, "")
        .number("largest difference", distance.relative * 100.0, "%")
        .must(distance.relative <= allowed)
        .found()
}
