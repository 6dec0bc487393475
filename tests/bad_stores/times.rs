//! The time coordinate.

use crate::{ROWS, TestStore, lenient, refused, says, warned};
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
    // A time chunk that is not there cannot be made up.
    let store = TestStore::good(false);
    std::fs::remove_file(store.file("time/0")).unwrap();
    let e = Store::open(store.root(), &lenient()).unwrap_err();
    says(&e, ErrorKind::MissingChunk, &["array time"]);
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
