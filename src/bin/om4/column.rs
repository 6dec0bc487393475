//! One way of reading, in a process of its own: what one way leaves behind in the allocator or in
//! the caches of its process must not help or hurt another.
//!
//! The bench starts this program once for every way, and lets them take turns: it writes a line, the
//! column does its work once and answers with the cost.

use crate::limit::Limit;
use crate::loaders::{Loaders, Passed};
use crate::memory::warm;
use crate::meter::{Cost, measure, peak_memory};
use crate::stores::{Case, NX, NY, SHARD};
use crate::zarrs_alone::Zarrs;
use anyhow::{Context, Result, bail, ensure};
use burn_om4::host::{HostLease, HostPlanes, HostPoolState};
use burn_om4::ocean::{PlaneRequest, PlaneSource, ReadCounts};
use burn_om4::store::{OpenOptions, Store, reader_threads};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The ways of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The bare C libraries.
    Limit,
    /// Our reader, raw planes.
    Reader,
    /// Plain zarrs.
    Zarrs,
    /// Our loader, to a batch on a CPU device.
    Whole,
    /// Burn's loader with our data set and batcher.
    Stock,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[arg(long)]
    kind: Kind,
    #[arg(long)]
    case: String,
    #[arg(long)]
    rows: usize,
    /// Folder of the case's store.
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    batches: usize,
    #[arg(long)]
    prefetch: usize,
    /// Whether a pass over consecutive windows comes first.
    #[arg(long)]
    sequential: bool,
}

/// What a column found while it warmed up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub threads: usize,
    /// Unique planes of a turn.
    pub planes: u64,
    /// Sum of the bits of all values that a turn reads: equal for all that read the same.
    pub sum: Option<u64>,
    pub chunks: Option<u64>,
    pub stored_bytes: Option<u64>,
    pub opening: Option<Cost>,
    pub first_batch: Option<Cost>,
    pub passed: Option<Passed>,
    pub sequential: Option<Sequential>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sequential {
    pub planes_of_the_pass: u64,
    pub planes_read: u64,
    pub unique_planes_of_its_batches: u64,
    pub cost: Cost,
}

/// The answer to a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub cost: Cost,
    /// Largest resident memory so far, bytes.
    pub peak_memory: u64,
    pub host_pool: Option<Pool>,
}

/// Of [`HostPoolState`], what a report shows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub peak_bytes: usize,
    pub allocations: u64,
}

impl From<HostPoolState> for Pool {
    fn from(state: HostPoolState) -> Self {
        Self {
            peak_bytes: state.peak_bytes,
            allocations: state.allocations,
        }
    }
}

/// Rows read at a time: some 160 MB, a whole number of shards.
pub(crate) const BLOCK: usize = 2 * SHARD;

/// The rows that a turn reads, a block at a time.
pub(crate) fn blocks(rows: usize) -> Vec<Range<usize>> {
    let block = |b: usize| b * BLOCK..(b + 1) * BLOCK;
    (0..rows / BLOCK).map(block).collect()
}

/// Sum of the bits of all values.
pub(crate) fn sum(memory: &[f32]) -> u64 {
    let bits = memory.iter().map(|v| u64::from(v.to_bits()));
    bits.fold(0, u64::wrapping_add)
}

/// Runs in the child: works whenever a line comes in, until there are no more.
pub(crate) fn run(options: &Options) -> Result<()> {
    let case = Case::parse(&options.case, options.rows)?;
    let (mut work, ready): (Box<dyn Work>, Ready) = match options.kind {
        Kind::Limit => planes(AsLimit::open(&case, &options.dir)?, &case)?,
        Kind::Zarrs => planes(AsZarrs::open(&case, &options.dir)?, &case)?,
        Kind::Reader => planes(AsReader::open(&case, &options.dir)?, &case)?,
        Kind::Whole => whole(options, &case)?,
        Kind::Stock => {
            let loaders = Loaders::open(&options.dir, options.batches, options.prefetch)?;
            let planes = loaders.unique_planes()?;
            loaders.stock_pass()?;
            let ready = Ready {
                planes,
                ..Ready::default()
            };
            (Box::new(AsStock(loaders)), ready)
        }
    };
    let ready = Ready {
        threads: reader_threads()?,
        ..ready
    };
    answer(&ready)?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let (done, cost) = measure(|| work.turn());
        done?;
        answer(&Turn {
            cost,
            peak_memory: peak_memory(),
            host_pool: work.host_pool(),
        })?;
    }
    Ok(())
}

fn answer(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(out.flush()?)
}

