//! The coordinates of a synthetic store: the Gaussian grid and the 5-day time axis.

use super::options::{SynthOptions, TimeEncoding};
use crate::error::{Error, Result};
use crate::ocean::calendar::{Calendar, Date};
use std::f64::consts::PI;

/// Metres.
const EARTH_RADIUS: f64 = 6.371e6;

/// The cells of a global grid with Gaussian latitudes, south to north, and even longitudes.
pub(super) struct GaussianGrid {
    /// Cell centres, degrees, `ny`.
    pub lat: Vec<f64>,
    /// Cell edges, degrees, `ny + 1`.
    pub lat_edges: Vec<f64>,
    /// Cell centres, degrees, `nx`.
    pub lon: Vec<f64>,
    /// Cell edges, degrees, `nx + 1`.
    pub lon_edges: Vec<f64>,
    /// Area of a cell, square metres, `ny`.
    pub area: Vec<f64>,
}

impl GaussianGrid {
    pub(super) fn new(ny: usize, nx: usize) -> Self {
        let step = 360.0 / nx as f64;
        let mut south = -1.0f64;
        let mut lat_edges = vec![-90.0];
        let (mut lat, mut area) = (Vec::new(), Vec::new());
        for (sine, weight) in gauss_legendre(ny) {
            lat.push(sine.asin().to_degrees());
            area.push(EARTH_RADIUS * EARTH_RADIUS * step.to_radians() * weight);
            // The weights sum to 2: cut in these, the sphere gives each row its exact area.
            south = (south + weight).min(1.0);
            lat_edges.push(south.asin().to_degrees());
        }
        lat_edges[ny] = 90.0;
        Self {
            lat,
            lat_edges,
            lon: (0..nx).map(|i| (i as f64 + 0.5) * step).collect(),
            lon_edges: (0..=nx).map(|i| i as f64 * step).collect(),
            area,
        }
    }
}

/// Nodes, ascending, and weights of Gauss-Legendre quadrature: Newton's method on the Legendre
/// polynomial from the asymptotic roots (Abramowitz & Stegun 25.4.29).
fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let legendre = |x: f64| {
        let (mut before, mut value) = (1.0, x);
        for k in 2..=n {
            let k = k as f64;
            (before, value) = (
                value,
                ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k,
            );
        }
        let slope = n as f64 * (x * value - before) / (x * x - 1.0);
        (value, slope)
    };
    let node = |i: usize| {
        let mut x = -(PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        for _ in 0..8 {
            let (value, slope) = legendre(x);
            x -= value / slope;
        }
        let (_, slope) = legendre(x);
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..n).map(node).collect()
}

/// A time coordinate as it is stored.
pub(super) struct Time {
    pub units: String,
    pub values: Values,
}

pub(super) enum Values {
    Int(Vec<i64>),
    Float(Vec<f64>),
}

impl Time {
    pub(super) fn new(options: &SynthOptions) -> Result<Self> {
        let start = options.start;
        let days = days(start, options.calendar, options.rows)?;
        let since = |date: Date| format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
        let (units, values) = match options.time {
            TimeEncoding::Int => (
                format!("days since {} 12:00:00.000000", since(start)),
                Values::Int(days.iter().map(|d| d - days[0]).collect()),
            ),
            TimeEncoding::Float => {
                let new_year = Date {
                    month: 1,
                    day: 1,
                    ..start
                };
                let first = day(new_year, options.calendar)?;
                let noon = days.iter().map(|d| (d - first) as f64 + 0.5);
                (
                    format!("days since {}", since(new_year)),
                    Values::Float(noon.collect()),
                )
            }
        };
        Ok(Self { units, values })
    }
}

/// The day of each row, by the calendar's own count.
fn days(start: Date, calendar: Calendar, rows: usize) -> Result<Vec<i64>> {
    // Count in years of 365 days, so that a row has the same date every year: that puts the leap
    // day into the step over it.
    let counted = match calendar {
        Calendar::Day360 => Calendar::Day360,
        _ => Calendar::NoLeap,
    };
    let first = day(start, counted)?;
    let dates = (0..rows as i64).map(|row| counted.date(first + 5 * row));
    dates.map(|date| day(date, calendar)).collect()
}

fn day(date: Date, calendar: Calendar) -> Result<i64> {
    let lacks = || Error::config(format!("the calendar {} lacks {date}", calendar.name()));
    calendar.day(date).ok_or_else(lacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_degree_grid_is_the_published_one() {
        let grid = GaussianGrid::new(180, 360);
        // docs/data.md of the original: lat -89.24 .. 89.24, lon 0.5 .. 359.5
        assert!((grid.lat[0] + 89.24).abs() < 5e-3, "{}", grid.lat[0]);
        assert!((grid.lat[0] + grid.lat[179]).abs() < 1e-12);
        assert_eq!((grid.lon[0], grid.lon[359]), (0.5, 359.5));
        let sphere: f64 = grid.area.iter().sum::<f64>() * 360.0;
        let exact = 4.0 * PI * EARTH_RADIUS * EARTH_RADIUS;
        assert!((sphere / exact - 1.0).abs() < 1e-12);
        for j in 0..180 {
            assert!(grid.lat_edges[j] < grid.lat[j] && grid.lat[j] < grid.lat_edges[j + 1]);
        }
    }

    #[test]
    fn tiny_grids_exist() {
        assert_eq!(GaussianGrid::new(1, 1).lat, [0.0]);
        // The two nodes are at ±1/√3.
        let lat = GaussianGrid::new(2, 1).lat;
        assert!((lat[1].to_radians().sin() - 3f64.sqrt().recip()).abs() < 1e-15);
    }

    #[test]
    fn leap_days_make_one_step_of_six() {
        let start = Date {
            year: 1958,
            month: 1,
            day: 3,
        };
        let days = |calendar| days(start, calendar, 4745).unwrap();
        let julian = days(Calendar::Julian);
        // The published axis ends on 2022-12-29.
        let end = Date {
            year: 2022,
            month: 12,
            day: 29,
        };
        assert_eq!(Calendar::Julian.date(julian[0]), start);
        assert_eq!(Calendar::Julian.date(julian[4744]), end);
        let steps = |d: &[i64]| d.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>();
        assert_eq!(steps(&julian).iter().filter(|s| **s == 6).count(), 16);
        assert!(steps(&julian).iter().all(|s| *s == 5 || *s == 6));
        assert!(steps(&days(Calendar::NoLeap)).iter().all(|s| *s == 5));
        assert!(steps(&days(Calendar::Day360)).iter().all(|s| *s == 5));
    }
}
