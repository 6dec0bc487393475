//! Any time, any units.

use crate::{CALENDARS, days, label};
use burn_om4::DateRange;
use burn_om4::ocean::{Calendar, TimeAxis, TimeValues};
use proptest::prelude::*;

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
