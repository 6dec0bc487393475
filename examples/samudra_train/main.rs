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
//! `ocean` makes the small ocean; `data` opens stores and lays windows over them; `model` fits the
//! network to the grid; `train` takes steps and `score` compares with persistence; `learn` goes through
//! the epochs, with what `checkpoint` keeps and until `stop` says so, on the share that `ranks` names;
//! `run` is the whole in order; `report`, `maps` and `pictures` say what came out.

mod checkpoint;
mod data;
mod learn;
mod maps;
mod model;
mod ocean;
mod optimiser;
mod options;
mod pictures;
mod progress;
mod ranks;
mod report;
mod run;
mod score;
mod stop;
mod train;

use clap::Parser;
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let stop = stop::Stop::on_signals()?;
    let outcome = match run::run(&options::Options::parse(), &stop) {
        Ok(outcome) => outcome,
        Err(error) => match stop::exit_code(&error) {
            Some(code) => {
                eprintln!("{error:#}");
                return Ok(ExitCode::from(code));
            }
            None => return Err(error),
        },
    };
    let lost = outcome.report.lost();
    if lost.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let lost = lost.join(", ");
    eprintln!("persistence is at least as good at lead 1 for {lost}");
    // The small ocean can be learned: there it is a failure.
    Ok(if outcome.demo {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
