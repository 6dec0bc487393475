//! The GPU check: answers, on a machine with an NVIDIA GPU, what cannot be seen without one.
//!
//! ```sh
//! cargo run --release --features cuda --example gpu_check -- --json gpu_check.json
//! # Where LLVM's bundle cannot be had: builds a bundle to be carried to the GPU (see the book).
//! bash examples/gpu_check/build.sh
//! # The checks themselves, on a software device:
//! cargo run --features vulkan --example gpu_check -- --device vulkan
//! ```
//!
//! `checks` has the questions, one file each; `planes` and `loaders` make what they are asked about;
//! `cuda` and `process` are what the driver and the operating system say; `run` goes through them, and
//! `report` prints what came out. A check that panics fails, and the others still run.

mod bench;
mod check;
mod checks;
mod cuda;
mod loaders;
#[allow(dead_code)]
#[path = "../samudra_train/optimiser.rs"]
mod optimiser;
mod options;
mod planes;
mod process;
mod report;
mod run;
#[allow(dead_code)]
#[path = "../samudra_train/train.rs"]
mod train;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = options::Options::parse();
    match run::run(&options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
