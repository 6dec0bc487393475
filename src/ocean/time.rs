//! The time axis of a store: decoding it, slices by date, gaps.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::calendar::{Calendar, Date, DateRange, DateTime, digits};
use std::ops::Range;

/// A step longer than this many times the median step is a gap. OM4 has 6-day steps among its 5-day
/// ones, and months last 28 to 31 days: neither is a gap.
pub const DEFAULT_GAP_FACTOR: f64 = 1.5;

const DAY: i64 = 86_400_000_000;

/// Beyond this many microseconds from the origin (146,000 years) nothing is a date; inside it no
/// difference of two times overflows.
const FARTHEST: i64 = i64::MAX / 2;

/// Raw values of a `time` coordinate as stored.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeValues {
    /// Any integer type, widened.
    Int(Vec<i64>),
    /// Any floating-point type, widened.
    Float(Vec<f64>),
}

impl TimeValues {
    fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Float(values) => values.len(),
        }
    }

    fn show(&self, row: usize) -> String {
        match self {
            Self::Int(values) => values[row].to_string(),
            Self::Float(values) => values[row].to_string(),
        }
    }
}

/// A decoded time axis: at least one row, strictly increasing, to the microsecond.
///
/// ```
/// use burn_om4::ocean::{TimeAxis, TimeValues};
/// let values = TimeValues::Int(vec![0, 5, 10, 15]);
/// let time = TimeAxis::decode(&values, "days since 1975-01-03 12:00:00", "julian")?;
/// assert_eq!(time.label(2), "1975-01-13T12:00");
/// assert_eq!(time.select(&"1975-01-08..1975-01-13".parse()?)?, 1..3);
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TimeAxis {
    calendar: Calendar,
    /// Microseconds from the start of the calendar's day 0.
    micros: Vec<i64>,
    /// Microseconds. 0 on an axis of one row, which has no steps.
    median_step: f64,
}

impl TimeAxis {
    /// Decodes `values` in CF `units` (`days since 1958-01-01 12:00:00`) of the CF `calendar`.
    ///
    /// The unit is days, hours, minutes, seconds, milli-, micro- or nanoseconds, singular, plural or
    /// abbreviated; months, which have no one length but in the 360-day calendar, and years are
    /// refused. The reference has a date, an optional time of day (hours and minutes at least) and an
    /// optional zone, which must be UTC. Floating-point values are taken exactly and rounded once, to the nearest
    /// microsecond, halves up.
    ///
    /// # Errors
    /// - [`ErrorKind::Metadata`]: units or a calendar that cannot be read, or a reference date that
    ///   the calendar does not have.
    /// - [`ErrorKind::Values`]: no rows at all. With the row: a value that is not finite, is missing
    ///   (`i64::MIN`) or out of range, or that is not later than the one before (the message tells
    ///   a repeated time from one that runs back).
    pub fn decode(values: &TimeValues, units: &str, calendar: &str) -> Result<Self> {
        let calendar: Calendar = calendar.parse()?;
        let units = Units::parse(units, calendar)?;
        let bad = |row, message: &str| Error::new(ErrorKind::Values, message).row(row);
        if values.len() == 0 {
            return Err(Error::new(ErrorKind::Values, "the time axis has no rows"));
        }
        let mut axis = Self {
            calendar,
            micros: Vec::with_capacity(values.len()),
            median_step: 0.0,
        };
        for row in 0..values.len() {
            let offset = match values {
                TimeValues::Int(v) if v[row] == i64::MIN => {
                    return Err(bad(row, "a time is missing"));
                }
                TimeValues::Float(v) if !v[row].is_finite() => {
                    return Err(bad(row, "a time is not a finite number").found(v[row]));
                }
                TimeValues::Int(v) => Some(units.unit.of_int(v[row])),
                TimeValues::Float(v) => units.unit.of_float(v[row]),
            };
            let micros = offset
                .and_then(|offset| offset.checked_add(units.reference))
                .and_then(|micros| i64::try_from(micros).ok())
                .filter(|micros| (-FARTHEST..=FARTHEST).contains(micros))
                .ok_or_else(|| bad(row, "a time is out of range").found(values.show(row)))?;
            axis.micros.push(micros);
            if row > 0 && micros <= axis.micros[row - 1] {
                let message = if micros == axis.micros[row - 1] {
                    "a time is repeated"
                } else {
                    "time runs back"
                };
                return Err(bad(row, message)
                    .expected(format!("later than {}", axis.label(row - 1)))
                    .found(axis.label(row)));
            }
        }
        axis.median_step = median(axis.micros.windows(2).map(|w| w[1] - w[0]).collect());
        Ok(axis)
    }

