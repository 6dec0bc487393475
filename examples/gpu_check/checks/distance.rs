//! How far a device's values are from the CPU's.

use anyhow::{Result, ensure};
use burn_om4::testing::ulps;

/// How far apart two lots of values are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    pub values: u64,
    pub different: u64,
    /// In units of the last place of float32; NaN is infinitely far.
    pub ulps: u64,
    /// Largest difference as a share of the CPU's value; NaN is infinitely far.
    pub relative: f64,
}

/// What a device may differ by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Allowed {
    /// Units in the last place of float32. None of them is the same value: narrower types are compared
    /// as float32, which holds each of theirs.
    Ulps(u64),
    /// A share of the CPU's value.
    Share(f64),
}

impl Distance {
    /// # Errors
    /// Not as many values on one side as on the other.
    pub(super) fn add(&mut self, found: &[f32], expected: &[f32]) -> Result<()> {
        ensure!(
            found.len() == expected.len(),
            "{} values where the CPU has {}",
            found.len(),
            expected.len()
        );
        for (f, e) in found.iter().zip(expected) {
            self.different += u64::from(f.to_bits() != e.to_bits());
            self.ulps = self.ulps.max(ulps(*f, *e));
            self.relative = self.relative.max(relative(*f, *e));
        }
        self.values += found.len() as u64;
        Ok(())
    }

    pub(super) fn within(&self, allowed: Allowed) -> bool {
        match allowed {
            Allowed::Ulps(ulps) => self.ulps <= ulps,
            Allowed::Share(share) => self.relative <= share,
        }
    }
}

fn relative(found: f32, expected: f32) -> f64 {
    if found == expected {
        return 0.0;
    }
    let difference = (f64::from(found) - f64::from(expected)).abs();
    let share = difference / f64::from(expected.abs()).max(f64::from(f32::MIN_POSITIVE));
    // `f64::max` passes NaN over.
    if share.is_nan() { f64::INFINITY } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(found: &[f32], expected: &[f32]) -> Distance {
        let mut distance = Distance::default();
        distance.add(found, expected).unwrap();
        distance
    }

    #[test]
    fn nan_is_within_nothing_wherever_it_stands() {
        let same = [1.0, 2.0, 3.0];
        for at in 0..same.len() {
            let mut found = same;
            found[at] = f32::NAN;
            for distance in [between(&found, &same), between(&same, &found)] {
                assert!(!distance.within(Allowed::Ulps(3)), "{distance:?}");
                assert!(!distance.within(Allowed::Share(0.01)), "{distance:?}");
            }
        }
    }

    #[test]
    fn a_step_of_the_last_place_is_told_from_none() {
        let next = f32::from_bits(1.5f32.to_bits() + 1);
        let distance = between(&[next, 0.0], &[1.5, -0.0]);
        assert_eq!((distance.ulps, distance.different), (1, 2));
        assert!(distance.within(Allowed::Ulps(1)) && !distance.within(Allowed::Ulps(0)));
        assert!(distance.within(Allowed::Share(0.01)) && !distance.within(Allowed::Share(0.0)));
        assert!(between(&[0.0], &[-0.0]).within(Allowed::Ulps(0)));
    }

    #[test]
    fn values_that_are_missing_are_an_error() {
        let error = Distance::default().add(&[1.0], &[1.0, 2.0]).unwrap_err();
        assert_eq!(error.to_string(), "1 values where the CPU has 2");
    }
}
