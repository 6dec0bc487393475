//! Measures everything on the same bytes in one run, turn by turn, each way in a process of its own.
//!
//! Machines are busy and clocks change, so the numbers to look at are ratios: each round runs every
//! way of reading once, a ratio is taken inside a round, and the median over the rounds is reported.

use crate::cases::Cases;
use crate::column::{Column, Kind, Place, blocks};
use crate::loaders::{BATCH, STEPS};
use crate::meter::{Cost, forget, measure};
use crate::output;
use crate::stores::{Case, ChunkFile, LEVELS, NX, NY, PLANE_BYTES};
use anyhow::{Context, Result, ensure};
use burn_om4::store::{OpenOptions, Store, reader_threads};
use burn_om4::synth::SynthOptions;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::Path;

const CASES: &str = "flat-none-v2,flat-blosc-v2,flat-zstd-v3,compact-none-v2,compact-blosc-v2,\
                     compact-zstd-v3,flat-zstd-sharded,compact-none-sharded";

#[derive(Args)]
#[command(mut_arg("cases", |arg| arg.default_value(CASES)))]
pub(crate) struct Options {
    #[command(flatten)]
    measured: Cases,
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
    /// Also read with the page cache dropped, as many rounds.
    #[arg(long)]
    cold: bool,
    /// Numbers of reader threads to compare on the first store, beside the usual one.
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
}

fn gigabytes(column: &Column) -> f64 {
    column.ready.planes as f64 * PLANE_BYTES as f64 / 1e9
}

fn per_gigabyte(column: &Column, costs: &[Cost], of: fn(&Cost) -> f64) -> Vec<f64> {
    costs.iter().map(|c| of(c) / gigabytes(column)).collect()
}

fn costs(column: &Column) -> Vec<Cost> {
    column.turns.iter().map(|t| t.cost).collect()
}

fn cpu(column: &Column) -> Vec<f64> {
    per_gigabyte(column, &costs(column), |c| c.cpu_seconds)
}

fn wall(column: &Column) -> Vec<f64> {
    per_gigabyte(column, &costs(column), |c| c.wall_seconds)
}

fn report(column: &Column, chunks: u64) -> Value {
    let planes = column.ready.planes as f64;
    let each = |of: fn(&Cost) -> f64| median(costs(column).iter().map(of).collect());
    let wall = median(wall(column));
    let last = column.turns.last();
    json!({
        "threads": column.ready.threads,
        "cpu_seconds_per_gb": median(cpu(column)),
        "wall_seconds_per_gb": wall,
        "planes_per_second": 1e9 / PLANE_BYTES as f64 / wall,
        "minor_faults_per_100_planes": each(|c| c.minor_faults as f64) / planes * 100.0,
        "minor_faults_per_batch": column.ready.passed
            .map(|p| each(|c| c.minor_faults as f64) / p.batches as f64),
        "reads_per_chunk": (column.kind != Kind::Whole && column.kind != Kind::Stock)
            .then(|| each(|c| c.reads as f64) / chunks as f64),
        "peak_memory_bytes": last.map(|t| t.peak_memory),
        "host_pool": last.and_then(|t| t.host_pool),
    })
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
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

pub(crate) fn run(options: &Options) -> Result<()> {
    let threads = reader_threads()?;
    let mut cases = Map::new();
    let mut sweep = Value::Null;
    for (k, name) in options.measured.cases.iter().enumerate() {
        let rows = if k == 0 {
            options.rows
        } else {
            options.other_rows
        };
        let case = Case::parse(name, rows)?;
        let dir = case.write(&options.measured.data, name)?;
        let place = Place {
            case: name,
            rows,
            dir: &dir,
            batches: options.batches,
            prefetch: options.prefetch,
            sequential: options.sequential,
            threads,
        };
        let result = measure_case(&case, &place, options);
        let result = result.with_context(|| name.clone())?;
        output::say(&format!("{name}: {}", result["ratios"]));
        cases.insert(name.clone(), result);
        if k == 0 && !options.threads.is_empty() {
            sweep = measure_threads(&place, options)?;
            output::say(&format!("{name}: {sweep}"));
        }
    }
    let result = json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "rounds": options.measured.rounds,
        "plane_bytes": PLANE_BYTES,
        "batch": BATCH, "history": 1, "steps": STEPS, "prefetch": options.prefetch,
        "open_99_variables": open_99(&options.measured.data, options.measured.rounds)?,
        "cases": cases,
        "threads": sweep,
    });
    options.measured.report(&result)
}

