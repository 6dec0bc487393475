//! The program `samudra_train`: command line in, exit code out.

use crate::options::Options;
use crate::output::note;
use crate::run::run;
use crate::signals::{Stop, exit_code};
use clap::Parser;
use std::process::ExitCode;

/// Trains as the command line says.
///
/// The exit code is 0 when all went well, 75 when a signal stopped the run and it was saved, and 1 when
/// the small ocean, which can be learned, was not: when persistence is as good for one of its channels.
///
/// # Errors
/// Whatever cannot be opened, read, trained or written.
pub fn main() -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let outcome = match run(&Options::parse(), &stop) {
        Ok(outcome) => outcome,
        Err(error) => match exit_code(&error) {
            Some(code) => {
                note(&format!("{error:#}"));
                return Ok(ExitCode::from(code));
            }
            None => return Err(error),
        },
    };
    let unskilled = outcome.report.unskilled();
    if unskilled.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let unskilled = unskilled.join(", ");
    note(&format!(
        "persistence is at least as good at lead 1 for {unskilled}"
    ));
    // The small ocean can be learned: there it is a failure.
    Ok(if outcome.demo {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
