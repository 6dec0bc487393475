//! Planes that the readers prepare and round before they cross: on a Vulkan device, software or not.
#![cfg(feature = "vulkan")]

use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device};
use burn_om4::dataset::OceanPair;
use burn_om4::ocean::{PlaneShape, WetMask};
use burn_om4::prepare::{ChannelConstants, DevicePath};
use burn_om4::testing::{MemorySource, ocean_on};
use burn_om4::{
    DatasetOptions, MaskOrder, ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Order,
    Precision, PrefetchOptions, Schedule, ScheduleOptions, Strictness, Transfer, WindowOptions,
};
use half::{bf16, f16};
use std::sync::Arc;

/// An odd number of cells, so that halves do not fill whole words.
const SHAPE: PlaneShape = PlaneShape { ny: 5, nx: 7 };
const ROWS: usize = 17;

/// What a careless store holds: NaN, infinities, values far outside the range of float16.
fn value(row: usize, channel: usize, cell: usize) -> f32 {
    match (row * 5 + channel * 3 + cell) % 13 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => -1e9,
        _ => (row * 100 + channel * 10 + cell) as f32 * 0.37 - 300.0,
    }
}

fn dataset(order: MaskOrder) -> OceanDataset {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let source = MemorySource::new(channels.into(), ROWS, SHAPE, value);
    let wet = (0..SHAPE.cells()).map(|cell| cell % 4 > 0).collect();
    let wet = Arc::new(WetMask::new(SHAPE, wet).unwrap());
    let constants = ChannelConstants {
        mean: 3.7,
        std: 12.3,
        wet,
    };
    let ocean = ocean_on(source, vec![constants; 3]).unwrap();
    let names = |list: &[&str]| list.iter().map(|n| n.parse().unwrap()).collect();
    let options = DatasetOptions::new(names(&["thetao_0", "zos"]), names(&["hfds"]))
        .with_window(WindowOptions::default().with_steps(2))
        .with_mask_order(order)
        .with_masked_fill_value(-0.3)
        // Infinities are among the values.
        .with_strictness(Strictness::Lenient);
    let pair = OceanPair {
        input: ocean,
        label: None,
    };
    OceanDataset::from_oceans(vec![pair], &options).unwrap()
}

fn loader(batcher: OceanBatcher, device: &Device) -> OceanLoader {
    let spec = ScheduleOptions::default()
        .with_order(Order::Shuffled)
        .with_seed(3)
        .with_batch_size(3);
    let schedule = Schedule::new(spec, batcher.dataset().groups()).unwrap();
    OceanLoader::new(batcher, schedule, PrefetchOptions::default(), device).unwrap()
}

fn values(batch: &ModelBatch) -> Vec<f32> {
    let steps = 0..batch.steps();
    let inputs = steps.clone().map(|k| batch.input(k).unwrap());
    let boundaries = steps.clone().map(|k| batch.boundary(k));
    let labels = steps.map(|k| batch.label(k));
    let tensors = inputs.chain(boundaries).chain(labels);
    let each = tensors.map(|t| t.into_data().iter::<f32>().collect::<Vec<f32>>());
    each.flatten().collect()
}

fn rounded(precision: Precision, value: f32) -> f32 {
    match precision {
        Precision::F32 => value,
        Precision::Bf16 => bf16::from_f32(precision.clamp(value)).to_f32(),
        Precision::F16 => f16::from_f32(precision.clamp(value)).to_f32(),
    }
}

/// What `transfer` delivers, bytes that crossed, NaN that were met in the ocean.
fn delivered(
    dataset: &OceanDataset,
    device: &Device,
    path: DevicePath,
    precision: Precision,
    transfer: Transfer,
) -> (Vec<Vec<f32>>, u64, u64) {
    let batcher = OceanBatcher::new(dataset.clone())
        .with_device_path(path)
        .with_precision(precision)
        .with_transfer(transfer);
    let loader = loader(batcher, device);
    let batches = loader.iter().map(|batch| {
        let batch = batch.unwrap();
        assert_eq!(batch.label(0).dtype(), DType::from(precision.dtype()));
        values(&batch)
    });
    let batches = batches.collect();
    assert_eq!(loader.batcher().host_pool().leased, 0);
    let counters = loader.counters();
    (batches, counters.bytes_uploaded, counters.nan_in_ocean)
}

#[test]
fn what_the_readers_round_arrives_bit_for_bit() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
        let dataset = dataset(order);
        let on = |device: &Device, path, precision, transfer| {
            delivered(&dataset, device, path, precision, transfer)
        };
        let auto = DevicePath::Auto;
        let (cpu, _, nan) = on(&Device::flex(), auto, Precision::F32, Transfer::Raw);
        assert!(nan > 0, "the data has NaN in the ocean");
        let (_, raw_bytes, _) = on(&device, auto, Precision::F32, Transfer::Raw);
        for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
            if om4_test_support::lacks(&device, precision) {
                continue;
            }
            for path in [DevicePath::Kernel, DevicePath::Operations] {
                let (found, bytes, met) = on(&device, path, precision, Transfer::Prepared);
                assert_eq!(found.len(), cpu.len());
                for (f, c) in found.iter().flatten().zip(cpu.iter().flatten()) {
                    let expected = rounded(precision, *c);
                    assert_eq!(
                        f.to_bits(),
                        expected.to_bits(),
                        "{order:?} {path:?} {precision:?}: expected {expected}, found {f}"
                    );
                }
                assert_eq!(bytes * 4, raw_bytes * precision.bytes() as u64);
                assert_eq!(met, nan, "counted by the readers");
            }
        }
    }
}

#[test]
fn on_a_cpu_device_nothing_crosses_and_nothing_changes() {
    let dataset = dataset(MaskOrder::NormaliseFirst);
    let on = |transfer| {
        let device = Device::flex();
        delivered(
            &dataset,
            &device,
            DevicePath::Auto,
            Precision::Bf16,
            transfer,
        )
    };
    assert_eq!(on(Transfer::Raw), on(Transfer::Prepared));
}
