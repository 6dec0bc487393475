//! Stores looked at, checked and measured: `om4 --help`.
//!
//! Every command prints what it found for people, or as JSON with `--json`; warnings go to standard error.
//! It exits with 0 where all is well, with 1 where a store has findings, with 2 where it could not do what
//! it was asked for.
//!
//! ```sh
//! cargo run --release --features cli --bin om4 -- inspect path/to/store
//! cargo run --release --features cli --bin om4 -- doctor path/to/store --full
//! cargo run --release --features cli --bin om4 -- stats path/to/store --time 1975-01-01..2012-12-31
//! cargo run --release --features cli --bin om4 -- dump path/to/store --channels thetao_0,zos --out dumped
//! cargo run --release --features cli --bin om4 -- plan --data path/to/stores
//! cargo run --release --features cli --bin om4 -- bench --data bench-stores --json bench.json
//! cargo run --release --features cli --bin om4 -- backends --cold
//! ```

mod backends;
mod bench;
mod cases;
mod column;
mod doctor;
mod dump;
mod inspect;
mod limit;
mod loaders;
mod memory;
mod meter;
mod output;
mod plan;
mod rows;
mod stats;
mod stores;
mod synth;
mod which;
mod zarrs_alone;

use clap::{Parser, Subcommand};
use output::Verdict;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "OM4 stores looked at, checked and measured", version)]
#[command(
    after_help = "Exit codes: 0 all is well, 1 the store has findings, 2 it could not be done."
)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says what a store is.
    Inspect(inspect::Options),
    /// Looks for everything that can be wrong with a store.
    Doctor(doctor::Options),
    /// Computes means and standard deviations, and writes them beside the store.
    Stats(stats::Options),
    /// Writes what a reader delivers, before anything is normalised or masked, as NumPy files.
    Dump(dump::Options),
    /// Writes a synthetic store, with its statistics.
    Synth(synth::Options),
    /// Says what a configuration reads and holds, without reading it.
    Plan(plan::Options),
    /// Measures the reader and the loader against the codecs alone, on stores of its own.
    Bench(bench::Options),
    /// One way of reading, for the bench.
    #[command(hide = true)]
    Column(column::Options),
    /// Measures the ways of reading chunks against each other, on the same stores.
    Backends(backends::Options),
}

impl Command {
    fn run(&self) -> anyhow::Result<Verdict> {
        match self {
            Self::Inspect(options) => inspect::run(options),
            Self::Doctor(options) => doctor::run(options),
            Self::Stats(options) => stats::run(options),
            Self::Dump(options) => dump::run(options),
            Self::Synth(options) => synth::run(options),
            Self::Plan(options) => plan::run(options),
            Self::Bench(options) => bench::run(options).map(|()| Verdict::Clean),
            Self::Column(options) => column::run(options).map(|()| Verdict::Clean),
            Self::Backends(options) => backends::run(options).map(|()| Verdict::Clean),
        }
    }

    /// Whether the result, and a failure too, is wanted as JSON.
    fn json(&self) -> bool {
        match self {
            Self::Inspect(options) => options.json,
            Self::Doctor(options) => options.json,
            Self::Stats(options) => options.json,
            Self::Dump(options) => options.json,
            Self::Synth(options) => options.json,
            Self::Plan(options) => options.json,
            Self::Bench(_) | Self::Column(_) | Self::Backends(_) => false,
        }
    }
}

fn main() -> ExitCode {
    let command = Options::parse().command;
    match command.run() {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Findings) => ExitCode::from(1),
        Err(e) => {
            output::failure(&e, command.json());
            ExitCode::from(2)
        }
    }
}