/// What a column does over and over.
trait Work {
    fn turn(&mut self) -> Result<()>;

    fn host_pool(&self) -> Option<Pool> {
        None
    }
}

/// What reads raw planes into warm memory.
trait ReadPlanes {
    /// All planes of a block of rows.
    fn read(&mut self, block: usize, memory: &mut [f32]) -> Result<()>;

    fn found(&self, ready: &mut Ready);
}

struct Planes<R> {
    reads: R,
    blocks: usize,
    memory: HostLease,
}

impl<R: ReadPlanes> Work for Planes<R> {
    fn turn(&mut self) -> Result<()> {
        (0..self.blocks).try_for_each(|b| self.reads.read(b, self.memory.as_mut_slice()))
    }
}

fn planes<R: ReadPlanes + 'static>(mut reads: R, case: &Case) -> Result<(Box<dyn Work>, Ready)> {
    let per_row: usize = case.arrays().iter().map(|(_, levels)| levels).sum();
    let blocks = blocks(case.rows).len();
    let mut memory = warm(BLOCK * per_row * NY * NX)?;
    let mut total = 0u64;
    // Sharded stores hold a shard's planes in another order; the sum does not mind.
    for block in 0..blocks {
        reads.read(block, memory.as_mut_slice())?;
        total = total.wrapping_add(sum(memory.as_mut_slice()));
    }
    let mut ready = Ready {
        planes: (blocks * BLOCK * per_row) as u64,
        sum: Some(total),
        ..Ready::default()
    };
    reads.found(&mut ready);
    let work = Planes {
        reads,
        blocks,
        memory,
    };
    Ok((Box::new(work), ready))
}

struct AsLimit {
    limit: Limit,
    case: Case,
    files: Vec<Vec<crate::stores::ChunkFile>>,
}

impl AsLimit {
    fn open(case: &Case, dir: &Path) -> Result<Self> {
        let blocks = blocks(case.rows);
        let files: Vec<_> = blocks.iter().map(|b| case.files(dir, b.clone())).collect();
        let longest = files.iter().flatten().map(|f| f.planes).max();
        Ok(Self {
            limit: Limit::new(reader_threads()?, longest.unwrap_or(0))?,
            case: *case,
            files,
        })
    }
}

impl ReadPlanes for AsLimit {
    fn read(&mut self, block: usize, memory: &mut [f32]) -> Result<()> {
        let memory = bytemuck::cast_slice_mut(memory);
        self.limit
            .read(&self.files[block], self.case.compression, memory)
    }

    fn found(&self, _: &mut Ready) {}
}

struct AsZarrs {
    zarrs: Zarrs,
    blocks: Vec<Range<usize>>,
    threads: usize,
}

impl AsZarrs {
    fn open(case: &Case, dir: &Path) -> Result<Self> {
        Ok(Self {
            zarrs: Zarrs::open(case, dir)?,
            blocks: blocks(case.rows),
            threads: reader_threads()?,
        })
    }
}

impl ReadPlanes for AsZarrs {
    fn read(&mut self, block: usize, memory: &mut [f32]) -> Result<()> {
        let memory = bytemuck::cast_slice_mut(memory);
        self.zarrs
            .read(self.blocks[block].clone(), memory, self.threads)
    }

    fn found(&self, _: &mut Ready) {}
}

struct AsReader {
    store: Store,
    opening: Cost,
    channels: Vec<usize>,
    blocks: Vec<Range<usize>>,
    /// Of every block in turn, as long as none has been read twice.
    counts: ReadCounts,
    counted: usize,
}

impl AsReader {
    fn open(case: &Case, dir: &Path) -> Result<Self> {
        let (store, opening) =
            measure(|| Store::open(dir.join("OM4.zarr"), &OpenOptions::default()));
        let store = store?;
        Ok(Self {
            channels: (0..store.channels().len()).collect(),
            store,
            opening,
            blocks: blocks(case.rows),
            counts: ReadCounts::default(),
            counted: 0,
        })
    }
}

impl ReadPlanes for AsReader {
    fn read(&mut self, block: usize, memory: &mut [f32]) -> Result<()> {
        let rows: Vec<usize> = self.blocks[block].clone().collect();
        let request = PlaneRequest {
            rows: &rows,
            channels: &self.channels,
        };
        let sink = HostPlanes::new(memory, NY * NX);
        let read = self.store.read(&request, &sink)?;
        if self.counted < self.blocks.len() {
            let planned = self.store.planned_chunks(&request)?;
            ensure!(
                read.chunks == planned,
                "{} chunks read, {planned} planned",
                read.chunks
            );
            self.counts.add(&read);
            self.counted += 1;
        }
        Ok(())
    }

