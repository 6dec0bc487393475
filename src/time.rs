//! The time axis: CF calendars, dates, inclusive slices by date, gaps.

use crate::error::Result;
use std::ops::Range;

/// A CF calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Calendar {
    /// Julian before 1582-10-15, Gregorian after (`standard`, `gregorian`).
    Standard,
    /// Gregorian for all years (`proleptic_gregorian`).
    ProlepticGregorian,
    /// Julian for all years (`julian`), as OM4 uses.
    Julian,
    /// 365 days in every year (`noleap`, `365_day`).
    NoLeap,
    /// 366 days in every year (`all_leap`, `366_day`).
    AllLeap,
    /// 12 months of 30 days (`360_day`).
    Day360,
}

/// A day in some calendar. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    pub year: i32,
    pub month: u8,
    pub day: u8,
}

/// Whole days from `start` to `end`, both included. Text form `2010-01-01..2018-12-31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateRange {
    pub start: Date,
    pub end: Date,
}

/// Raw values of a `time` coordinate as stored.
#[derive(Clone, Debug)]
pub enum TimeValues {
    Int(Vec<i64>),
    Float(Vec<f64>),
}

/// A decoded, strictly increasing time axis.
#[derive(Clone, Debug)]
pub struct TimeAxis {
    // private fields
    _p: (),
}

impl TimeAxis {
    /// Decodes `values` in CF `units` ("days since 1958-01-01 12:00:00") of `calendar`.
    /// Errors: unknown units or calendar, non-finite or overflowing values, not strictly
    /// increasing (names the first bad row).
    pub fn decode(_values: &TimeValues, _units: &str, _calendar: &str) -> Result<Self> {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    pub fn calendar(&self) -> Calendar {
        todo!()
    }
    /// Date of a row. Panics: row out of range.
    pub fn date(&self, _row: usize) -> Date {
        todo!()
    }
    /// 1-based, leap-aware.
    pub fn day_of_year(&self, _row: usize) -> u16 {
        todo!()
    }
    /// Seconds between row and row + 1
    /// Rows whose day lies in `range`, both ends included, compared as whole days in the store's own calendar.
    /// Errors: a date that does not exist in the calendar; start after end; nothing selected.
    pub fn select(&self, _range: &DateRange) -> Result<Range<usize>> {
        todo!()
    }
    /// `rows` cut wherever a step is longer than `factor` times the median step (of the whole axis).
    pub fn segments(&self, _rows: Range<usize>, _factor: f64) -> Vec<Range<usize>> {
        todo!()
    }
}
