//! The time axis against a day-by-day walk, published day numbers, and naive searches.

// A list of one segment is meant.
#![allow(clippy::single_range_in_vec_init)]

use burn_om4::ocean::{Calendar, DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
use burn_om4::{Date, DateRange, ErrorKind};
use proptest::prelude::*;
use std::collections::HashSet;

const CALENDARS: [Calendar; 6] = [
    Calendar::Standard,
    Calendar::ProlepticGregorian,
    Calendar::Julian,
    Calendar::NoLeap,
    Calendar::AllLeap,
    Calendar::Day360,
];

fn date(text: &str) -> Date {
    text.parse().unwrap()
}

fn days(values: impl IntoIterator<Item = i64>, since: &str, calendar: Calendar) -> TimeAxis {
    let values = TimeValues::Int(values.into_iter().collect());
    TimeAxis::decode(&values, &format!("days since {since}"), calendar.name()).unwrap()
}

fn label(value: i64, units: &str, calendar: &str) -> String {
    let axis = TimeAxis::decode(&TimeValues::Int(vec![value]), units, calendar);
    axis.unwrap().label(0)
}

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

#[test]
fn units_in_every_spelling() {
    let noon = "1975-01-05T12:00";
    for (value, units) in [
        (2, "days since 1975-01-03 12:00:00"),
        (2, "day since 1975-1-3 12"),
        (2, "d since 1975-01-03T12:00"),
        (2, "Days Since 1975-01-03T12:00:00Z"),
        (2, "days since 1975-01-03 12:00:00.000000 UTC"),
        (2, "days since 1975-01-03 12:00:0.0 +00:00"),
        (2, "  days  since  1975-01-03   12:0:0   -0:00 "),
        (60, "hours since 1975-01-03"),
        (60, "hour since 1975-01-03 UTC"),
        (60, "hrs since 1975-01-03 +0000"),
        (60, "hr since 1975-01-03"),
        (60, "h since 1975-01-03"),
        (3600, "minutes since 1975-01-03 00:00"),
        (3600, "minute since 1975-01-03"),
        (3600, "mins since 1975-01-03"),
        (3600, "min since 1975-01-03"),
        (216_000, "seconds since 1975-01-03"),
        (216_000, "second since 1975-01-03"),
        (216_000, "secs since 1975-01-03"),
        (216_000, "sec since 1975-01-03"),
        (216_000, "s since 1975-01-03"),
        (216_000_000, "milliseconds since 1975-01-03"),
        (216_000_000, "ms since 1975-01-03"),
        (216_000_000_000, "microseconds since 1975-01-03"),
        (216_000_000_000_000, "nanoseconds since 1975-01-03"),
        (215_998, "seconds since 1975-01-03 00:00:02"),
        (-36, "hours since 1975-01-07"),
    ] {
        assert_eq!(label(value, units, "julian"), noon, "{units}");
    }
}

#[test]
fn references_far_back_and_fractions() {
    assert_eq!(label(0, "days since 1-1-1", "standard"), "0001-01-01T00:00");
    assert_eq!(
        label(365, "days since 0000-01-01", "noleap"),
        "0001-01-01T00:00"
    );
    assert_eq!(
        label(719_162, "days since 0001-01-01", "proleptic_gregorian"),
        "1970-01-01T00:00"
    );
    assert_eq!(
        label(719_164, "days since 0001-01-01", "gregorian"),
        "1970-01-01T00:00"
    );
    assert_eq!(
        label(0, "days since 1958-01-01 01:02:03.25", "julian"),
        "1958-01-01T01:02:03.250000"
    );
    assert_eq!(
        label(1, "us since 1958-01-01", "julian"),
        "1958-01-01T00:00:00.000001"
    );
    assert_eq!(
        label(-1, "us since 1958-01-01", "julian"),
        "1957-12-31T23:59:59.999999"
    );
    assert_eq!(
        label(30, "s since 1958-01-01", "julian"),
        "1958-01-01T00:00:30"
    );
    // Nanoseconds round, halves up.
    assert_eq!(
        label(1499, "ns since 1958-01-01", "julian"),
        "1958-01-01T00:00:00.000001"
    );
    assert_eq!(
        label(1500, "ns since 1958-01-01", "julian"),
        "1958-01-01T00:00:00.000002"
    );
    assert_eq!(
        label(-500, "ns since 1958-01-01", "julian"),
        "1958-01-01T00:00"
    );
}

#[test]
fn unreadable_units_are_metadata_errors() {
    for units in [
        "",
        "days",
        "since 1958-01-01",
        "months since 1958-01-01",
        "years since 1958-01-01",
        "fortnights since 1958-01-01",
        "days since",
        "days since yesterday",
        "days since 1958-01",
        "days since 1958-13-01",
        "days since 1958-01-00",
        "days since 1958-01-01-01",
        "days since +1958-01-01",
        "days since 99999999999-01-01",
        "days since 1958-01-01 24:00",
        "days since 1958-01-01 12:60",
        "days since 1958-01-01 12:00:60",
        "days since 1958-01-01 12:00:00:00",
        "days since 1958-01-01 12:00:00.5.5",
        "days since 1958-01-01 12:00:00 -06:00",
        "days since 1958-01-01 12:00:00 CET",
        "days since 1958-01-01 noon",
        "days since 1958\u{a0}01-01",
        "days since 1958-01-01 12:00:00.\u{e9}",
    ] {
        let e = TimeAxis::decode(&TimeValues::Int(vec![0]), units, "julian").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Metadata, "{units}");
        assert!(e.to_string().contains(&format!("found `{units}`")), "{e}");
    }
}

