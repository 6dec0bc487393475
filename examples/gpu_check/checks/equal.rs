//! Batches against the CPU's: the arithmetic, the gather maps, and the rounding.

use super::distance::{Allowed, Distance};
use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, ON_DEMAND, loader};
use crate::planes::{Case, ONE_DEGREE, TINY};
use anyhow::{Result, bail, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device, Tensor};
use burn_om4::prepare::DevicePath;
use burn_om4::{MaskOrder, ModelBatch, OceanBatcher, OceanDataset, Order, Precision, Transfer};

/// Units in the last place of float32. CUDA divides correctly rounded, and so has to give the CPU's
/// bits. Vulkan may be off by 2.5 in a division.
const VULKAN_ULPS: u64 = 3;

fn values(tensor: Tensor<4>) -> Result<Vec<f32>> {
    Ok(tensor
        .cast(DType::F32)
        .try_into_data()?
        .try_to_vec::<f32>()?)
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
        let (mut found, mut expected) = (device.iter(), cpu.iter());
        for at in 0..self.batches {
            match (found.next().transpose()?, expected.next().transpose()?) {
                (Some(found), Some(expected)) => {
                    distance.add(&shown(&found)?, &shown(&expected)?)?;
                }
                (None, None) => break,
                (Some(_), None) => bail!("more than the CPU's {at} batches"),
                (None, Some(_)) => bail!("only {at} batches, and the CPU has more"),
            }
        }
        Ok(())
    }
}

pub(super) fn float32(bench: &Bench) -> Result<Outcome> {
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
    let compared = kernel.values > 0 && operations.values > 0;
    ensure!(compared, "nothing was compared");
    let (allowed, rule) = match bench.cuda {
        Some(_) => (
            Allowed::Ulps(0),
            "CUDA divides correctly rounded: the CPU's values, bit for bit",
        ),
        None => (
            Allowed::Ulps(VULKAN_ULPS),
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
        .must(kernel.within(allowed) && operations.within(allowed))
        .found()
}

pub(super) fn bfloat16(bench: &Bench) -> Result<Outcome> {
    narrow(bench, Precision::Bf16)
}

pub(super) fn float16(bench: &Bench) -> Result<Outcome> {
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
            Allowed::Ulps(0),
            "float32 equals the CPU's, and both round to nearest: bit for bit",
        ),
        // 3 ulp of float32 move a value by one step of the narrow type at most.
        None => (
            Allowed::Share(0.01),
            "one step of the narrow type, because Vulkan's float32 may differ",
        ),
    };
    Finding::new(rule)
        .number("values", distance.values as f64, "")
        .number("different", distance.different as f64, "")
        .number("largest difference", distance.relative * 100.0, "%")
        .must(distance.within(allowed))
        .found()
}
