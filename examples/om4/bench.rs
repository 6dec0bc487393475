//! Measures everything on the same bytes in one run, turn by turn.
//!
//! Machines are busy and clocks change, so the numbers to look at are ratios: each round runs every
//! way of reading once, a ratio is taken inside a round, and the median over the rounds is reported.

use crate::limit::Limit;
use crate::loaders::{BATCH, Loaders, STEPS};
use crate::meter::{Cost, forget, measure, peak_memory};
use crate::stores::{Case, LEVELS, NX, NY, PLANE_BYTES, SHARD};
use crate::zarrs_alone::Zarrs;

use anyhow::{Context, Result, ensure};
use burn_om4::synth::SynthOptions;
use burn_om4::{
    HostPlanes, OpenOptions, PlaneRequest, PlaneSource, ReadCounts, Store, reader_threads,
};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const CASES: &str = "flat-none-v2,flat-blosc-v2,flat-zstd-v3,compact-none-v2,compact-blosc-v2,\
                     compact-zstd-v3,flat-zstd-sharded,compact-none-sharded";

#[derive(Args)]
pub struct Options {
    /// Folder of the bench's own stores; they are written when they are not there.
    #[arg(long, default_value = "target/bench-stores")]
    dir: PathBuf,
    /// Where to write the result.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Stores to measure: {flat,compact}-{none,blosc,zstd}-{v2,v3,sharded}.
    #[arg(long, value_delimiter = ',', default_value = CASES)]
    cases: Vec<String>,
    /// Rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Rows of the first store.
    #[arg(long, default_value_t = 44)]
    rows: usize,
    /// Rows of the other stores.
    #[arg(long, default_value_t = 20)]
    other_rows: usize,
    /// Batches in a pass of the loaders; 0 leaves them out.
    #[arg(long, default_value_t = 3)]
    batches: usize,
    /// Batches that our loader reads ahead.
    #[arg(long, default_value_t = 2)]
    prefetch: usize,
    /// Only the limit and our reader.
    #[arg(long)]
    reader_only: bool,
    /// Also make one pass over consecutive windows.
    #[arg(long)]
    sequential: bool,
    /// Also read with the page cache dropped.
    #[arg(long)]
    cold: bool,
}

/// One way of reading, over all rounds.
#[derive(Default)]
struct Way {
    costs: Vec<Cost>,
    /// Unique planes of each round.
    planes: u64,
}

impl Way {
    fn gigabytes(&self) -> f64 {
        self.planes as f64 * PLANE_BYTES as f64 / 1e9
    }

    fn cpu(&self) -> Vec<f64> {
        let of = |c: &Cost| c.cpu_seconds / self.gigabytes();
        self.costs.iter().map(of).collect()
    }

    fn wall(&self) -> Vec<f64> {
        let of = |c: &Cost| c.wall_seconds / self.gigabytes();
        self.costs.iter().map(of).collect()
    }