#[test]
fn references_that_the_calendar_lacks_name_it() {
    for (units, calendar) in [
        ("days since 1958-02-29", "julian"),
        ("days since 1960-02-29", "noleap"),
        ("days since 1582-10-10", "standard"),
        ("days since 1960-01-31", "360_day"),
    ] {
        let e = TimeAxis::decode(&TimeValues::Int(vec![0]), units, calendar).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Metadata);
        assert!(
            e.to_string()
                .contains(&format!("a date of the {calendar} calendar")),
            "{e}"
        );
    }
    let e = TimeAxis::decode(&TimeValues::Int(vec![0]), "days since 1958-01-01", "mayan");
    assert!(e.unwrap_err().to_string().contains("`mayan`"));
}

#[test]
fn bad_values_name_their_row() {
    let float = |v: &[f64]| {
        TimeAxis::decode(
            &TimeValues::Float(v.to_vec()),
            "days since 1958-01-01",
            "julian",
        )
    };
    let int = |v: &[i64]| {
        TimeAxis::decode(
            &TimeValues::Int(v.to_vec()),
            "days since 1958-01-01",
            "julian",
        )
    };
    for (axis, row, message) in [
        (float(&[0.0, f64::NAN, 2.0]), 1, "not a finite number"),
        (float(&[0.0, 1.0, f64::INFINITY]), 2, "not a finite number"),
        (float(&[f64::NEG_INFINITY, 1.0]), 0, "not a finite number"),
        (float(&[0.0, 1e20]), 1, "out of range"),
        (float(&[-1e300, 1.0]), 0, "out of range"),
        (float(&[0.0, 9.969_209_968_386_869e36]), 1, "out of range"),
        (int(&[0, i64::MAX]), 1, "out of range"),
        (int(&[i64::MIN + 1, 0]), 0, "out of range"),
        (int(&[0, 5, i64::MIN]), 2, "missing"),
        (int(&[0, 5, 5, 10]), 2, "repeated"),
        (int(&[0, 5, 10, 9, 15]), 3, "runs back"),
        // Apart by less than a microsecond: the same moment.
        (float(&[0.0, 1e-12]), 1, "repeated"),
    ] {
        let e = axis.unwrap_err();
        assert_eq!(
            (e.kind(), e.time_row()),
            (ErrorKind::Values, Some(row)),
            "{e}"
        );
        assert!(e.to_string().contains(message), "{e}");
    }
    let e = int(&[0, 5, 3]).unwrap_err().to_string();
    assert!(
        e.contains("expected later than 1958-01-06T00:00, found 1958-01-04T00:00"),
        "{e}"
    );
    assert_eq!(int(&[]).unwrap_err().kind(), ErrorKind::Values);
    assert_eq!(float(&[]).unwrap_err().kind(), ErrorKind::Values);
}

