//! The upload lane against plain copies of as many bytes, in the same run.

use crate::bench::{Bench, NEEDS_CUDA};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, batch_bytes, in_order, page_locked_pool, upload_seconds};
use crate::planes::{Case, QUARTER_DEGREE};
use crate::spread::Spread;
use anyhow::{Result, ensure};
use burn::data::dataloader::DataLoader;
use burn_om4::Timeline;

/// Uploads that still allocate, on the host and on either stream.
const COLD: usize = 5;
/// The lane may cost this share of the rate: a launch, an event and a wait per read group.
const LEAST: f64 = 0.9;

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let Some(cuda) = &bench.cuda else {
        return not_run(NEEDS_CUDA);
    };
    let batches = bench.pick(20, 10, 10);
    // The host does nothing meanwhile: reading is a stamp per plane.
    let case = Case::new(QUARTER_DEGREE, 77, batches + 4).stamped();
    let timeline = Timeline::start();
    let loader = in_order(case.dataset()?, AHEAD, bench)?.with_timeline(&timeline);
    for batch in loader.iter().take(batches) {
        batch?;
    }
    let bytes = batch_bytes(&loader);
    let uploads = upload_seconds(&timeline).split_off(COLD.min(batches));
    ensure!(!uploads.is_empty(), "no upload was recorded");
    let lane = Spread::rates(&uploads, bytes / 1e9);

    let mut lease = page_locked_pool(cuda)?.lease(bytes as usize / size_of::<f32>())?;
    let copies = cuda.plain_copies(lease.as_mut_slice(), 12)?.split_off(2);
    let plain = Spread::rates(&copies, bytes / 1e9);
    Finding::new(format!(
        "the median upload at {LEAST} of the rate of a plain copy or more"
    ))
    .number("batch", bytes / 1e9, "GB")
    .spread("lane", lane, "GB/s")
    .spread("plain copy", plain, "GB/s")
    .number("share", lane.median / plain.median, "")
    .must(lane.median >= LEAST * plain.median)
    .found()
}