    fn report(&self) -> Value {
        let faults = self.costs.iter().map(|c| c.minor_faults as f64);
        let wall = median(self.wall());
        json!({
            "cpu_seconds_per_gb": median(self.cpu()),
            "wall_seconds_per_gb": wall,
            "planes_per_second": 1e9 / PLANE_BYTES as f64 / wall,
            "minor_faults_per_100_planes": median(faults.collect()) / self.planes as f64 * 100.0,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// Median over the rounds of the ratio inside a round.
fn ratio(a: &[f64], b: &[f64]) -> f64 {
    median(a.iter().zip(b).map(|(a, b)| a / b).collect())
}

pub fn run(options: &Options) -> Result<()> {
    let threads = reader_threads()?;
    let mut cases = Map::new();
    for (k, name) in options.cases.iter().enumerate() {
        let rows = if k == 0 {
            options.rows
        } else {
            options.other_rows
        };
        let case = Case::parse(name, rows)?;
        let dir = case.write(&options.dir, name)?;
        let result = measure_case(&case, &dir, threads, options);
        let result = result.with_context(|| name.clone())?;
        eprintln!("{name}: {}", result["ratios"]);
        cases.insert(name.clone(), result);
    }
    let result = json!({
        "threads": threads,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "rounds": options.rounds,
        "plane_bytes": PLANE_BYTES,
        "batch": BATCH, "history": 1, "steps": STEPS, "prefetch": options.prefetch,
        "open_99_variables": open_99(&options.dir, options.rounds)?,
        "peak_memory_bytes": peak_memory(),
        "cases": cases,
    });
    let text = serde_json::to_string_pretty(&result)?;
    match &options.json {
        Some(path) => std::fs::write(path, text)?,
        None => println!("{text}"),
    }
    Ok(())
}

/// Rows read at a time: some 160 MB, a whole number of shards.
const BLOCK: usize = 2 * SHARD;

fn measure_case(case: &Case, dir: &Path, threads: usize, options: &Options) -> Result<Value> {
    let (store, opening) = measure(|| Store::open(dir.join("OM4.zarr"), &OpenOptions::default()));
    let store = store?;
    let zarrs = Zarrs::open(case, dir)?;
    let channels: Vec<usize> = (0..store.channels().len()).collect();
    let per_row = channels.len();
    let blocks: Vec<std::ops::Range<usize>> = (0..case.rows / BLOCK)
        .map(|b| b * BLOCK..(b + 1) * BLOCK)
        .collect();
    let files: Vec<_> = blocks.iter().map(|b| case.files(dir, b.clone())).collect();
    let mut memory = vec![0f32; BLOCK * per_row * NY * NX];
    let planes = (blocks.len() * BLOCK * per_row) as u64;

    let longest = files.iter().flatten().map(|f| f.planes).max();
    let limit = Limit::new(threads, longest.unwrap_or(0));
    let read_limit = |memory: &mut [f32]| -> Result<()> {
        let memory = bytemuck::cast_slice_mut(memory);
        let mut each = files.iter();
        each.try_for_each(|f| limit.read(f, case.compression, memory))
    };
    let read_ours = |memory: &mut [f32]| -> Result<ReadCounts> {
        let mut counts = ReadCounts::default();
        for block in &blocks {
            let rows: Vec<usize> = block.clone().collect();
            let request = PlaneRequest {
                rows: &rows,
                channels: &channels,
            };
            let planned = store.planned_chunks(&request)?;
            let read = store.read(&request, &HostPlanes::new(memory, NY * NX))?;
            ensure!(
                read.chunks == planned,
                "{} of {planned} chunks",
                read.chunks
            );
            counts.add(&read);
        }
        Ok(counts)
    };
    let read_zarrs = |memory: &mut [f32]| -> Result<()> {
        let memory = bytemuck::cast_slice_mut(memory);
        let mut each = blocks.iter();
        each.try_for_each(|b| zarrs.read(b.clone(), memory, threads))
    };
    // Warm up, and see that all three read the same.
    let counts = read_ours(&mut memory)?;
    let sum = sum(&memory);
    read_zarrs(&mut memory)?;
    // Sharded stores hold a shard's planes in another order; the sum does not mind.
    ensure!(sum == self::sum(&memory), "plain zarrs reads other values");
    read_limit(&mut memory)?;
    ensure!(sum == self::sum(&memory), "the limit reads other values");

    let loaders = match options.batches {
        0 => None,
        _ if options.reader_only => None,
        n => Some(Loaders::open(dir, n, options.prefetch)?),
    };
    let mut first_batch = None;
    let mut passed = None;
    if let Some(loaders) = &loaders {
        let (done, cost) = measure(|| loaders.first_batch());
        done?;
        first_batch = Some(cost);
        // Buffers settle in the first passes.
        for _ in 0..3 {
            passed = Some(loaders.pass()?);
        }
        loaders.stock_pass()?;
    }
    let (mut limits, mut reader, mut alone, mut whole, mut stock) =
        <(Way, Way, Way, Way, Way)>::default();
    for way in [&mut limits, &mut reader, &mut alone] {
        way.planes = planes;
    }
    let unique = passed.map_or(0, |p| p.unique_planes);
    (whole.planes, stock.planes) = (unique, unique);
    for _ in 0..options.rounds {
        let turn = |way: &mut Way, work: &mut dyn FnMut() -> Result<()>| {
            let (done, cost) = measure(work);
            way.costs.push(cost);
            done
        };
        turn(&mut limits, &mut || read_limit(&mut memory))?;
        turn(&mut reader, &mut || read_ours(&mut memory).map(drop))?;
        if options.reader_only {
            continue;
        }
        turn(&mut alone, &mut || read_zarrs(&mut memory))?;
        if let Some(loaders) = &loaders {
            turn(&mut whole, &mut || loaders.pass().map(drop))?;
            turn(&mut stock, &mut || loaders.stock_pass())?;
        }
    }
    let cold = match options.cold {
        true => Some(measure_cold(&files, &mut memory, &read_limit, &read_ours)?),
        false => None,
    };
    let sequential = match &loaders {
        Some(loaders) if options.sequential => {
            let (passed, cost) = measure(|| loaders.sequential_pass());
            let passed = passed?;
            Some(json!({
                "planes_of_the_pass": case.rows * per_row,
                "planes_read": passed.planes_read,
                "unique_planes_of_its_batches": passed.unique_planes,
                "cost": cost,
            }))
        }
        _ => None,
    };
    let allocations = loaders.as_ref().map(|l| l.ours.batcher().host_pool());
    Ok(json!({
        "case": case,
        "planes": planes,
        "chunks": counts.chunks,
        "stored_bytes": counts.stored_bytes,
        "stored_over_decoded": counts.stored_bytes as f64 / (planes as f64 * PLANE_BYTES as f64),
        "opening": opening,
        "first_batch": first_batch,
        "whole_shown_over_unique": passed.map(|p| p.shown_planes as f64 / p.unique_planes as f64),
        "whole_minor_faults_per_batch": passed.map(|p| {
            median(whole.costs.iter().map(|c| c.minor_faults as f64 / p.batches as f64).collect())
        }),
        "host_pool": allocations,
        "limit": limits.report(),
        "reader": reader.report(),
        "zarrs": alone.report(),
        "whole": whole.report(),
        "stock": stock.report(),
        "cold": cold,
        "sequential": sequential,
        "ratios": {
            "reader_over_limit": ratio(&reader.cpu(), &limits.cpu()),
            "reader_over_limit_wall": ratio(&reader.wall(), &limits.wall()),
            "reader_over_zarrs": ratio(&reader.cpu(), &alone.cpu()),
            "whole_over_limit": ratio(&whole.cpu(), &limits.cpu()),
            "stock_over_limit": ratio(&stock.cpu(), &limits.cpu()),
        },
    }))
}

fn sum(memory: &[f32]) -> u64 {
    let bits = memory.iter().map(|v| u64::from(v.to_bits()));
    bits.fold(0, u64::wrapping_add)
}

#[derive(Serialize)]
struct Cold {
    limit: Cost,
    reader: Cost,
}

type ReadLimit<'a> = dyn Fn(&mut [f32]) -> Result<()> + 'a;
type ReadOurs<'a> = dyn Fn(&mut [f32]) -> Result<ReadCounts> + 'a;

fn measure_cold(
    files: &[Vec<crate::stores::ChunkFile>],
    memory: &mut [f32],
    limit: &ReadLimit<'_>,
    ours: &ReadOurs<'_>,
) -> Result<Cold> {
    let forget_all = || {
        let paths = files.iter().flatten().map(|f| &f.path);
        ensure!(
            paths.clone().all(|p| forget(p)),
            "the page cache cannot be dropped here"
        );
        Ok(())
    };
    forget_all()?;
    let (done, limit) = measure(|| limit(memory));
    done?;
    forget_all()?;
    let (done, reader) = measure(|| ours(memory));
    done?;
    Ok(Cold { limit, reader })
}

/// Opens a store of 99 variables, as the published one has.
fn open_99(dir: &Path, rounds: usize) -> Result<Value> {
    let dir = dir.join("open-99");
    if !dir.join("OM4.zarr").is_dir() {
        let surface = ["zos", "hfds", "tauuo", "tauvo"];
        SynthOptions::new(NY, NX)
            .with_levels(LEVELS)
            .with_rows(1)
            .with_variables(&["thetao", "so", "uo", "vo", "wo"], &surface)
            .write(&dir)?;
    }
    let mut costs = Vec::new();
    for _ in 0..rounds.max(3) {
        let (store, cost) = measure(|| Store::open(dir.join("OM4.zarr"), &OpenOptions::default()));
        ensure!(store?.channels().len() == 99, "99 channels");
        costs.push(cost);
    }
    let of = |f: &dyn Fn(&Cost) -> f64| median(costs.iter().map(f).collect());
    Ok(json!({
        "wall_seconds": of(&|c| c.wall_seconds),
        "cpu_seconds": of(&|c| c.cpu_seconds),
    }))
}