#[test]
fn times_span_146_000_years_either_way() {
    let since_0000 = |values: &[i64]| {
        let values = TimeValues::Int(values.to_vec());
        TimeAxis::decode(&values, "microseconds since 0000-01-01", "noleap")
    };
    let farthest = i64::MAX / 2;
    let axis = since_0000(&[-farthest, farthest]).unwrap();
    assert_eq!(axis.seconds(1), farthest as f64 * 2.0 / 1e6);
    assert_eq!([axis.date(0).year, axis.date(1).year], [-146_236, 146_235]);
    for (values, row) in [([-farthest - 1, 0], 0), ([0, farthest + 1], 1)] {
        let e = since_0000(&values).unwrap_err();
        assert_eq!(e.time_row(), Some(row));
        assert!(e.to_string().contains("out of range"), "{e}");
    }
}

#[test]
fn floats_round_once_halves_up() {
    let at = |value, units| {
        TimeAxis::decode(&TimeValues::Float(vec![value]), units, "julian")
            .unwrap()
            .label(0)
    };
    let ms = "milliseconds since 1958-01-01";
    assert_eq!(at(0.0625, ms), "1958-01-01T00:00:00.000063"); // 62.5 exactly
    assert_eq!(at(-0.0625, ms), "1957-12-31T23:59:59.999938"); // -62.5 exactly
    assert_eq!(at(0.06249999999999999, ms), "1958-01-01T00:00:00.000062");
    assert_eq!(at(1.0 / 3.0, "days since 1958-01-01"), "1958-01-01T08:00");
    assert_eq!(at(6241.5, "days since 1958-01-01"), "1975-02-02T12:00");
    assert_eq!(
        at(1e-11, "days since 1958-01-01"), // 0.864 µs
        "1958-01-01T00:00:00.000001"
    );
    for tiny in [0.0, -0.0, f64::MIN_POSITIVE, -1e-300, 5e-324] {
        assert_eq!(at(tiny, ms), "1958-01-01T00:00");
    }
    // 2^56 ns: an exponent above 0 in a unit below a microsecond.
    let big = (1u64 << 56) as f64;
    assert_eq!(
        at(big, "ns since 1970-01-01"),
        label(1 << 56, "ns since 1970-01-01", "julian")
    );
}

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

