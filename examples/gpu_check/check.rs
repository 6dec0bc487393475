//! What a check is, and what it says.

use crate::bench::Bench;
use crate::spread::Spread;
use anyhow::Result;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// A question, and the code that answers it on a device.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub name: &'static str,
    pub asks: &'static str,
    pub run: fn(&Bench) -> Result<Outcome>,
}

/// How a check went.
pub(crate) enum Outcome {
    Found(Finding),
    /// It could not be asked here, and why. Never counted as passed.
    NotRun(String),
}

/// What was measured, and whether it will do.
#[derive(Debug)]
pub(crate) struct Finding {
    /// What has to hold, with the reason for the threshold.
    pub rule: String,
    pub numbers: Vec<Number>,
    pub verdict: Verdict,
}

/// A measured number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Number {
    pub name: Cow<'static, str>,
    #[serde(deserialize_with = "or_nan")]
    pub value: f64,
    pub unit: Cow<'static, str>,
}

/// JSON has no word for infinity and NaN, and says null.
fn or_nan<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or(f64::NAN))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// The rule is about other devices than this one: a number without a judgement.
    Measured,
    NotRun,
}

impl Finding {
    /// Passed until something [must](Self::must) hold that does not.
    pub(crate) fn new(rule: impl Into<String>) -> Self {
        Self {
            rule: rule.into(),
            numbers: Vec::new(),
            verdict: Verdict::Passed,
        }
    }

    pub(crate) fn number(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        self.numbers.push(Number {
            name: name.into(),
            value,
            unit: unit.into(),
        });
        self
    }

    /// The median under its name, with the extremes and how many there are.
    pub(crate) fn spread(self, name: &str, spread: Spread, unit: &'static str) -> Self {
        self.number(name.to_owned(), spread.median, unit)
            .number(format!("{name}, minimum"), spread.least, unit)
            .number(format!("{name}, maximum"), spread.most, unit)
            .number(format!("{name}, count"), spread.count as f64, "")
    }

    /// Fails unless it `holds`.
    pub(crate) fn must(mut self, holds: bool) -> Self {
        if !holds {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// What must hold on CUDA; elsewhere the numbers stand without a verdict.
    pub(crate) fn must_on_cuda(self, bench: &Bench, holds: bool) -> Self {
        match bench.cuda {
            Some(_) => self.must(holds),
            None => Self {
                verdict: Verdict::Measured,
                ..self
            },
        }
    }

    pub(crate) fn found(self) -> Result<Outcome> {
        Ok(Outcome::Found(self))
    }
}

/// For a check that cannot be asked on this device.
pub(crate) fn not_run(why: &str) -> Result<Outcome> {
    Ok(Outcome::NotRun(why.into()))
}

/// A check with its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub name: Cow<'static, str>,
    pub asks: Cow<'static, str>,
    pub verdict: Verdict,
    pub numbers: Vec<Number>,
    /// The rule, the error, or why it was not run.
    pub because: String,
    pub seconds: f64,
}

impl Answer {
    /// Nothing was measured.
    pub(crate) fn without(check: &Check, verdict: Verdict, because: String) -> Self {
        Self {
            name: check.name.into(),
            asks: check.asks.into(),
            verdict,
            numbers: Vec::new(),
            because,
            seconds: 0.0,
        }
    }
}
