//! What a check is, and what it says.

use crate::bench::Bench;
use anyhow::Result;
use serde::Serialize;

/// A question, and the code that answers it on a device.
#[derive(Clone, Copy)]
pub struct Check {
    pub name: &'static str,
    pub asks: &'static str,
    pub run: fn(&Bench) -> Result<Outcome>,
}

/// How a check went.
pub enum Outcome {
    Found(Finding),
    /// It could not be asked here, and why. Never counted as passed.
    NotRun(String),
}

/// What was measured, and whether it will do.
#[derive(Debug)]
pub struct Finding {
    /// What has to hold, with the reason for the threshold.
    pub rule: String,
    pub numbers: Vec<Number>,
    pub verdict: Verdict,
}

/// A measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Failed,
    /// The rule is about other devices than this one: a number without a judgement.
    Measured,
    NotRun,
}

impl Finding {
    /// Passed until something [must](Self::must) hold that does not.
    pub fn new(rule: impl Into<String>) -> Self {
        Self {
            rule: rule.into(),
            numbers: Vec::new(),
            verdict: Verdict::Passed,
        }
    }

    pub fn number(mut self, name: &'static str, value: f64, unit: &'static str) -> Self {
        self.numbers.push(Number { name, value, unit });
        self
    }

    /// Fails unless it `holds`.
    pub fn must(mut self, holds: bool) -> Self {
        if !holds {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// What must hold on CUDA; elsewhere the numbers stand without a verdict.
    pub fn must_on_cuda(self, bench: &Bench, holds: bool) -> Self {
        match bench.cuda {
            Some(_) => self.must(holds),
            None => Self {
                verdict: Verdict::Measured,
                ..self
            },
        }
    }

    pub fn found(self) -> Result<Outcome> {
        Ok(Outcome::Found(self))
    }
}

/// For a check that cannot be asked on this device.
pub fn not_run(why: &str) -> Result<Outcome> {
    Ok(Outcome::NotRun(why.into()))
}

/// A check with its answer.
#[derive(Debug, Serialize)]
pub struct Answer {
    pub name: &'static str,
    pub asks: &'static str,
    pub verdict: Verdict,
    pub numbers: Vec<Number>,
    /// The rule, the error, or why it was not run.
    pub because: String,
    pub seconds: f64,
}
