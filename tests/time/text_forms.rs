//! Text forms of dates, ranges and calendars.

use crate::CALENDARS;
use burn_om4::ocean::Calendar;
use burn_om4::{Date, DateRange, ErrorKind};

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
