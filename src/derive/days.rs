//! The days of the year that a time axis has.

use crate::ocean::time::TimeAxis;

/// The days of the year that a time axis has, and which of them each of its rows is.
#[derive(Clone, Debug)]
pub(crate) struct Days {
    /// Ascending, from 1, in the axis' own calendar; leap days count.
    pub(crate) numbers: Vec<u16>,
    /// Position in `numbers` of each row's day.
    pub(crate) of_row: Vec<u16>,
}

impl Days {
    pub(crate) fn of(time: &TimeAxis) -> Self {
        let day = |row| time.day_of_year(row);
        let mut numbers: Vec<u16> = (0..time.len()).map(day).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // At most 366, so that a position fits.
        let position = |row| numbers.partition_point(|n| *n < day(row)) as u16;
        let of_row = (0..time.len()).map(position).collect();
        Self { numbers, of_row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocean::time::TimeValues;

    fn days(first: &str, calendar: &str, after: &[i64]) -> Days {
        let values = TimeValues::Int(after.to_vec());
        let units = format!("days since {first}");
        Days::of(&TimeAxis::decode(&values, &units, calendar).unwrap())
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        // 1 March of a leap year, of the year after, and 31 December of both, as xarray's
        // `time.dayofyear` has them.
        let of = |calendar, after: [i64; 4]| days("2000-03-01", calendar, &after).numbers;
        assert_eq!(of("standard", [0, 305, 365, 670]), [60, 61, 365, 366]);
        assert_eq!(of("julian", [0, 305, 365, 670]), [60, 61, 365, 366]);
        assert_eq!(of("noleap", [0, 305, 365, 670]), [60, 365]);
        assert_eq!(of("all_leap", [0, 305, 366, 671]), [61, 366]);
        assert_eq!(of("360_day", [0, 299, 360, 659]), [61, 360]);
    }

    #[test]
    fn julian_leap_years_are_julian() {
        assert_eq!(days("1900-03-01", "julian", &[0]).numbers, [61]);
        assert_eq!(days("1900-03-01", "standard", &[0]).numbers, [60]);
    }

    #[test]
    fn rows_of_one_day_share_it() {
        let days = days("2001-01-01", "noleap", &[0, 5, 365, 370, 371]);
        assert_eq!(days.numbers, [1, 6, 7]);
        assert_eq!(days.of_row, [0, 1, 0, 1, 2]);
    }
}
