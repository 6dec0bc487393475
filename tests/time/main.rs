//! The time axis against a day-by-day walk, published day numbers, and naive searches.

// A list of one segment is meant.
#![allow(clippy::single_range_in_vec_init)]

mod calendars;
mod properties;
mod selection;
mod text_forms;
mod units;

use burn_om4::Date;
use burn_om4::ocean::{Calendar, TimeAxis, TimeValues};

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