#[test]
fn text_forms_round_trip_through_serde() {
    let range: DateRange = "1975-01-03..2012-12-31".parse().unwrap();
    let json = serde_json::to_string(&range).unwrap();
    assert_eq!(json, r#""1975-01-03..2012-12-31""#);
    assert_eq!(serde_json::from_str::<DateRange>(&json).unwrap(), range);
    for calendar in CALENDARS {
        let json = serde_json::to_string(&calendar).unwrap();
        assert_eq!(json, format!("\"{calendar}\""));
        assert_eq!(serde_json::from_str::<Calendar>(&json).unwrap(), calendar);
    }
    for (name, calendar) in [
        ("gregorian", Calendar::Standard),
        ("365_day", Calendar::NoLeap),
        ("366_day", Calendar::AllLeap),
        ("JULIAN", Calendar::Julian),
    ] {
        assert_eq!(name.parse::<Calendar>().unwrap(), calendar);
    }
    assert_eq!(Calendar::default(), Calendar::Standard);
    let old: Date = serde_json::from_str(r#""-0044-03-15""#).unwrap();
    assert_eq!(
        old,
        Date {
            year: -44,
            month: 3,
            day: 15
        }
    );
    assert_eq!(serde_json::to_string(&old).unwrap(), r#""-0044-03-15""#);
    for bad in [
        "",
        "1975",
        "1975-01-03",
        "1975-01-03..",
        "..1975-01-03",
        "1975-01-03..=1975-01-04",
        "1975-01-04..1975-01-03",
        "a..b",
        "1975-01-03...1975-01-04",
    ] {
        let e = bad.parse::<DateRange>().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config, "{bad}");
        assert!(serde_json::from_str::<DateRange>(&format!("\"{bad}\"")).is_err());
    }
    for bad in [
        "1975-1-1-1",
        "1975-+1-01",
        "1975-01-32",
        "1975-00-01",
        "--1-01-01",
        "1975 -01-01",
    ] {
        assert!(bad.parse::<Date>().is_err(), "{bad}");
    }
}

fn calendar() -> impl Strategy<Value = Calendar> {
    proptest::sample::select(CALENDARS.to_vec())
}

proptest! {
    /// The quotient of whole microseconds by a unit, as the nearest f64, decodes to those microseconds.
    #[test]
    fn floats_near_a_microsecond_decode_to_it(
        micros in -4_000_000_000_000_000i64..4_000_000_000_000_000,
        unit in proptest::sample::select(vec![
            ("days", 86_400_000_000i64), ("hours", 3_600_000_000), ("minutes", 60_000_000),
            ("seconds", 1_000_000), ("milliseconds", 1000), ("microseconds", 1),
        ]),
        calendar in calendar(),
    ) {
        let (name, size) = unit;
        let value = TimeValues::Float(vec![micros as f64 / size as f64]);
        let units = format!("{name} since 1958-01-01 12:00:00");
        let axis = TimeAxis::decode(&value, &units, calendar.name()).unwrap();
        let exact = label(micros, "microseconds since 1958-01-01 12:00:00", calendar.name());
        prop_assert_eq!(axis.label(0), exact);
    }

    #[test]
    fn a_selection_is_what_a_filter_keeps(
        calendar in calendar(),
        steps in proptest::collection::vec(1i64..200, 0..60),
        offset in 0i64..24,
        ends in (-3000i64..9000, 0i64..6000),
    ) {
        // Hours, so that several rows share a day.
        let hours = std::iter::once(offset).chain(steps).scan(0, |t, step| { *t += step; Some(*t) });
        let axis = TimeAxis::decode(&TimeValues::Int(hours.collect()), "hours since 1582-09-20", calendar.name()).unwrap();
        let day = |h: i64| days([h.div_euclid(24)], "1582-09-20", calendar).date(0);
        let range = DateRange { start: day(ends.0), end: day(ends.0 + ends.1) };
        let kept: Vec<usize> = (0..axis.len())
            .filter(|&row| range.start <= axis.date(row) && axis.date(row) <= range.end)
            .collect();
        match axis.select(&range) {
            Ok(rows) => prop_assert_eq!(rows.collect::<Vec<_>>(), kept),
            Err(_) => prop_assert!(kept.is_empty()),
        }
    }

    #[test]
    fn segments_join_to_the_rows_and_cut_at_gaps_only(
        steps in proptest::collection::vec(prop_oneof![4 => Just(5i64), 1 => Just(6), 1 => 7i64..60], 0..50),
        cut in (0.0..1.0f64, 0.0..1.0f64),
        factor in 1.0..4.0f64,
    ) {
        let times: Vec<i64> = std::iter::once(0).chain(steps.iter().copied()).scan(0, |t, s| { *t += s; Some(*t) }).collect();
        let axis = days(times.clone(), "1975-01-03", Calendar::Julian);
        let mut sorted: Vec<i64> = steps.clone();
        sorted.sort();
        let median = match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2] as f64,
            n => (sorted[n / 2 - 1] + sorted[n / 2]) as f64 / 2.0,
        };
        let n = times.len();
        let (a, b) = ((cut.0 * n as f64) as usize, (cut.1 * n as f64) as usize + 1);
        let rows = a.min(b)..a.max(b);
        let segments = axis.segments(rows.clone(), factor);
        let joined: Vec<usize> = segments.iter().cloned().flatten().collect();
        prop_assert_eq!(joined, rows.clone().collect::<Vec<_>>());
        let cuts: Vec<usize> = segments.iter().skip(1).map(|s| s.start).collect();
        let gaps: Vec<usize> = rows.skip(1).filter(|&r| steps[r - 1] as f64 > factor * median).collect();
        prop_assert_eq!(cuts, gaps);
    }

    #[test]
    fn seconds_and_labels_agree(minutes in 0i64..10_000_000, calendar in calendar()) {
        let values = TimeValues::Int(vec![0, minutes + 1]);
        let axis = TimeAxis::decode(&values, "minutes since 1958-01-01", calendar.name()).unwrap();
        let at = axis.datetime(1);
        prop_assert_eq!(axis.seconds(1), (minutes + 1) as f64 * 60.0);
        prop_assert_eq!(axis.seconds(0), 0.0);
        let of_day = i64::from(at.hour) * 60 + i64::from(at.minute);
        prop_assert_eq!(of_day, (minutes + 1) % 1440);
        prop_assert_eq!(axis.label(1), format!("{}T{:02}:{:02}", axis.date(1), at.hour, at.minute));
    }

    /// No text panics.
    #[test]
    fn any_units_give_an_axis_or_an_error(text in "(days|s|h)? ?(since)? ?[-0-9T:. +Zé]{0,24}", calendar in calendar()) {
        let decoded = TimeAxis::decode(&TimeValues::Float(vec![1.5]), &text, calendar.name());
        if let Ok(axis) = decoded {
            prop_assert_eq!(axis.len(), 1);
            axis.label(0);
        }
    }
}