    /// Every row's time, microseconds.
    pub(crate) fn micros(&self) -> &[i64] {
        &self.micros
    }

    /// Number of rows, at least 1.
    pub fn len(&self) -> usize {
        self.micros.len()
    }

    /// Never: an axis has a row.
    pub fn is_empty(&self) -> bool {
        self.micros.is_empty()
    }

    /// The calendar of every date here.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// Day of a row.
    ///
    /// # Panics
    /// `row` out of range.
    pub fn date(&self, row: usize) -> Date {
        self.calendar.date(self.day(row))
    }

    /// Day and time of day of a row.
    ///
    /// # Panics
    /// `row` out of range.
    pub fn datetime(&self, row: usize) -> DateTime {
        let micros = self.micros[row].rem_euclid(DAY);
        let seconds = micros / 1_000_000;
        DateTime {
            date: self.date(row),
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            microsecond: (micros % 1_000_000) as u32,
        }
    }

    /// A row's time in words, such as `1975-01-03T12:00`. No two rows have the same.
    ///
    /// # Panics
    /// `row` out of range.
    pub fn label(&self, row: usize) -> String {
        self.datetime(row).to_string()
    }

    /// Position of a row's day in its year, from 1; leap days count.
    ///
    /// # Panics
    /// `row` out of range.
    pub fn day_of_year(&self, row: usize) -> u16 {
        self.calendar.day_of_year(self.day(row))
    }

    /// Seconds from row 0 to `row`.
    ///
    /// # Panics
    /// `row` out of range.
    pub fn seconds(&self, row: usize) -> f64 {
        (self.micros[row] - self.micros[0]) as f64 / 1e6
    }

    /// Rows whose day lies in `range`, both ends included, compared as whole days in the store's own
    /// calendar, whatever the time of day.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: an end that the calendar does not have (naming the calendar), a range
    /// that ends before it starts, or no row inside (naming the days of the axis).
    pub fn select(&self, range: &DateRange) -> Result<Range<usize>> {
        range.check()?;
        let day = |date: Date| {
            self.calendar.day(date).ok_or_else(|| {
                Error::config("a date does not exist in the store's calendar")
                    .expected(format!("a date of the {} calendar", self.calendar))
                    .found(date)
            })
        };
        let (first, last) = (day(range.start)?, day(range.end)?);
        let start = self.micros.partition_point(|m| m.div_euclid(DAY) < first);
        let end = self.micros.partition_point(|m| m.div_euclid(DAY) <= last);
        if start == end {
            let (first, last) = (self.label(0), self.label(self.len() - 1));
            return Err(Error::config("no time of the store lies in the range")
                .expected(format!("a time from {first} to {last}"))
                .found(range));
        }
        Ok(start..end)
    }

    /// `rows` cut wherever a step is longer than `factor` times the median step of the whole axis
    /// ([`DEFAULT_GAP_FACTOR`] where nothing better is known). No rows give no segments.
    ///
    /// The median of an even number of steps is the mean of the middle two. An infinite factor never
    /// cuts; a factor below 1 cuts ordinary steps too.
    ///
    /// # Panics
    /// `rows` ends beyond the axis.
    pub fn segments(&self, rows: Range<usize>, factor: f64) -> Vec<Range<usize>> {
        assert!(rows.end <= self.len(), "{rows:?} of {} rows", self.len());
        let mut segments = Vec::new();
        let mut first = rows.start;
        for row in rows.clone().skip(1) {
            if (self.micros[row] - self.micros[row - 1]) as f64 > factor * self.median_step {
                segments.push(first..row);
                first = row;
            }
        }
        if first < rows.end {
            segments.push(first..rows.end);
        }
        segments
    }

    fn day(&self, row: usize) -> i64 {
        self.micros[row].div_euclid(DAY)
    }
}

fn median(mut steps: Vec<i64>) -> f64 {
    steps.sort_unstable();
    let n = steps.len();
    match n {
        0 => 0.0,
        _ => (steps[(n - 1) / 2] as f64 + steps[n / 2] as f64) / 2.0,
    }
}

/// CF units of time: a unit, and the moment it counts from.
struct Units {
    unit: Unit,
    /// Microseconds from the start of the calendar's day 0.
    reference: i128,
}