fn measure_case(case: &Case, place: &Place<'_>, options: &Options) -> Result<Value> {
    let mut kinds = vec![Kind::Limit, Kind::Reader];
    if !options.reader_only {
        kinds.push(Kind::Zarrs);
        if options.batches > 0 {
            kinds.extend([Kind::Whole, Kind::Stock]);
        }
    }
    let start = |kind: &Kind| Column::start(*kind, place);
    let mut columns: Vec<Column> = kinds.iter().map(start).collect::<Result<_>>()?;
    for _ in 0..options.measured.rounds {
        for column in &mut columns {
            column.turn()?;
        }
    }
    let sums: Vec<u64> = columns.iter().filter_map(|c| c.ready.sum).collect();
    ensure!(
        sums.windows(2).all(|pair| pair[0] == pair[1]),
        "the ways of reading find different values: {sums:?}"
    );
    let find = |kind: Kind| columns.iter().find(|c| c.kind == kind);
    let (limit, reader) = (find(Kind::Limit), find(Kind::Reader));
    let (limit, reader) = limit.zip(reader).context("the first two columns")?;
    let chunks = reader.ready.chunks.unwrap_or(0);
    let stored = reader.ready.stored_bytes.unwrap_or(0);
    let whole = find(Kind::Whole);
    let over = |kind: Kind, of: fn(&Column) -> Vec<f64>| {
        find(kind).map(|column| ratio(&of(column), &of(limit)))
    };
    let ratios = json!({
        "reader_over_limit": ratio(&cpu(reader), &cpu(limit)),
        "reader_over_limit_wall": ratio(&wall(reader), &wall(limit)),
        "reader_over_zarrs": find(Kind::Zarrs).map(|c| ratio(&cpu(reader), &cpu(c))),
        "whole_over_limit": over(Kind::Whole, cpu),
        "whole_over_limit_wall": over(Kind::Whole, wall),
        "stock_over_limit": over(Kind::Stock, cpu),
        "whole_over_stock": whole.zip(find(Kind::Stock)).map(|(a, b)| ratio(&cpu(a), &cpu(b))),
    });
    let mut result = Map::new();
    for (name, value) in [
        ("case", json!(case)),
        ("planes", json!(reader.ready.planes)),
        ("chunks", json!(chunks)),
        ("stored_bytes", json!(stored)),
        (
            "stored_over_decoded",
            json!(stored as f64 / 1e9 / gigabytes(reader)),
        ),
        ("opening", json!(reader.ready.opening)),
        (
            "first_batch",
            json!(whole.and_then(|c| c.ready.first_batch)),
        ),
        ("sequential", json!(whole.and_then(|c| c.ready.sequential))),
        ("ratios", ratios),
    ] {
        result.insert(name.to_owned(), value);
    }
    for column in &columns {
        let name = serde_json::to_value(column.kind)?;
        let name = name.as_str().context("a kind's name")?.to_owned();
        result.insert(name, report(column, chunks));
    }
    if options.cold {
        result.insert(
            "cold".to_owned(),
            measure_cold(case, place, options, &mut columns)?,
        );
    }
    Ok(result.into())
}

/// Drops files from the page cache.
pub(crate) fn forget_all(files: &[ChunkFile]) -> Result<()> {
    ensure!(
        files.iter().all(|f| forget(&f.path)),
        "the page cache cannot be dropped here"
    );
    Ok(())
}

/// The limit and our reader with the page cache dropped before each of their turns.
fn measure_cold(
    case: &Case,
    place: &Place<'_>,
    options: &Options,
    columns: &mut [Column],
) -> Result<Value> {
    let read =
        blocks(case.rows).len() * blocks(case.rows).first().map_or(0, ExactSizeIterator::len);
    let files = case.files(place.dir, 0..read);
    let mut found: Vec<Vec<Cost>> = vec![Vec::new(); 2];
    for _ in 0..options.measured.rounds {
        for (column, costs) in columns.iter_mut().zip(&mut found) {
            forget_all(&files)?;
            costs.push(column.turn()?.cost);
        }
    }
    let each = |k: usize, of: fn(&Cost) -> f64| per_gigabyte(&columns[k], &found[k], of);
    let of = |k: usize| {
        json!({
            "cpu_seconds_per_gb": median(each(k, |c| c.cpu_seconds)),
            "wall_seconds_per_gb": median(each(k, |c| c.wall_seconds)),
        })
    };
    Ok(json!({
        "limit": of(0),
        "reader": of(1),
        "reader_over_limit": ratio(&each(1, |c| c.cpu_seconds), &each(0, |c| c.cpu_seconds)),
        "reader_over_limit_wall": ratio(&each(1, |c| c.wall_seconds), &each(0, |c| c.wall_seconds)),
    }))
}

/// Our reader with other numbers of threads, in turns.
fn measure_threads(place: &Place<'_>, options: &Options) -> Result<Value> {
    let start = |&threads: &usize| Column::start(Kind::Reader, &Place { threads, ..*place });
    let mut columns: Vec<Column> = options.threads.iter().map(start).collect::<Result<_>>()?;
    for _ in 0..options.measured.rounds {
        for column in &mut columns {
            column.turn()?;
        }
    }
    let rate = |column: &Column| 1.0 / median(wall(column));
    let best = columns.iter().map(rate).fold(0.0, f64::max);
    let of = |column: &Column| {
        json!({
            "threads": column.ready.threads,
            "gigabytes_per_second": rate(column),
            "of_the_best": rate(column) / best,
            "cpu_seconds_per_gb": median(cpu(column)),
        })
    };
    Ok(columns.iter().map(of).collect())
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
