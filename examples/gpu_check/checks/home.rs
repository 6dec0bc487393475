//! Host buffers over thousands of batches.

use crate::bench::{Bench, NEEDS_LANE};
use crate::check::{Finding, Outcome, not_run};
use crate::loaders::{AHEAD, ON_DEMAND, in_order};
use crate::planes::{Case, TINY};
use anyhow::Result;
use burn::data::dataloader::DataLoader;
use burn_om4::PrefetchOptions;

/// Prognostic and boundary planes.
const READ_GROUPS: usize = 2;

/// What was seen of the pool.
#[derive(Default)]
struct Seen {
    batches: usize,
    /// Most buffers that were out when a batch was handed out.
    out: usize,
    /// Buffers that were out when everything had been dropped.
    lost: usize,
    allocations: u64,
}

fn watch(bench: &Bench, prefetch: PrefetchOptions, batches: usize) -> Result<Seen> {
    let rows = bench.pick(504, 504, 104);
    let dataset = Case::new(TINY, 5, rows).dataset()?;
    let loader = in_order(dataset, prefetch, bench)?;
    let mut seen = Seen::default();
    while seen.batches < batches {
        for batch in loader.iter() {
            let batch = batch?;
            seen.out = seen.out.max(loader.batcher().host_pool().leased);
            seen.batches += batch.len();
        }
    }
    let state = loader.batcher().host_pool();
    (seen.lost, seen.allocations) = (state.leased, state.allocations);
    Ok(seen)
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    if !bench.has_lane() {
        return not_run(NEEDS_LANE);
    }
    let batches = bench.pick(10_000, 2_000, 100);
    // Read when asked for, nothing else is under way when a batch is handed out.
    let on_demand = watch(bench, ON_DEMAND, batches)?;
    // Ahead, one batch crosses, the queue's wait, and one is being read.
    let ahead = watch(bench, AHEAD, batches)?;
    let under_way = READ_GROUPS * (AHEAD.batches + 2);
    Finding::new(format!(
        "no buffer is out when a batch is handed out that was read on demand, at most {under_way} are \
         out ahead, none afterwards, and the pool stops growing"
    ))
    .number("batches", (on_demand.batches + ahead.batches) as f64, "")
    .number("out, on demand", on_demand.out as f64, "")
    .number("out, ahead", ahead.out as f64, "")
    .number("lost", (on_demand.lost + ahead.lost) as f64, "")
    .number("buffers allocated, ahead", ahead.allocations as f64, "")
    .must(on_demand.out == 0 && on_demand.lost == 0)
    .must(ahead.out <= under_way && ahead.lost == 0)
    .must(ahead.allocations <= 2 * under_way as u64)
    .found()
}
