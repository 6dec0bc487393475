//! CF calendars: which dates exist, how they are written, and the days between them.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// A CF calendar. Years are counted astronomically: the year before 1 is 0.
///
/// The text form, also in serde, is the CF name.
///
/// ```
/// use burn_om4::Date;
/// use burn_om4::ocean::Calendar;
/// let calendar: Calendar = "365_day".parse()?;
/// assert_eq!((calendar, calendar.name()), (Calendar::NoLeap, "noleap"));
/// let leap_day: Date = "2000-02-29".parse()?;
/// assert!(Calendar::Julian.contains(leap_day));
/// assert!(!calendar.contains(leap_day));
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum Calendar {
    /// Julian up to 1582-10-04, Gregorian from 1582-10-15, nothing between (`standard`,
    /// `gregorian`). What CF means when a store names no calendar.
    #[default]
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

impl Calendar {
    /// The CF name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ProlepticGregorian => "proleptic_gregorian",
            Self::Julian => "julian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Day360 => "360_day",
        }
    }

    /// Whether the calendar has this date.
    pub fn contains(self, date: Date) -> bool {
        self.day(date).is_some()
    }

    /// Number of the day: consecutive, from a day near year 0 that depends on the calendar. `None`
    /// when the calendar has no such date.
    pub(crate) fn day(self, date: Date) -> Option<i64> {
        if !(1..=12).contains(&date.month) {
            return None;
        }
        let day = match date.day {
            5..=14 if self.switches(date.year, date.month) => return None,
            15..=31 if self.switches(date.year, date.month) => date.day - 10,
            day => day,
        };
        if day == 0 || day > self.month_days(date.year, date.month) {
            return None;
        }
        let months = (1..date.month).map(|m| i64::from(self.month_days(date.year, m)));
        Some(self.year_start(date.year.into()) + months.sum::<i64>() + i64::from(day) - 1)
    }

    /// The date of a numbered day; the inverse of [`Calendar::day`].
    ///
    /// `day` is within the range of a [`TimeAxis`](crate::ocean::TimeAxis), so that nothing overflows.
    pub(crate) fn date(self, day: i64) -> Date {
        let year = self.year_of(day);
        let mut rest = day - self.year_start(year);
        let year = i32::try_from(year).expect("a time axis ends long before such years");
        let mut month = 1;
        while rest >= i64::from(self.month_days(year, month)) {
            rest -= i64::from(self.month_days(year, month));
            month += 1;
        }
        let mut day = rest as u8 + 1;
        if self.switches(year, month) && day > 4 {
            day += 10;
        }
        Date { year, month, day }
    }

    /// Position of a numbered day in its year, from 1.
    pub(crate) fn day_of_year(self, day: i64) -> u16 {
        (day - self.year_start(self.year_of(day)) + 1) as u16
    }

    fn year_of(self, day: i64) -> i64 {
        // Right to within a few years; the loops make it exact.
        let cycle = self.year_start(400) - self.year_start(0);
        let mut year = (day * 400).div_euclid(cycle);
        while self.year_start(year) > day {
            year -= 1;
        }
        while self.year_start(year + 1) <= day {
            year += 1;
        }
        year
    }

    /// Number of January 1st: whole years, and the leap days of the years 0 to `year - 1`.
    fn year_start(self, year: i64) -> i64 {
        let every = |n: i64| (year + n - 1).div_euclid(n);
        match self {
            Self::NoLeap => 365 * year,
            Self::AllLeap => 366 * year,
            Self::Day360 => 360 * year,
            Self::Julian => 365 * year + every(4),
            Self::ProlepticGregorian => 365 * year + every(4) - every(100) + every(400),
            // The Julian count runs 2 ahead of the Gregorian one on any given day: 12 leap days
            // more by 1582, less the 10 days by which its dates are behind.
            Self::Standard if year <= 1582 => Self::Julian.year_start(year) - 2,
            Self::Standard => Self::ProlepticGregorian.year_start(year),
        }
    }

    fn month_days(self, year: i32, month: u8) -> u8 {
        match month {
            _ if self == Self::Day360 => 30,
            2 => 28 + u8::from(self.has_leap_day(year)),
            4 | 6 | 9 | 11 => 30,
            _ if self.switches(year, month) => 21,
            _ => 31,
        }
    }

    fn has_leap_day(self, year: i32) -> bool {
        match self {
            Self::NoLeap | Self::Day360 => false,
            Self::AllLeap => true,
            Self::Julian => year % 4 == 0,
            Self::Standard if year <= 1582 => year % 4 == 0,
            Self::Standard | Self::ProlepticGregorian => {
                year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            }
        }
    }

    /// Whether this is October 1582, which lost its days 5 to 14.
    fn switches(self, year: i32, month: u8) -> bool {
        self == Self::Standard && year == 1582 && month == 10
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Calendar {
    type Err = Error;

    /// Reads a CF name, in any case.
    ///
    /// # Errors
    /// A name that CF does not know, or `none`.
    fn from_str(name: &str) -> Result<Self> {
        Ok(match name.trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Day360,
            _ => {
                return Err(Error::new(ErrorKind::Metadata, "unknown calendar")
                    .expected("standard, gregorian, proleptic_gregorian, julian, noleap, 365_day, all_leap, 366_day or 360_day")
                    .found(format!("`{name}`")));
            }
        })
    }
}

