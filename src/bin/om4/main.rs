//! What reading costs, measured and planned.
//!
//! ```sh
//! cargo run --release --features cli --bin om4 -- bench --data bench-stores --json bench.json
//! cargo run --release --features cli --bin om4 -- backends --cold
//! cargo run --release --features cli --bin om4 -- plan --data path/to/stores
//! ```

mod backends;
mod bench;
mod cases;
mod column;
mod limit;
mod loaders;
mod meter;
mod plan;
mod stores;
mod zarrs_alone;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "What reading costs, measured and planned")]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the reader and the loader against the codecs alone, on stores of its own.
    Bench(bench::Options),
    /// One way of reading, for the bench.
    #[command(hide = true)]
    Column(column::Options),
    /// Measures the ways of reading chunks against each other, on the same stores.
    Backends(backends::Options),
    /// Says what a configuration reads and holds, without reading it.
    Plan(plan::Options),
}

fn main() -> anyhow::Result<()> {
    match Options::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::Column(options) => column::run(&options),
        Command::Backends(options) => backends::run(&options),
        Command::Plan(options) => plan::run(&options),
    }
}
