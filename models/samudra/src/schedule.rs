//! The learning rate, epoch by epoch, by the original's names.

use serde::{Deserialize, Serialize};

use crate::cosine::CosineSchedule;
use crate::error::{Error, Result};

/// How the learning rate goes over the epochs, as the original's configuration says it.
///
/// With `b` the base rate and `n` the target epochs (all, by default):
///
/// ```text
///  cosine              b / 2 (1 + cos(pi e / n))
///  cosine_with_tail    from b along half a cosine to tail_lr at epoch n - tail_epochs, then tail_lr
///  cosine_with_warmup  warmup_lr + (b - warmup_lr) e / warmup_epochs, then half a cosine to 0 at n
/// ```
///
/// As PyTorch's schedulers that the original puts together, stepped once per epoch. Beyond the target
/// epochs the last rate stays, where PyTorch's would go up again.
///
/// ```
/// use samudra::Schedule;
///
/// let text = r#"{"type": "cosine_with_warmup", "warmup_lr": 0.0, "warmup_epochs": 2}"#;
/// let schedule: Schedule = serde_json::from_str(text).unwrap();
/// let rates = schedule.rates(1.0, 6).unwrap();
/// assert_eq!(rates[..3], [0.0, 0.5, 1.0]);
/// assert!((rates[4] - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Half a cosine to zero.
    Cosine {
        /// Epochs to zero; all, by default.
        #[serde(default)]
        target_epochs: Option<usize>,
    },
    /// Half a cosine, then a constant small rate.
    CosineWithTail {
        /// Epochs to the end of the tail; all, by default.
        #[serde(default)]
        target_epochs: Option<usize>,
        /// The small rate.
        tail_lr: f64,
        /// Epochs of it.
        #[serde(default = "ten")]
        tail_epochs: usize,
    },
    /// A straight rise, then half a cosine to zero.
    CosineWithWarmup {
        /// Epochs to zero; all, by default.
        #[serde(default)]
        target_epochs: Option<usize>,
        /// The rate of the first epoch.
        #[serde(default = "millionth")]
        warmup_lr: f64,
        /// Epochs of the rise.
        #[serde(default = "five")]
        warmup_epochs: usize,
    },
}

fn ten() -> usize {
    10
}

fn five() -> usize {
    5
}

fn millionth() -> f64 {
    1e-6
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Cosine {
            target_epochs: None,
        }
    }
}

impl Schedule {
    /// The rate during each of `epochs` epochs, from a base rate.
    ///
    /// # Errors
    ///
    /// A rate that is not finite or below zero, or a rise or tail that is not shorter than the target.
    pub fn rates(&self, base: f64, epochs: usize) -> Result<Vec<f64>> {
        let bad = |field, reason| Error::InvalidConfig { field, reason };
        let usable = |field, rate: f64| match rate.is_finite() && rate >= 0.0 {
            true => Ok(rate),
            false => Err(bad(field, format!("= {rate} is no learning rate"))),
        };
        let shorter = |field, part: usize, target: usize| match target.checked_sub(part) {
            Some(rest) if rest > 0 => Ok(rest),
            _ => Err(bad(
                field,
                format!("= {part} of {target} epochs leaves none"),
            )),
        };
        let base = usable("learning_rate", base)?;
        let target = |target_epochs: Option<usize>| target_epochs.unwrap_or(epochs);
        let rate: Box<dyn Fn(usize) -> f64> = match *self {
            Self::Cosine { target_epochs } => {
                let n = shorter("epochs", 0, target(target_epochs))?;
                let cosine = CosineSchedule::new(base, n);
                Box::new(move |e| cosine.rate(e))
            }
            Self::CosineWithTail {
                target_epochs,
                tail_lr,
                tail_epochs,
            } => {
                let tail = usable("tail_lr", tail_lr)?;
                let n = shorter("tail_epochs", tail_epochs, target(target_epochs))?;
                let cosine = CosineSchedule::new(base - tail, n);
                Box::new(move |e| tail + cosine.rate(e))
            }
            Self::CosineWithWarmup {
                target_epochs,
                warmup_lr,
                warmup_epochs,
            } => {
                let first = usable("warmup_lr", warmup_lr)?;
                let n = shorter("warmup_epochs", warmup_epochs, target(target_epochs))?;
                let cosine = CosineSchedule::new(base, n);
                Box::new(move |e| match e.checked_sub(warmup_epochs) {
                    Some(after) => cosine.rate(after),
                    None => first + (base - first) * e as f64 / warmup_epochs as f64,
                })
            }
        };
        Ok((0..epochs).map(rate).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in std::iter::zip(found, expected) {
            assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
    }

    #[test]
    fn rates_are_pytorch_s() {
        let cosine = Schedule::default().rates(2.0, 4).unwrap();
        let half = std::f64::consts::FRAC_1_SQRT_2;
        close(&cosine, &[2.0, 1.0 + half, 1.0, 1.0 - half]);

        let tail = Schedule::CosineWithTail {
            target_epochs: None,
            tail_lr: 0.5,
            tail_epochs: 2,
        };
        close(&tail.rates(1.5, 4).unwrap(), &[1.5, 1.0, 0.5, 0.5]);

        let early = Schedule::Cosine {
            target_epochs: Some(2),
        };
        close(&early.rates(2.0, 4).unwrap(), &[2.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let warmup = |epochs: usize| Schedule::CosineWithWarmup {
            target_epochs: None,
            warmup_lr: 1e-6,
            warmup_epochs: epochs,
        };
        assert!(warmup(3).rates(1.0, 4).is_ok());
        for (schedule, base, named) in [
            (warmup(4), 1.0, "warmup_epochs"),
            (warmup(1), f64::NAN, "learning_rate"),
            (Schedule::default(), -1.0, "learning_rate"),
        ] {
            let e = schedule.rates(base, 4).unwrap_err().to_string();
            assert!(e.contains(named), "{e}");
        }
    }
}
