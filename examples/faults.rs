//! Passes over small stores with a fault in one call to the operating system, for every call and every
//! kind of fault. Prints the table of the book's chapter as Markdown.
//!
//! ```text
//! cargo run --example faults [-- --stride 1]
//! ```

use anyhow::{Result, ensure};
use clap::Parser;
use om4_test_support::faults::{Swept, expected, sweep};
use om4_test_support::soak::quiet_panics;

#[derive(Parser)]
struct Args {
    /// Try every n-th call.
    #[arg(long, default_value_t = 1)]
    stride: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    quiet_panics();
    let dir = tempfile::tempdir()?;
    println!("| store | fault | calls | what came of it |\n|---|---|---|---|");
    let print = |row: &Swept| {
        let outcomes = row.outcomes.iter().map(|(what, n)| format!("{n}: {what}"));
        let outcomes: Vec<_> = outcomes.collect();
        println!(
            "| {} | {} | {} | {} |",
            row.form,
            row.fault,
            row.calls,
            outcomes.join("; ")
        );
    };
    let table = sweep(dir.path(), args.stride, print);
    for row in &table {
        ensure!(expected(row), "not what the book says: {row:?}");
    }
    Ok(())
}
