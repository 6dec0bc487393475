//! Mean and population standard deviation over planes that arrive one by one.

/// Count, mean and sum of squared deviations; merged by Chan's formula, so that a large mean
/// costs no digits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Takes in the values of a plane that are ocean and not NaN.
    pub(super) fn add(&mut self, plane: &[f32], ocean: &[bool]) {
        let cells = || {
            let pairs = plane.iter().zip(ocean);
            pairs.filter_map(|(v, wet)| (*wet && !v.is_nan()).then_some(f64::from(*v)))
        };
        let count = cells().count() as f64;
        if count == 0.0 {
            return;
        }
        let mean = cells().sum::<f64>() / count;
        let squares: f64 = cells().map(|v| (v - mean) * (v - mean)).sum();
        let total = self.count + count;
        let apart = mean - self.mean;
        self.squares += squares + apart * apart * self.count * count / total;
        self.mean += apart * count / total;
        self.count = total;
    }

    /// NaN when nothing was taken in, as numpy has it.
    pub(super) fn mean(&self) -> f64 {
        if self.count > 0.0 {
            self.mean
        } else {
            f64::NAN
        }
    }

    /// NaN when nothing was taken in.
    pub(super) fn std(&self) -> f64 {
        (self.squares / self.count).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_merge_to_the_moments_of_the_whole() {
        let planes = [
            [1e6f32, 1e6 + 1.0, f32::NAN, 7.0],
            [1e6 + 3.0, 1e6 + 8.0, 1e6 + 8.0, 7.0],
        ];
        let mut moments = Moments::default();
        assert!(moments.mean().is_nan() && moments.std().is_nan());
        for plane in &planes {
            moments.add(plane, &[true, true, true, false]);
        }
        moments.add(&[f32::NAN; 4], &[true; 4]);
        // 0 1 3 8 8 over 1e6: mean 4, squares 16 + 9 + 1 + 16 + 16
        assert_eq!(moments.mean(), 1e6 + 4.0);
        assert!((moments.std() - (58.0f64 / 5.0).sqrt()).abs() < 1e-9);
    }
}
