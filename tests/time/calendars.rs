//! Days of each calendar.

use crate::{CALENDARS, date, days};
use burn_om4::Date;
use burn_om4::ocean::Calendar;
use std::collections::HashSet;

/// The day after, by counting up: nothing here is shared with the crate's arithmetic.
fn next_day(calendar: Calendar, d: Date) -> Date {
    let divides = |n: i32| d.year.rem_euclid(n) == 0;
    let gregorian = divides(4) && (!divides(100) || divides(400));
    let leap = match calendar {
        Calendar::Standard if d.year < 1600 => divides(4),
        Calendar::Standard | Calendar::ProlepticGregorian => gregorian,
        Calendar::Julian => divides(4),
        Calendar::NoLeap | Calendar::Day360 => false,
        Calendar::AllLeap => true,
    };
    let february = if leap { 29 } else { 28 };
    let lengths = match calendar {
        Calendar::Day360 => [30; 12],
        _ => [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31],
    };
    if calendar == Calendar::Standard && d == date("1582-10-04") {
        return date("1582-10-15");
    }
    let (mut year, mut month, mut day) = (d.year, d.month, d.day + 1);
    if day > lengths[usize::from(month) - 1] {
        (month, day) = (month + 1, 1);
    }
    if month > 12 {
        (year, month) = (year + 1, 1);
    }
    Date { year, month, day }
}

#[test]
fn every_day_of_24_centuries_equals_a_walk() {
    for calendar in CALENDARS {
        let count = 2420 * 366;
        let axis = days(0..count, "-0008-01-01", calendar);
        let (mut walked, mut day_of_year) = (date("-0008-01-01"), 1);
        let mut seen_1582 = HashSet::new();
        for row in 0..axis.len() {
            assert_eq!(axis.date(row), walked, "{calendar}, row {row}");
            assert_eq!(axis.day_of_year(row), day_of_year, "{calendar}, {walked}");
            // From date to day: an axis that counts from this date starts with it.
            if row % 97 == 0 || walked.year == 1582 {
                let here = days([-(row as i64)], &walked.to_string(), calendar);
                assert_eq!(here.date(0), date("-0008-01-01"), "{calendar}, {walked}");
            }
            if walked.year == 1582 {
                seen_1582.insert(walked);
            }
            let next = next_day(calendar, walked);
            day_of_year = if next.year == walked.year {
                day_of_year + 1
            } else {
                1
            };
            walked = next;
        }
        assert!(walked.year > 2370, "{calendar} stopped at {walked}");
        for month in 0..=13 {
            for day in 0..=32 {
                let date = Date {
                    year: 1582,
                    month,
                    day,
                };
                assert_eq!(
                    calendar.contains(date),
                    seen_1582.contains(&date),
                    "{calendar} {date}"
                );
            }
        }
    }
}

#[test]
fn julian_day_numbers_are_the_published_ones() {
    // Julian day 0 in each calendar, and the day that holds JD 2451545.0 (J2000).
    for (calendar, zero, j2000) in [
        (Calendar::Standard, "-4712-01-01", "2000-01-01"),
        (Calendar::Julian, "-4712-01-01", "1999-12-19"),
        (Calendar::ProlepticGregorian, "-4713-11-24", "2000-01-01"),
    ] {
        let axis = days(
            [0, 2_299_159, 2_299_160, 2_299_161, 2_451_545],
            zero,
            calendar,
        );
        assert_eq!(axis.date(0), date(zero));
        assert_eq!(axis.date(4), date(j2000), "{calendar}");
        if calendar == Calendar::Standard {
            assert_eq!(axis.date(2), date("1582-10-04"));
            assert_eq!(axis.date(3), date("1582-10-15"));
        }
    }
}

#[test]
fn leap_days_of_each_calendar() {
    let feb_29 = |year: &str| {
        let date = date(&format!("{year}-02-29"));
        CALENDARS.map(|c| c.contains(date))
    };
    // Standard, proleptic Gregorian, Julian, noleap, all_leap, 360_day.
    assert_eq!(feb_29("2000"), [true, true, true, false, true, true]);
    assert_eq!(feb_29("1900"), [false, false, true, false, true, true]);
    assert_eq!(feb_29("1500"), [true, false, true, false, true, true]);
    assert_eq!(feb_29("1975"), [false, false, false, false, true, true]);
    assert_eq!(feb_29("0000"), [true, true, true, false, true, true]);
}
