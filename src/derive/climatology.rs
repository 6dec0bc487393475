//! The mean of a channel by day of the year, and the statistics of what is left when it is taken
//! away.
//!
//! The arithmetic is that of xarray on NumPy (without flox and bottleneck) over a float32 array in
//! memory, bit for bit, though the array is never in memory: sums over years are float32 in the order
//! of time, sums over everything in NumPy's order ([`NumpySum`]), quotients are rounded once, NaN does
//! not count. The deviation needs the mean of the anomalies and those need the climatology, so the
//! channel is read three times.

use crate::derive::days::Days;
use crate::derive::numpy_sum::NumpySum;
use crate::error::{Error, ErrorKind, Result};
use crate::host::sink::HostPlanes;
use crate::ocean::plane::{PlaneRequest, PlaneSource};

/// Planes are read in blocks of about so many bytes, at least one plane.
const BLOCK: usize = 64 << 20;

/// The mean of a channel by day of the year.
#[derive(Debug)]
pub(crate) struct Climatology {
    pub(crate) cells: usize,
    /// Which of `means` belongs to each row.
    pub(crate) of_row: Vec<u16>,
    /// `(day, y, x)` in C order, in the channel's unit; NaN where the day has no value.
    pub(crate) means: Vec<f32>,
    /// Mean of all anomalies.
    pub(crate) mean: f32,
    /// Population standard deviation of all anomalies.
    pub(crate) std: f32,
}

/// A channel of a source, told how many of its planes were read.
pub(crate) struct Reading<'a> {
    pub(crate) planes: &'a dyn PlaneSource,
    /// Position in [`PlaneSource::channels`].
    pub(crate) channel: usize,
    /// Takes the number of planes read so far, of [`Reading::PASSES`] for each row.
    pub(crate) told: &'a dyn Fn(u64),
}

impl Climatology {
    /// The mean that a row is compared with, `(y, x)` in C order.
    pub(crate) fn of(&self, row: usize) -> &[f32] {
        let first = usize::from(self.of_row[row]) * self.cells;
        &self.means[first..first + self.cells]
    }

    /// Computes it over all rows.
    ///
    /// # Errors
    /// A plane that cannot be read; more memory than there is for one plane per day.
    pub(crate) fn compute(reading: &Reading<'_>, days: Days) -> Result<Self> {
        let cells = reading.planes.shape().cells();
        let means = reading.means(&days, cells)?;
        let mut climatology = Self {
            cells,
            of_row: days.of_row,
            means,
            mean: 0.0,
            std: 0.0,
        };
        climatology.mean = climatology.average(reading, 1, |anomaly| anomaly)?;
        let mean = climatology.mean;
        let variance = climatology.average(reading, 2, |anomaly| {
            let deviation = anomaly - mean;
            deviation * deviation
        })?;
        climatology.std = variance.sqrt();
        Ok(climatology)
    }

    /// The mean over all anomalies of a function of them.
    fn average(&self, reading: &Reading<'_>, pass: u64, of: impl Fn(f32) -> f32) -> Result<f32> {
        let mut sum = NumpySum::default();
        let mut count = 0u64;
        let mut terms = vec![0.0; self.cells];
        reading.pass(pass, |row, plane| {
            for (term, (value, mean)) in terms.iter_mut().zip(plane.iter().zip(self.of(row))) {
                let anomaly = value - mean;
                let there = !anomaly.is_nan();
                *term = if there { of(anomaly) } else { 0.0 };
                count += u64::from(there);
            }
            sum.add(&terms);
        })?;
        Ok(mean(sum.total(), count))
    }
}

/// Rounded once: the quotient of two float64 is that of the exact numbers.
fn mean(sum: f32, count: u64) -> f32 {
    (f64::from(sum) / count as f64) as f32
}

impl Reading<'_> {
    /// How often each row is read.
    pub(crate) const PASSES: u64 = 3;

    /// The means by day.
    fn means(&self, days: &Days, cells: usize) -> Result<Vec<f32>> {
        let len = days.numbers.len() * cells;
        let mut sums: Vec<f32> = zeroed(len)?;
        let mut counts: Vec<u32> = zeroed(len)?;
        self.pass(0, |row, plane| {
            let first = usize::from(days.of_row[row]) * cells;
            let sums = &mut sums[first..first + cells];
            let counts = &mut counts[first..first + cells];
            for ((sum, count), value) in sums.iter_mut().zip(counts).zip(plane) {
                if !value.is_nan() {
                    *sum += value;
                    *count += 1;
                }
            }
        })?;
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = mean(*sum, count.into());
        }
        Ok(sums)
    }

    /// Reads every row once, in order.
    fn pass(&self, pass: u64, mut each: impl FnMut(usize, &[f32])) -> Result<()> {
        let (rows, cells) = (self.planes.rows(), self.planes.shape().cells());
        let at_once = (BLOCK / 4 / cells).clamp(1, rows);
        let mut block: Vec<f32> = zeroed(at_once * cells)?;
        for first in (0..rows).step_by(at_once) {
            let rows: Vec<usize> = (first..rows.min(first + at_once)).collect();
            let request = PlaneRequest {
                rows: &rows,
                channels: &[self.channel],
            };
            let memory = &mut block[..rows.len() * cells];
            let counts = self
                .planes
                .read(&request, &HostPlanes::new(memory, cells))?;
            if counts.planes != rows.len() as u64 {
                return Err(
                    Error::new(ErrorKind::Interrupted, "a plane source left planes out")
                        .array(self.planes.channels()[self.channel].name())
                        .row(first)
                        .expected(format!("{} planes", rows.len()))
                        .found(counts.planes),
                );
            }
            for (&row, plane) in rows.iter().zip(block.chunks_exact(cells)) {
                each(row, plane);
            }
            let read = pass * self.planes.rows() as u64 + (first + rows.len()) as u64;
            (self.told)(read);
        }
        Ok(())
    }
}

/// Zeros, where there is memory for them.
pub(super) fn zeroed<T: Default + Clone>(len: usize) -> Result<Vec<T>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).map_err(|e| {
        Error::config("there is no memory for a plane per day of the year")
            .found(format!("{len} values of {} bytes", size_of::<T>()))
            .caused_by(e)
    })?;
    memory.resize(len, T::default());
    Ok(memory)
}
