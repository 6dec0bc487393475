//! Trains a Samudra ocean emulator, from a Zarr store to a scored forecast.
//!
//! ```sh
//! # A small ocean of its own, a few minutes on a CPU:
//! cargo run --release --example samudra_train
//! # A store on disk:
//! cargo run --release --example samudra_train -- --data DIR \
//!     --prognostic thermo_dynamic_5 --boundary tau_hfds --steps 4 --model v2 --device cuda \
//!     --train-time 1975-01-01..2012-12-31 --val-time 2013-01-01..2014-12-31
//! # One of a chain of jobs, the first or a later one; SIGTERM and SIGUSR1 save and exit with 75:
//! cargo run --release --example samudra_train -- --data DIR --save-every 500 --resume
//! ```
//!
//! The program is the package `samudra-training`, in `models/training`.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    samudra_training::command::main()
}
