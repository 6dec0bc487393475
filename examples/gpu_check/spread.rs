//! What many measurements come down to.

/// Of many measurements; all 0 of none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub count: usize,
    pub least: f64,
    /// The middle one.
    pub median: f64,
    /// 99 of 100 are no larger.
    pub p99: f64,
    pub most: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |k: usize| sorted.get(k).copied().unwrap_or(0.0);
        let count = sorted.len();
        Self {
            count,
            least: at(0),
            median: at(count / 2),
            p99: at((count * 99).div_ceil(100).saturating_sub(1)),
            most: at(count.saturating_sub(1)),
        }
    }

    /// In another unit.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            least: self.least * factor,
            median: self.median * factor,
            p99: self.p99 * factor,
            most: self.most * factor,
            ..self
        }
    }

    /// Of `amount` in the time of each: the quickest is the largest rate.
    pub(crate) fn rates(seconds: &[f64], amount: f64) -> Self {
        let rates: Vec<f64> = seconds.iter().map(|seconds| amount / seconds).collect();
        Self::of(&rates)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_middle_and_both_ends() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let spread = Spread::of(&values);
        assert_eq!((spread.least, spread.most), (1.0, 200.0));
        assert_eq!((spread.median, spread.p99), (101.0, 198.0));
        assert_eq!(Spread::of(&[]), Spread::default());
        let one = Spread::of(&[3.0]).times(2.0);
        assert_eq!((one.least, one.p99, one.count), (6.0, 6.0, 1));
    }
}
