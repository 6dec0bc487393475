//! The table, and the JSON.

use crate::check::{Answer, Number, Verdict};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// Everything that was found.
#[derive(Serialize)]
pub(crate) struct Report {
    pub device: String,
    pub crate_version: &'static str,
    pub optimised: bool,
    pub scale: String,
    pub seconds: f64,
    pub passed: usize,
    pub failed: usize,
    pub measured: usize,
    pub not_run: usize,
    pub checks: Vec<Answer>,
}

impl Report {
    pub(crate) fn new(device: &str, scale: &str) -> Self {
        Self {
            device: device.into(),
            crate_version: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            scale: scale.into(),
            seconds: 0.0,
            passed: 0,
            failed: 0,
            measured: 0,
            not_run: 0,
            checks: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, answer: Answer) {
        *match answer.verdict {
            Verdict::Passed => &mut self.passed,
            Verdict::Failed => &mut self.failed,
            Verdict::Measured => &mut self.measured,
            Verdict::NotRun => &mut self.not_run,
        } += 1;
        self.checks.push(answer);
    }

    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(path, json + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// Writes what there is by now; a file that cannot be written must not end the run.
    pub(crate) fn keep(&self, path: Option<&Path>) {
        if let Some(Err(error)) = path.map(|path| self.write(path)) {
            eprintln!("warning: {error:#}");
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!("\n{} ({})\n", self.device, self.scale);
        for answer in &self.checks {
            table += &format!(
                "\n{:<9} {:<13} {} [{:.1} s]\n",
                word(answer.verdict),
                answer.name,
                answer.asks,
                answer.seconds
            );
            let rule = match answer.verdict {
                Verdict::NotRun => "why: ",
                Verdict::Measured => "not judged on this device: ",
                _ => "rule: ",
            };
            table += &format!("{:24}{rule}{}\n", "", answer.because);
            for number in &answer.numbers {
                table += &format!("{:24}{:<38} {}\n", "", number.name, show(number));
            }
        }
        table += &format!(
            "\n{} passed, {} failed, {} measured without a verdict, {} not run, in {:.0} s\n",
            self.passed, self.failed, self.measured, self.not_run, self.seconds
        );
        table
    }
}

pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::Measured => "measured",
        Verdict::NotRun => "not run",
    }
}

/// Whole numbers as they are, others with four digits that say something.
fn show(number: &Number) -> String {
    let value = number.value;
    let text = if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:>14.0}")
    } else if value.abs() >= 1000.0 {
        format!("{value:>14.1}")
    } else if value.abs() >= 0.01 {
        format!("{value:>14.4}")
    } else {
        format!("{value:>14.3e}")
    };
    format!("{text} {}", number.unit).trim_end().into()
}
