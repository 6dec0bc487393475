//! Random lives of loaders, as many as are asked for: iterators begun, asked and dropped in any order,
//! over sources that fail or not, with a watchdog.
//!
//! ```text
//! cargo run --example soak -- --schedules 100000 [--first 0]
//! ```

use anyhow::Result;
use clap::Parser;
use om4_test_support::soak::{quiet_panics, soak};

#[derive(Parser)]
struct Args {
    /// How many.
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// The number of the first, which decides all that happens in it.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    quiet_panics();
    let started = std::time::Instant::now();
    let tally = soak(args.first, args.schedules);
    println!("{tally:?} in {:.0?}", started.elapsed());
    Ok(())
}