/// A day in some calendar. Ordered by time.
///
/// The text form, also in serde, is `2010-01-31`. Reading it checks that the month is 1 to 12 and the
/// day 1 to 31; whether the date exists depends on the calendar ([`Calendar::contains`]).
///
/// ```
/// use burn_om4::Date;
/// let date: Date = "1975-01-03".parse()?;
/// assert_eq!(date, Date { year: 1975, month: 1, day: 3 });
/// assert_eq!("1-2-3".parse::<Date>()?.to_string(), "0001-02-03");
/// assert!("1975-13-01".parse::<Date>().is_err());
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Date {
    /// Astronomical: 0 is the year before 1.
    pub year: i32,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.year < 0 { "-" } else { "" };
        let year = self.year.unsigned_abs();
        write!(f, "{sign}{year:04}-{:02}-{:02}", self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = Error;

    /// Reads `YEAR-MONTH-DAY`, with or without leading zeros, the year with an optional `-`.
    ///
    /// # Errors
    /// Anything else; a month over 12 or a day over 31.
    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let text = text.trim();
            let (before_zero, text) = match text.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, text),
            };
            let mut parts = text.split('-');
            let mut next = |most| digits(parts.next()?, most);
            let year = next(i32::MAX as u32)? as i32;
            let (month, day) = (next(12)? as u8, next(31)? as u8);
            let whole = parts.next().is_none() && month > 0 && day > 0;
            whole.then_some(Self {
                year: if before_zero { -year } else { year },
                month,
                day,
            })
        };
        parse().ok_or_else(|| {
            Error::config("not a date")
                .expected("YYYY-MM-DD")
                .found(format!("`{text}`"))
        })
    }
}

/// A number written in decimal digits alone, at most `most`.
pub(crate) fn digits(text: &str, most: u32) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let value: u32 = text.parse().ok()?;
    (plain && value <= most).then_some(value)
}

/// Whole days from `start` to `end`, **both included**. Text form `2010-01-01..2018-12-31`, also in
/// serde; unlike a Rust range of the same look it holds its end.
///
/// ```
/// let train: burn_om4::DateRange = "1975-01-01..2012-12-31".parse()?;
/// assert_eq!(train.end.to_string(), "2012-12-31");
/// assert_eq!(train.to_string(), "1975-01-01..2012-12-31");
/// assert!("2012-12-31..1975-01-01".parse::<burn_om4::DateRange>().is_err());
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DateRange {
    /// First day.
    pub start: Date,
    /// Last day.
    pub end: Date,
}

impl DateRange {
    /// Refuses a range that ends before it starts.
    pub(crate) fn check(&self) -> Result<()> {
        if self.start > self.end {
            return Err(Error::config("a range of dates ends before it starts").found(self));
        }
        Ok(())
    }
}

impl fmt::Display for DateRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl FromStr for DateRange {
    type Err = Error;

    /// Reads `START..END`.
    ///
    /// # Errors
    /// Anything else, a malformed date, or an end before the start.
    fn from_str(text: &str) -> Result<Self> {
        let (start, end) = text.split_once("..").ok_or_else(|| {
            Error::config("not a range of dates")
                .expected("YYYY-MM-DD..YYYY-MM-DD, both days included")
                .found(format!("`{text}`"))
        })?;
        let range = Self {
            start: start.parse()?,
            end: end.parse()?,
        };
        range.check()?;
        Ok(range)
    }
}

/// A moment in some calendar, to the microsecond. Ordered by time.
///
/// The text form is the date, `T`, and the hour and minute; seconds and microseconds are shown
/// where they are not 0: `1975-01-03T12:00`, `1975-01-03T12:00:30`, `1975-01-03T12:00:30.000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub microsecond: u32,
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{:02}:{:02}", self.date, self.hour, self.minute)?;
        if self.second > 0 || self.microsecond > 0 {
            write!(f, ":{:02}", self.second)?;
        }
        if self.microsecond > 0 {
            write!(f, ".{:06}", self.microsecond)?;
        }
        Ok(())
    }
}

/// serde goes through the text form.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(Calendar, Date, DateRange);
