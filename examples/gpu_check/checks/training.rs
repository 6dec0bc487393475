//! Training steps with one batch again and again, and with batches from the loader.

use crate::bench::Bench;
use crate::check::{Finding, Outcome, Verdict, not_run};
use crate::loaders::{AHEAD, loader};
use crate::spread::Spread;
use anyhow::{Context, Result};
use burn::data::dataloader::DataLoader;
use burn_om4::device::is_cpu;
use burn_om4::synth::SynthOptions;
use burn_om4::{
    DatasetOptions, OceanBatcher, OceanDataset, Om4Paths, Order, PrefetchTo, WindowOptions, preset,
};
use samudra::{Grid, SamudraConfig};
use samudra_training::trainer::Trainer;
use std::path::Path;
use std::time::{Duration, Instant};

/// Of the step, waiting for the next batch.
const MOST: f64 = 0.02;
const BATCH: usize = 2;
/// For either measurement, about.
const SECONDS: f64 = 40.0;
/// Of the run's time, left for the answer to be written.
const SPARE: Duration = Duration::from_secs(10);
/// Fewer steps than this say nothing.
const FEWEST: usize = 5;

/// Sizes of the run.
#[derive(Clone)]
struct Size {
    grid: (usize, usize),
    rows: usize,
    widths: Vec<usize>,
    /// Steps until every kernel is compiled and chosen.
    cold: usize,
    steps: usize,
}

fn write(folder: &Path, size: &Size) -> Result<OceanDataset> {
    let (ny, nx) = size.grid;
    SynthOptions::new(ny, nx)
        .with_levels(5)
        .with_rows(size.rows)
        .write(folder)?;
    let channels = |name| preset(name).with_context(|| format!("no preset {name}"));
    let options = DatasetOptions::new(channels("thermo_dynamic_5")?, channels("tau_hfds")?)
        .with_window(WindowOptions::default().with_history(1).with_steps(2));
    Ok(OceanDataset::open(&Om4Paths::in_dir(folder), &options)?)
}

/// A CPU takes a few steps of a small network: that everything runs.
fn size(bench: &Bench, on_cpu: bool) -> Size {
    let full = Size {
        grid: (180, 360),
        rows: 64,
        // Few shapes: each is a dozen kernels to compile and to choose among.
        widths: vec![48, 64],
        cold: 8,
        steps: 100,
    };
    match on_cpu {
        true => Size {
            grid: (16, 32),
            rows: 24,
            widths: vec![8, 12],
            cold: 1,
            steps: 6,
        },
        false => Size {
            steps: bench.pick(full.steps, 30, 30),
            ..full
        },
    }
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let on_cpu = is_cpu(&bench.device);
    if bench.cuda.is_none() && !on_cpu {
        return not_run("software Vulkan devices do not train");
    }
    let size = size(bench, on_cpu);
    let folder = tempfile::tempdir().context("a folder for a store")?;
    let dataset = write(folder.path(), &size)?;
    let prefetch = AHEAD.with_to(PrefetchTo::Auto);
    let batcher = OceanBatcher::new(dataset);
    let loader = loader(batcher, Order::Shuffled, BATCH, prefetch, &bench.device)?;
    let context = loader.batcher().dataset().context(0);
    let config = SamudraConfig::new(context.prognostic().len(), context.boundary().len())
        .with_history(1)
        .with_dilations((0..size.widths.len()).map(|level| 1 << level).collect())
        .with_widths(size.widths.clone());
    let grid = Grid::new(size.grid.0, size.grid.1);
    let network = config.init(&grid, 15, &bench.device.clone().autodiff())?;
    let mut trainer = Trainer::new(network, 1e-4, 10_000);

    // One pass after the other, as an epoch ends.
    let mut passing = loader.iter();
    let mut next = || loop {
        match passing.next() {
            Some(batch) => return batch,
            None => passing = loader.iter(),
        }
    };
    // Half of what is left when the first steps are done belongs to either measurement.
    let ends = bench.ends.checked_sub(SPARE).unwrap_or(bench.ends);
    let mut cold = Vec::with_capacity(size.cold);
    while cold.len() < size.cold && Instant::now() < ends {
        let started = Instant::now();
        trainer.step(&next()?)?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("      first step {}: {seconds:.2} s", cold.len() + 1);
        cold.push(seconds);
    }

    let same = next()?;
    let rest = ends.saturating_duration_since(Instant::now()) / 2;
    let until = Instant::now() + rest.min(Duration::from_secs_f64(SECONDS));
    let mut alone = Vec::with_capacity(size.steps);
    let alone_ends = |done: usize| match done < FEWEST {
        true => ends,
        false => until,
    };
    while alone.len() < size.steps && Instant::now() < alone_ends(alone.len()) {
        let started = Instant::now();
        trainer.step(&same)?;
        alone.push(started.elapsed().as_secs_f64());
    }
    drop(same);

    let before = loader.counters().wait;
    let mut with = Vec::with_capacity(alone.len());
    // As many, unless they take so much longer that time is over.
    while with.len() < alone.len() && Instant::now() < ends {
        let started = Instant::now();
        trainer.step(&next()?)?;
        with.push(started.elapsed().as_secs_f64());
    }
    let wait = loader.counters().wait;
    let waits = (wait.batches - before.batches).max(1) as f64;
    let exposed = (wait.seconds - before.seconds) / waits;
    judge(bench, &[cold, alone, with], exposed)
}

/// Of the first steps, those with one batch and those from the loader, seconds each; and the mean wait
/// between two batches.
fn judge(bench: &Bench, [cold, alone, with]: &[Vec<f64>; 3], exposed: f64) -> Result<Outcome> {
    let cold = Spread::of(cold);
    let (alone, with) = (Spread::of(alone), Spread::of(with));
    let finding = Finding::new(format!(
        "between two batches of a pass, training waits for less than {} % of a step",
        MOST * 100.0
    ))
    .spread("first steps", cold, "s")
    .spread("step, one batch again and again", alone.times(1e3), "ms")
    .spread("step, from the loader", with.times(1e3), "ms")
    .number("exposed wait", exposed * 1e3, "ms")
    .number("share of a step", exposed / with.median * 100.0, "%");
    if with.count < FEWEST {
        // Too little to judge by, and what there is.
        return Finding {
            rule: format!("time was over after {} steps", with.count),
            verdict: Verdict::Failed,
            ..finding
        }
        .found();
    }
    finding
        .must_on_cuda(bench, exposed < MOST * with.median)
        .found()
}
