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
//! `report` prints what came out. A check that panics fails, and the others still run; on CUDA, `apart`
//! gives each a process of its own, because an error of CUDA's stays with the process.

mod apart;
mod bench;
mod check;
mod checks;
mod cuda;
mod guard;
mod loaders;
mod options;
mod planes;
mod process;
mod report;
mod run;
mod spread;
#[cfg(test)]
mod tests;

use clap::Parser;
use std::process::ExitCode;

/// Warnings of CubeCL and of this crate, for whoever reads what an unattended run has left.
struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        about.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{} {}: {}", record.level(), record.target(), record.args());
        }
    }

    fn flush(&self) {}
}

fn main() -> ExitCode {
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    let options = options::Options::parse();
    match run::run(&options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
