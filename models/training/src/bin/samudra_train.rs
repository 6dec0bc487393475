//! Trains a Samudra ocean emulator, from a Zarr store to a scored forecast.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    samudra_training::command::main()
}
