//! The learning rate over the epochs.

/// Half a cosine from `base` at epoch 0 to zero at epoch `epochs`.
///
/// ```text
///  rate(e) = base / 2 * (1 + cos(pi e / epochs))
/// ```
///
/// As PyTorch's `CosineAnnealingLR` with a minimum of zero, stepped once per epoch.
///
/// ```
/// use samudra::CosineSchedule;
///
/// let schedule = CosineSchedule::new(6e-4, 70);
/// assert_eq!(schedule.rate(0), 6e-4);
/// assert!((schedule.rate(35) - 3e-4).abs() < 1e-12);
/// assert!(schedule.rate(70) < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineSchedule {
    base: f64,
    epochs: usize,
}

impl CosineSchedule {
    /// # Panics
    ///
    /// If `epochs` is zero.
    pub fn new(base: f64, epochs: usize) -> Self {
        assert!(epochs > 0, "a schedule needs at least one epoch");
        Self { base, epochs }
    }

    /// The rate during `epoch`, counted from 0; the last rate from epoch `epochs` on.
    pub fn rate(&self, epoch: usize) -> f64 {
        let turn = epoch.min(self.epochs) as f64 / self.epochs as f64;
        0.5 * self.base * (1.0 + (std::f64::consts::PI * turn).cos())
    }
}
