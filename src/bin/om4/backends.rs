//! Measures the ways of reading chunks against the default, with warm and with cold caches, and with
//! several numbers of reader threads.
//!
//! A process has one reader pool, so each number of threads is a child process; a round runs every
//! child once, and a child every method once. Ratios are taken inside a round.

use crate::bench::{forget_all, median};
use crate::cases::Cases;
use crate::column::{BLOCK, blocks, sum};
use crate::meter::{Cost, measure};
use crate::output;
use crate::stores::{Case, NX, NY, PLANE_BYTES};

use anyhow::{Context, Result, bail, ensure};
use burn_om4::host::HostPlanes;
use burn_om4::ocean::{PlaneRequest, PlaneSource};
use burn_om4::store::{OpenOptions, READERS_VARIABLE, Store};
use burn_om4::{Channel, ReadMethod};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;

const CASES: &str = "flat-none-v2,flat-blosc-v2,flat-zstd-v3,compact-none-v2,compact-zstd-v3,\
                     compact-none-sharded";

#[derive(Args)]
#[command(mut_arg("cases", |arg| arg.default_value(CASES)))]
pub(crate) struct Options {
    #[command(flatten)]
    measured: Cases,
    /// Ways of reading; the first is what the others are compared with.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "pread,mmap,direct,io_uring"
    )]
    io: Vec<ReadMethod>,
    /// Numbers of reader threads; 0 is one per core.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    threads: Vec<usize>,
    /// Rows of the stores: a multiple of 8.
    #[arg(long, default_value_t = 16)]
    rows: usize,
    /// Read two levels of each variable only: parts of the chunks of compact and sharded stores.
    #[arg(long)]
    parts: bool,
    /// Also with the page cache dropped before each read.
    #[arg(long)]
    cold: bool,
    /// One round of one case in this process.
    #[arg(long, hide = true)]
    child: bool,
}

/// Repetitions of a warm read within a round: a read takes a fraction of a second.
const WARM: usize = 3;

#[derive(Serialize, Deserialize)]
struct Round {
    planes: u64,
    chunks: u64,
    /// Of each method that is allowed here.
    warm: BTreeMap<String, Cost>,
    cold: BTreeMap<String, Cost>,
}

#[derive(Serialize)]
struct Row {
    case: String,
    cache: &'static str,
    threads: usize,
    io: String,
    cpu_seconds_per_gb: f64,
    wall_seconds_per_gb: f64,
    /// Over the first method, same threads.
    cpu_ratio: f64,
    wall_ratio: f64,
    /// Over the same method with the first number of threads.
    wall_over_first_threads: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.child {
        let [name] = &options.measured.cases[..] else {
            bail!("a child measures one case");
        };
        println!("{}", serde_json::to_string(&one_round(name, options)?)?);
        return Ok(());
    }
    let mut rows = Vec::new();
    for name in &options.measured.cases {
        Case::parse(name, options.rows)?.write(&options.measured.data, name)?;
        let mut rounds: BTreeMap<usize, Vec<Round>> = BTreeMap::new();
        for _ in 0..options.measured.rounds {
            for &threads in &options.threads {
                let round = child(name, threads, options)?;
                rounds.entry(threads).or_default().push(round);
            }
        }
        let added = summary(name, &rounds, options);
        for row in &added {
            output::say(&format!(
                "{} {} {} threads {}: cpu {:.3} wall {:.3} s/GB; ratios cpu {:.2} wall {:.2}; \
                 wall over first threads {:.2}",
                row.case,
                row.cache,
                row.threads,
                row.io,
                row.cpu_seconds_per_gb,
                row.wall_seconds_per_gb,
                row.cpu_ratio,
                row.wall_ratio,
                row.wall_over_first_threads,
            ));
        }
        rows.extend(added);
    }
    options.measured.report(&rows)
}

fn child(name: &str, threads: usize, options: &Options) -> Result<Round> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["backends", "--child", "--cases", name, "--rows"]);
    child.arg(options.rows.to_string());
    child.arg("--data").arg(&options.measured.data);
    let io: Vec<_> = options.io.iter().map(|io| io.name()).collect();
    child.args(["--io", &io.join(",")]);
    if options.parts {
        child.arg("--parts");
    }
    if options.cold {
        child.arg("--cold");
    }
    if threads > 0 {
        child.env(READERS_VARIABLE, threads.to_string());
    }
    let output = child.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "a child failed: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what a child printed")
}

