//! Units, references and values.

use crate::label;
use burn_om4::ErrorKind;
use burn_om4::ocean::{TimeAxis, TimeValues};

#[test]
fn units_in_every_spelling() {
    let noon = "1975-01-05T12:00";
    for (value, units) in [
        (2, "days since 1975-01-03 12:00:00"),
        (2, "day since 1975-1-3 12:00"),
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
fn months_have_a_length_where_all_have_the_same() {
    for units in ["months since 1960-01-01", "month since 1960-01-01"] {
        assert_eq!(label(2, units, "360_day"), "1960-03-01T00:00");
    }
    let half = TimeAxis::decode(
        &TimeValues::Float(vec![0.5]),
        "months since 1960-01-01",
        "360_day",
    );
    assert_eq!(half.unwrap().label(0), "1960-01-16T00:00");
}

#[test]
fn an_hour_without_minutes_is_refused_because_programs_differ() {
    for units in [
        "days since 1958-01-01 12",
        "days since 1958-01-01T12Z",
        "hours since 1958-01-01 00 UTC",
    ] {
        let e = TimeAxis::decode(&TimeValues::Int(vec![0]), units, "julian").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Metadata, "{units}");
        assert!(e.to_string().contains("hour without minutes"), "{e}");
    }
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
