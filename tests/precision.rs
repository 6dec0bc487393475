//! Element types of batches on a CPU: what `half` rounds the float32 batch to, bit for bit.

use burn::tensor::{DType, Device, TensorData};
use burn_om4::dataset::OceanPair;
use burn_om4::ocean::PlaneShape;
use burn_om4::testing::MemorySource;
use burn_om4::{OceanBatcher, OceanDataset, Precision, Strictness};
use half::{bf16, f16};
use om4_test_support::memory::{memory_ocean, memory_options};
use std::collections::BTreeSet;

/// Every kind of float32: random bits, of which many are halfway between two narrow values.
fn value(row: usize, channel: usize, cell: usize) -> f32 {
    let index = (row * 3 + channel) * 600 + cell;
    let random = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    if index.is_multiple_of(97) {
        return f32::INFINITY.copysign(random as i32 as f32);
    }
    let mut bits = random as u32;
    match index % 4 {
        // Halfway in float16, which drops 13 bits, and in bfloat16, which drops 16.
        0 => bits = bits & !0x1fff | 0x1000,
        1 => bits = bits & !0xffff | 0x8000,
        _ => {}
    }
    if index.is_multiple_of(2) {
        // Exponents that float16 has: normal ones from 2^-14 to 2^15, subnormal ones below.
        let exponent = 127 - 26 + (random % 46) as u32;
        bits = bits & 0x807f_ffff | exponent << 23;
    }
    f32::from_bits(bits)
}

fn dataset() -> OceanDataset {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let shape = PlaneShape { ny: 20, nx: 30 };
    // Means are 0 and deviations 1: normalising changes no value.
    let source = MemorySource::new(channels.into(), 12, shape, value);
    let input = memory_ocean(source, (0..12).collect()).unwrap();
    // Infinities are among them.
    let options = memory_options(1).with_strictness(Strictness::Lenient);
    OceanDataset::from_oceans(vec![OceanPair { input, label: None }], &options).unwrap()
}

fn label(precision: Precision) -> TensorData {
    let dataset = dataset();
    let windows = (0..8).map(|w| dataset.window(w).unwrap()).collect();
    let batcher = OceanBatcher::new(dataset).with_precision(precision);
    let batch = batcher.try_batch(windows, &Device::flex()).unwrap();
    let label = batch.label(0);
    assert_eq!(label.dtype(), DType::from(precision.dtype()));
    label.into_data()
}

#[test]
fn float16_is_what_half_rounds_to() {
    let exact: Vec<f32> = label(Precision::F32).try_to_vec().unwrap();
    let found: Vec<f16> = label(Precision::F16).try_to_vec().unwrap();
    assert_eq!(found.len(), exact.len());
    let mut met = BTreeSet::new();
    for (found, exact) in found.iter().zip(&exact) {
        let expected = f16::from_f32(exact.clamp(-65504.0, 65504.0));
        assert_eq!(found.to_bits(), expected.to_bits(), "{exact:e}");
        assert!(found.is_finite());
        met.insert(match expected.to_f32() {
            0.0 if *exact != 0.0 => "too small",
            _ if exact.abs() > 65504.0 => "too large",
            _ if expected.is_normal() && exact.to_bits() & 0x1fff == 0x1000 => "halfway",
            _ if expected.classify() == std::num::FpCategory::Subnormal => "subnormal",
            _ => "plain",
        });
    }
    assert_eq!(met.len(), 5, "{met:?}");
}

#[test]
fn bfloat16_is_what_half_rounds_to() {
    let exact: Vec<f32> = label(Precision::F32).try_to_vec().unwrap();
    let found: Vec<bf16> = label(Precision::Bf16).try_to_vec().unwrap();
    assert_eq!(found.len(), exact.len());
    let largest = bf16::MAX.to_f32();
    let mut met = BTreeSet::new();
    for (found, exact) in found.iter().zip(&exact) {
        let expected = bf16::from_f32(exact.clamp(-largest, largest));
        assert_eq!(found.to_bits(), expected.to_bits(), "{exact:e}");
        assert!(found.is_finite());
        met.insert(match exact.to_bits() & 0xffff {
            _ if exact.abs() > largest => "too large",
            0x8000 => "halfway",
            _ => "plain",
        });
    }
    assert_eq!(met.len(), 3, "{met:?}");
}
