//! Host buffers are overwritten as soon as they come home, while copies are made to queue.
//!
//! A copy that still reads a buffer then brings over the poison, and the batch's checksum differs from
//! the CPU's. Copies are delayed in two ways: two loaders share the upload thread, and, on CUDA, copies
//! that have nothing to do with them keep the copy engine busy.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::guard::Lower;
use crate::loaders::{AHEAD, in_order, loader, page_locked_pool, poisoned_pool};
use crate::planes::{Case, TINY};
use anyhow::{Context, Result, anyhow, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::ocean::PlaneShape;
use burn_om4::{ModelBatch, OceanBatcher, OceanDataset, Order, PrefetchTo};
use std::sync::atomic::{AtomicBool, Ordering};

/// Mixes every value with its place. The sign of a zero does not count.
fn checksum(tensor: Tensor<4>) -> Result<u64> {
    let values = tensor.try_into_data()?.try_to_vec::<f32>()?;
    let mix = |sum: u64, value: &f32| {
        (sum ^ u64::from((value + 0.0).to_bits()))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    Ok(values.iter().fold(0, mix))
}

fn checksums(batch: &ModelBatch) -> Result<[u64; 3]> {
    Ok([
        checksum(batch.input(0)?)?,
        checksum(batch.boundary(0))?,
        checksum(batch.label(0))?,
    ])
}

/// What the device shows when nothing is in a hurry: one batch after the other, buffers unharmed.
fn expected(dataset: &OceanDataset, device: &Device) -> Result<Vec<[u64; 3]>> {
    let batcher = OceanBatcher::new(dataset.clone());
    let prefetch = AHEAD.with_batches(0).with_to(PrefetchTo::Auto);
    let loader = loader(batcher, Order::Sequential, 1, prefetch, device)?;
    loader.iter().map(|batch| checksums(&batch?)).collect()
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let shape = bench.pick(PlaneShape { ny: 90, nx: 180 }, TINY, TINY);
    let batches = bench.pick(2_000, 1_000, 40);
    let (channels, rows) = bench.pick((20, 104), (20, 104), (5, 24));
    let dataset = Case::new(shape, channels, rows).dataset()?;
    // CUDA has to give the CPU's bits; where a division may differ, the device judges itself.
    let reference = match bench.cuda {
        Some(_) => Device::flex(),
        None => bench.device.clone(),
    };
    let expected = expected(&dataset, &reference)?;

    let batcher = OceanBatcher::new(dataset.clone()).with_host_pool(poisoned_pool(bench)?);
    let poisoned = loader(batcher, Order::Sequential, 1, AHEAD, &bench.device)?;
    let beside = in_order(dataset, AHEAD, bench)?;
    let (mut seen, mut wrong) = (0usize, 0usize);
    let mut watch = || -> Result<()> {
        while seen < batches {
            let mut other = beside.iter();
            for (at, batch) in poisoned.iter().enumerate() {
                let batch = batch?;
                other.next().transpose()?;
                let expected = expected.get(at).context("more batches than expected")?;
                wrong += usize::from(checksums(&batch)? != *expected);
                seen += 1;
            }
        }
        Ok(())
    };
    let busy = AtomicBool::new(true);
    let copies = std::thread::scope(|scope| -> Result<u64> {
        // A panic of this thread ends the other one too.
        let until_done = Lower(&busy);
        let copying = bench.cuda.as_ref().map(|cuda| {
            let busy = &busy;
            scope.spawn(move || -> Result<u64> {
                let mut lease = page_locked_pool(cuda)?.lease(8 << 20)?;
                cuda.keep_copying(lease.as_mut_slice(), &|| busy.load(Ordering::Relaxed))
            })
        });
        let watched = watch();
        drop(until_done);
        let copies = copying.map(|thread| thread.join());
        watched?;
        match copies {
            Some(copies) => copies.map_err(|_| anyhow!("the copying thread panicked"))?,
            None => Ok(0),
        }
    })?;
    ensure!(!expected.is_empty(), "nothing was compared");
    Finding::new("every batch from poisoned buffers has the checksums of undisturbed ones")
        .number("batches", seen as f64, "")
        .number("wrong", wrong as f64, "")
        .number("other copies meanwhile", copies as f64, "")
        .must(wrong == 0)
        .found()
}