impl Units {
    fn parse(text: &str, calendar: Calendar) -> Result<Self> {
        let unreadable = || {
            Error::new(ErrorKind::Metadata, "unreadable units of time")
                .expected("`days since YYYY-MM-DD HH:MM:SS` in UTC (or hours, minutes, seconds)")
                .found(format!("`{text}`"))
        };
        let lower = text.to_ascii_lowercase();
        let (unit, reference) = lower.split_once("since").ok_or_else(unreadable)?;
        let unit = Unit::parse(unit.trim(), calendar).ok_or_else(unreadable)?;
        let between = |c: char| c.is_whitespace() || c == 't';
        let reference = reference.trim();
        let (date, rest) = reference.split_once(between).unwrap_or((reference, ""));
        let date: Date = date.parse().map_err(|e| unreadable().caused_by(e))?;
        let rest = rest.trim();
        let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.');
        let clock = &rest[..rest.len() - zone.len()];
        let zone = zone.trim();
        if !clock.is_empty() && !clock.contains(':') {
            // UDUNITS takes it for the hour; cftime, and so xarray, leaves it out.
            return Err(Error::new(
                ErrorKind::Metadata,
                "units of time with an hour without minutes, which programs read differently",
            )
            .expected("a time of day such as 12:00, or none")
            .found(format!("`{text}`")));
        }
        let clock = clock_micros(clock).filter(|_| is_utc(zone));
        let clock = clock.ok_or_else(unreadable)?;
        let day = calendar.day(date).ok_or_else(|| {
            Error::new(
                ErrorKind::Metadata,
                "time counts from a date that does not exist",
            )
            .expected(format!("a date of the {calendar} calendar"))
            .found(format!("`{text}`"))
        })?;
        Ok(Self {
            unit,
            reference: i128::from(day) * i128::from(DAY) + clock,
        })
    }
}

/// Microseconds into the day of `HH:MM[:SS[.fraction]]`, or of nothing; a finer fraction is cut.
fn clock_micros(text: &str) -> Option<i128> {
    if text.is_empty() {
        return Some(0);
    }
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = text.split(':');
    let hour = digits(parts.next()?, 23)?;
    let minute = parts.next().map_or(Some(0), |p| digits(p, 59))?;
    let second = parts.next().map_or(Some(0), |p| digits(p, 59))?;
    let plain = fraction.bytes().all(|b| b.is_ascii_digit());
    let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let micros = digits(&micros, 999_999).filter(|_| plain && parts.next().is_none())?;
    let seconds = i128::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000 + i128::from(micros))
}

fn is_utc(zone: &str) -> bool {
    let offset = zone.trim_start_matches(['+', '-']);
    matches!(zone, "" | "z" | "utc" | "gmt") || offset.bytes().all(|b| b == b'0' || b == b':')
}

/// A length of time: `micros / per` microseconds.
struct Unit {
    micros: i128,
    per: i128,
}

impl Unit {
    /// A unit by a lower-case name.
    fn parse(name: &str, calendar: Calendar) -> Option<Self> {
        let whole = |micros| Some(Self { micros, per: 1 });
        match name {
            "days" | "day" | "d" => whole(DAY.into()),
            // Of one length in this calendar only.
            "months" | "month" if calendar == Calendar::Day360 => whole(30 * i128::from(DAY)),
            "hours" | "hour" | "hrs" | "hr" | "h" => whole(3_600_000_000),
            "minutes" | "minute" | "mins" | "min" => whole(60_000_000),
            "seconds" | "second" | "secs" | "sec" | "s" => whole(1_000_000),
            "milliseconds" | "millisecond" | "millisecs" | "millisec" | "msecs" | "msec" | "ms" => {
                whole(1000)
            }
            "microseconds" | "microsecond" | "microsecs" | "microsec" | "us" => whole(1),
            "nanoseconds" | "nanosecond" | "nanosecs" | "nanosec" | "ns" => Some(Self {
                micros: 1,
                per: 1000,
            }),
            _ => None,
        }
    }

    /// Microseconds of `value` units.
    fn of_int(&self, value: i64) -> i128 {
        round_div(i128::from(value) * self.micros, self.per)
    }

    /// Microseconds of `value` units, rounded once; `None` far beyond any date.
    fn of_float(&self, value: f64) -> Option<i128> {
        // value = ± mantissa × 2^exponent, exactly.
        let bits = value.to_bits();
        let fraction = (bits & ((1 << 52) - 1)) as i128;
        let (mantissa, exponent) = match (bits >> 52) & 0x7ff {
            0 => (fraction, -1074),
            e => (fraction | 1 << 52, e as i32 - 1075),
        };
        // Below 2^53 × 2^37.
        let count = mantissa * self.micros * if value < 0.0 { -1 } else { 1 };
        match exponent {
            // At least 2^52 × 2^37 / 1000 microseconds.
            37.. => None,
            0.. => Some(round_div(count << exponent, self.per)),
            -100.. => Some(round_div(count, self.per << -exponent)),
            // Below 2^-10 microseconds.
            _ => Some(0),
        }
    }
}

/// `n / d` to the nearest integer, halves up.
fn round_div(n: i128, d: i128) -> i128 {
    (2 * n + d).div_euclid(2 * d)
}
