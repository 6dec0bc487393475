//! Selections and gaps.

use crate::{CALENDARS, date, days};
use burn_om4::ocean::{Calendar, DEFAULT_GAP_FACTOR};
use burn_om4::{DateRange, ErrorKind};

#[test]
fn selection_is_by_whole_days_whatever_the_hour() {
    for since in [
        "1975-01-03",
        "1975-01-03 12:00",
        "1975-01-03 23:59:59.999999",
    ] {
        let axis = days([0, 5, 10, 15], since, Calendar::Julian);
        let select = |range: &str| axis.select(&range.parse().unwrap());
        assert_eq!(select("1975-01-08..1975-01-13").unwrap(), 1..3);
        assert_eq!(select("1975-01-04..1975-01-12").unwrap(), 1..2);
        assert_eq!(select("1975-01-03..1975-01-03").unwrap(), 0..1);
        assert_eq!(select("0001-01-01..9999-12-31").unwrap(), 0..4);
        for outside in [
            "1974-01-01..1975-01-02",
            "1975-01-19..1980-01-01",
            "1975-01-04..1975-01-07",
        ] {
            let e = select(outside).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config);
            assert!(e.to_string().contains("from 1975-01-03T"), "{e}");
            assert!(e.to_string().contains(outside), "{e}");
        }
    }
}

#[test]
fn selection_refuses_dates_the_calendar_lacks() {
    let range = |start: &str, end: &str| DateRange {
        start: date(start),
        end: date(end),
    };
    for (calendar, bad) in [
        (Calendar::NoLeap, "2000-02-29"),
        (Calendar::Julian, "2000-02-30"),
        (Calendar::Day360, "2000-01-31"),
        (Calendar::Standard, "1582-10-10"),
    ] {
        let axis = days(0..900_000, "0001-01-01", calendar);
        for range in [range(bad, "2100-01-01"), range("0100-01-01", bad)] {
            let e = axis.select(&range).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config);
            let says = format!("a date of the {calendar} calendar, found {bad}");
            assert!(e.to_string().contains(&says), "{e}");
        }
    }
    let axis = days(0..900_000, "0001-01-01", Calendar::Day360);
    assert_eq!(
        axis.select(&range("0001-02-30", "0001-02-30")).unwrap(),
        59..60
    );
    let e = axis.select(&range("0002-01-01", "0001-01-01")).unwrap_err();
    assert!(e.to_string().contains("ends before it starts"), "{e}");
}

#[test]
fn a_year_slice_has_the_year_and_its_leap_day() {
    for (calendar, year_days) in CALENDARS.into_iter().zip([366, 366, 366, 365, 366, 360]) {
        let axis = days(0..4000, "1995-06-01 12:00", calendar);
        let last = if calendar == Calendar::Day360 {
            "30"
        } else {
            "31"
        };
        let range = format!("2000-01-01..2000-12-{last}").parse().unwrap();
        let rows = axis.select(&range).unwrap();
        assert_eq!(rows.len(), year_days, "{calendar}");
        let ends = [rows.start, rows.end - 1].map(|row| axis.day_of_year(row));
        assert_eq!(ends, [1, year_days as u16], "{calendar}");
    }
}

#[test]
fn gaps_cut_and_ordinary_unevenness_does_not() {
    // OM4: 5-day steps with 6-day ones. Then a lost month.
    let axis = days(
        [0, 5, 10, 16, 21, 51, 56, 61],
        "1975-01-03",
        Calendar::Julian,
    );
    assert_eq!(axis.segments(0..8, DEFAULT_GAP_FACTOR), [0..5, 5..8]);
    assert_eq!(axis.segments(3..6, DEFAULT_GAP_FACTOR), [3..5, 5..6]);
    assert_eq!(axis.segments(5..8, DEFAULT_GAP_FACTOR), [5..8]);
    assert_eq!(axis.segments(0..8, 7.0), [0..8]);
    assert_eq!(axis.segments(0..8, f64::INFINITY), [0..8]);
    assert_eq!(axis.segments(0..8, 1.1), [0..3, 3..5, 5..8]);
    assert!(axis.segments(4..4, DEFAULT_GAP_FACTOR).is_empty());
    // Mid-months, with a March missing.
    let axis = days(
        [
            15, 46, 74, 105, 135, 166, 196, 227, 258, 288, 319, 349, 380, 411, 470,
        ],
        "2001-01-01",
        Calendar::NoLeap,
    );
    assert_eq!(axis.segments(0..15, DEFAULT_GAP_FACTOR), [0..14, 14..15]);
    // Exactly the factor is not a gap; the median of two steps lies between them.
    let axis = days([0, 2, 4, 6, 9], "1975-01-03", Calendar::Julian);
    assert_eq!(axis.segments(0..5, 1.5), [0..5]);
    let axis = days([0, 2, 6], "1975-01-03", Calendar::Julian);
    assert_eq!(axis.segments(0..3, 1.3), [0..2, 2..3]);
    assert_eq!(axis.segments(0..3, 1.4), [0..3]);
    let one = days([0], "1975-01-03", Calendar::Julian);
    assert_eq!(one.segments(0..1, DEFAULT_GAP_FACTOR), [0..1]);
}
