//! The time coordinate.

use crate::{ROWS, TestStore, lenient, refused, says, strict, warned};
use burn_om4::ErrorKind;
use burn_om4::store::Store;
use om4_test_support::stores::Bend;
use serde_json::json;

#[test]
fn times_must_be_there_decodable_and_increasing() {
    let store = TestStore::bare(false);
    store.flat("zos", &Bend::default());
    refused(
        &store,
        ErrorKind::Metadata,
        &["array time", "no time coordinate"],
    );
    for (days, row) in [
        ([0.0, 5.0, 10.0, 7.0, 20.0, 25.0], 3),
        ([0.0, 5.0, 5.0, 10.0, 20.0, 25.0], 2),
        ([0.0, 5.0, 10.0, 15.0, f64::NAN, 25.0], 4),
    ] {
        let store = TestStore::good(false);
        store.writer.time(&days);
        refused(
            &store,
            ErrorKind::Values,
            &["array time", &format!("row {row}")],
        );
    }
    for attributes in [
        json!({}),
        json!({"units": "parsecs since 1958-01-01"}),
        json!({"units": "days since never"}),
    ] {
        let store = TestStore::good(true);
        let days: Vec<f64> = (0..ROWS).map(|i| i as f64).collect();
        let bend = Bend::attributes(attributes);
        store
            .writer
            .array("time", &["time"], &[6], &[6], "float64", &bend, &days);
        let e = store.open().unwrap_err();
        says(&e, e.kind(), &["array time", "units"]);
    }
    let store = TestStore::good(false);
    store
        .writer
        .edit("time", |d| drop(d.insert("dtype".into(), json!("<M8[ns]"))));
    refused(&store, ErrorKind::Metadata, &["array time", "<M8[ns]"]);
    // A time chunk that is not there is its fill value, here NaN.
    let store = TestStore::good(false);
    std::fs::remove_file(store.file("time/0")).unwrap();
    for options in [strict(), lenient()] {
        let e = Store::open(store.root(), &options).unwrap_err();
        says(&e, ErrorKind::Values, &["array time", "time row 0"]);
    }
    // Without a fill value there is nothing that could stand for it.
    store
        .writer
        .edit("time", |d| drop(d.insert("fill_value".into(), json!(null))));
    for options in [strict(), lenient()] {
        let e = Store::open(store.root(), &options).unwrap_err();
        says(
            &e,
            ErrorKind::MissingChunk,
            &["array time", "no fill value"],
        );
    }
}

#[test]
fn integer_times_and_a_missing_calendar_are_read_as_cf_says() {
    let store = TestStore::timed(false);
    store.flat("zos", &Bend::default());
    let bend = Bend::attributes(json!({"units": "hours since 2000-02-28 12:00:00"}));
    let hours: Vec<i32> = (0..ROWS as i32).map(|i| 24 * i).collect();
    store
        .writer
        .array("time", &["time"], &[6], &[4], "int32", &bend, &hours);
    let open = store.open().unwrap();
    let date = open.time().date(1);
    assert_eq!((date.month, date.day), (2, 29));
    warned(&open, &["calendar"]);
}

#[test]
fn a_first_time_of_zero_may_be_left_out_and_a_missing_one_is_named() {
    for v3 in [false, true] {
        let store = TestStore::bare(v3);
        store.flat("zos", &Bend::default());
        let units = json!({"units": "days since 1958-01-01", "calendar": "julian"});
        let days: Vec<i64> = (0..ROWS as i64).map(|i| 5 * i).collect();
        let bend = Bend::attributes(units.clone());
        let time = |days: &[i64], bend: &Bend| {
            let writer = &store.writer;
            writer.array("time", &["time"], &[6], &[1], "int64", bend, days);
        };
        time(&days, &bend);
        let first = if v3 { "time/c/0" } else { "time/0" };
        std::fs::remove_file(store.file(first)).unwrap();
        let open = store.open().unwrap();
        let label = open.time().label(0);
        assert_eq!(label, "1958-01-01T00:00", "v3 {v3}");
        warned(&open, &["array time, chunk time/", "fill value 0"]);
        for named in ["_FillValue", "missing_value"] {
            let mut bend = Bend::attributes(units.clone());
            bend.attributes[named] = json!(-9999);
            let days = [&days[..5], &[-9999]].concat();
            time(&days, &bend);
            let words = ["array time", "time row 5", "a time is missing", "-9999"];
            refused(&store, ErrorKind::Values, &words);
        }
    }
}