    fn found(&self, ready: &mut Ready) {
        ready.chunks = Some(self.counts.chunks);
        ready.stored_bytes = Some(self.counts.stored_bytes);
        ready.opening = Some(self.opening);
    }
}

struct AsWhole(Loaders);

impl Work for AsWhole {
    fn turn(&mut self) -> Result<()> {
        self.0.pass().map(drop)
    }

    fn host_pool(&self) -> Option<Pool> {
        Some(self.0.ours.batcher().host_pool().into())
    }
}

fn whole(options: &Options, case: &Case) -> Result<(Box<dyn Work>, Ready)> {
    let loaders = Loaders::open(&options.dir, options.batches, options.prefetch)?;
    let (done, first_batch) = measure(|| loaders.first_batch());
    done?;
    let sequential = match options.sequential {
        true => {
            let (passed, cost) = measure(|| loaders.sequential_pass());
            let passed = passed?;
            let per_row: usize = case.arrays().iter().map(|(_, levels)| levels).sum();
            Some(Sequential {
                planes_of_the_pass: (case.rows * per_row) as u64,
                planes_read: passed.planes_read,
                unique_planes_of_its_batches: passed.unique_planes,
                cost,
            })
        }
        false => None,
    };
    let passed = settle(&loaders)?;
    let ready = Ready {
        planes: passed.unique_planes,
        first_batch: Some(first_batch),
        passed: Some(passed),
        sequential,
        ..Ready::default()
    };
    Ok((Box::new(AsWhole(loaders)), ready))
}

/// Makes passes until the pool has not grown for a while: how many batches are in memory at once
/// depends on who is quicker, so in short passes it takes some until all have been.
fn settle(loaders: &Loaders) -> Result<Passed> {
    let allocations = || loaders.ours.batcher().host_pool().allocations;
    let mut passed = loaders.pass()?;
    let (mut before, mut calm) = (allocations(), 0);
    for _ in 0..40 {
        passed = loaders.pass()?;
        calm = if allocations() == before { calm + 1 } else { 0 };
        before = allocations();
        if calm == 8 {
            break;
        }
    }
    Ok(passed)
}

struct AsStock(Loaders);

impl Work for AsStock {
    fn turn(&mut self) -> Result<()> {
        self.0.stock_pass()
    }
}

/// A column, seen from the bench.
pub(crate) struct Column {
    pub kind: Kind,
    pub ready: Ready,
    pub turns: Vec<Turn>,
    child: Child,
    to: Option<ChildStdin>,
    from: std::io::Lines<std::io::BufReader<ChildStdout>>,
}

/// Where a column reads, and how.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub case: &'a str,
    pub rows: usize,
    pub dir: &'a Path,
    pub batches: usize,
    pub prefetch: usize,
    pub sequential: bool,
    pub threads: usize,
}

impl Column {
    /// Starts a column and waits until it is warm.
    pub(crate) fn start(kind: Kind, place: &Place<'_>) -> Result<Self> {
        let name = kind.to_possible_value().context("a kind has a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["column", "--kind", name.get_name(), "--case", place.case])
            .args(["--rows", &place.rows.to_string()])
            .args(["--batches", &place.batches.to_string()])
            .args(["--prefetch", &place.prefetch.to_string()])
            .arg("--dir")
            .arg(place.dir)
            .env(burn_om4::store::READERS_VARIABLE, place.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if place.sequential {
            command.arg("--sequential");
        }
        let mut child = command.spawn().context("cannot start a column")?;
        let to = child.stdin.take();
        let from = child.stdout.take().context("a column without output")?;
        let mut column = Self {
            kind,
            ready: Ready::default(),
            turns: Vec::new(),
            child,
            to,
            from: std::io::BufReader::new(from).lines(),
        };
        column.ready = column.hear()?;
        Ok(column)
    }

    fn hear<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T> {
        match self.from.next() {
            Some(line) => Ok(serde_json::from_str(&line?)?),
            None => bail!(
                "the column {:?} has ended: {}",
                self.kind,
                self.child.wait()?
            ),
        }
    }

    /// One turn.
    pub(crate) fn turn(&mut self) -> Result<Turn> {
        let to = self.to.as_mut().context("the column has ended")?;
        to.write_all(b"\n")?;
        let turn: Turn = self.hear()?;
        self.turns.push(turn);
        Ok(turn)
    }
}

impl Drop for Column {
    fn drop(&mut self) {
        // The column ends with its input.
        self.to = None;
        let _ = self.child.wait();
    }
}