/// Opens the store once per method, and measures them in turn.
fn one_round(name: &str, options: &Options) -> Result<Round> {
    let case = Case::parse(name, options.rows)?;
    let dir = case.write(&options.measured.data, name)?;
    let mut stores = Vec::new();
    for &io in &options.io {
        match Store::open(dir.join("OM4.zarr"), &OpenOptions::default().with_io(io)) {
            Ok(store) => stores.push((io, store)),
            Err(e) => output::say(&format!("left out: {e}")),
        }
    }
    let (_, first) = stores.first().context("no way of reading is allowed")?;
    let wanted = |c: &Channel| !options.parts || matches!(c.level(), None | Some(3 | 4));
    let channels: Vec<usize> = (0..first.channels().len())
        .filter(|&at| wanted(&first.channels()[at]))
        .collect();
    let files: Vec<_> = blocks(case.rows)
        .into_iter()
        .flat_map(|b| case.files(&dir, b))
        .collect();
    let mut memory = crate::memory::warm(BLOCK * channels.len() * NY * NX)?;
    let memory = memory.as_mut_slice();
    let mut round = Round {
        planes: (case.rows / BLOCK * BLOCK * channels.len()) as u64,
        chunks: 0,
        warm: BTreeMap::new(),
        cold: BTreeMap::new(),
    };
    // Warm the cache, and see that all read the same.
    let mut sums = Vec::new();
    for (_, store) in &stores {
        let mut total = 0u64;
        let mut add = |block: &[f32]| total = total.wrapping_add(sum(block));
        round.chunks = read(&case, store, &channels, memory, &mut add)?;
        sums.push(total);
    }
    ensure!(sums.iter().all(|s| *s == sums[0]), "other values");
    for (io, store) in &stores {
        if *io == ReadMethod::Direct {
            // What it reads is not in the cache because of it, and must not be left there either.
            read(&case, store, &channels, memory, &mut |_| ())?;
        }
        let (done, mut cost) = measure(|| -> Result<()> {
            for _ in 0..WARM {
                read(&case, store, &channels, memory, &mut |_| ())?;
            }
            Ok(())
        });
        done?;
        cost.cpu_seconds /= WARM as f64;
        cost.wall_seconds /= WARM as f64;
        round.warm.insert(io.to_string(), cost);
    }
    if options.cold {
        for (io, store) in &stores {
            forget_all(&files)?;
            let (done, cost) = measure(|| read(&case, store, &channels, memory, &mut |_| ()));
            done?;
            round.cold.insert(io.to_string(), cost);
        }
    }
    Ok(round)
}

/// Reads all blocks, shows each to `seen`, and returns the number of chunks, which is the planned one.
fn read(
    case: &Case,
    store: &Store,
    channels: &[usize],
    memory: &mut [f32],
    seen: &mut dyn FnMut(&[f32]),
) -> Result<u64> {
    let mut chunks = 0;
    for block in blocks(case.rows) {
        let rows: Vec<usize> = block.collect();
        let request = PlaneRequest {
            rows: &rows,
            channels,
        };
        let counts = store.read(&request, &HostPlanes::new(memory, NY * NX))?;
        let planned = store.planned_chunks(&request)?;
        ensure!(counts.chunks == planned, "{} of {planned}", counts.chunks);
        chunks += planned;
        seen(memory);
    }
    Ok(chunks)
}

fn summary(name: &str, rounds: &BTreeMap<usize, Vec<Round>>, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    type Costs = fn(&Round) -> &BTreeMap<String, Cost>;
    let caches: [(&'static str, Costs); 2] = [("warm", |r| &r.warm), ("cold", |r| &r.cold)];
    let first_io = options.io[0].name();
    for (cache, of) in caches {
        for (&threads, these) in rounds {
            for io in options.io.iter().map(|io| io.name()) {
                let measured = |r: &Round| [io, first_io].iter().all(|io| of(r).contains_key(*io));
                if !these.iter().all(measured) {
                    continue;
                }
                let gigabytes = these[0].planes as f64 * PLANE_BYTES as f64 / 1e9;
                let cost = |round: &Round, io: &str| of(round)[io];
                let each = |f: &dyn Fn(&Round) -> f64| median(these.iter().map(f).collect());
                let others = &rounds[&options.threads[0]];
                let over_first = these
                    .iter()
                    .zip(others)
                    .map(|(a, b)| cost(a, io).wall_seconds / cost(b, io).wall_seconds);
                rows.push(Row {
                    case: format!("{name}{}", if options.parts { " parts" } else { "" }),
                    cache,
                    threads,
                    io: io.to_owned(),
                    cpu_seconds_per_gb: each(&|r| cost(r, io).cpu_seconds) / gigabytes,
                    wall_seconds_per_gb: each(&|r| cost(r, io).wall_seconds) / gigabytes,
                    cpu_ratio: each(&|r| cost(r, io).cpu_seconds / cost(r, first_io).cpu_seconds),
                    wall_ratio: each(&|r| {
                        cost(r, io).wall_seconds / cost(r, first_io).wall_seconds
                    }),
                    wall_over_first_threads: median(over_first.collect()),
                });
            }
        }
    }
    rows
}
