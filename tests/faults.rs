//! Faults in the files of a store, below the reader: what comes of each is what the book's table says.
//! One test in a program of its own, because it counts threads.
#![cfg(unix)]

use om4_test_support::faults::{FAULTS, FORMS, expected, sweep};
use om4_test_support::soak::quiet_panics;

#[test]
fn every_fault_is_one_error_in_its_place_or_none_and_leaves_nothing_behind() {
    quiet_panics();
    let dir = tempfile::tempdir().unwrap();
    // Every call is tried by the example `faults`.
    let table = sweep(dir.path(), 9, |_| {});
    assert_eq!(table.len(), FORMS.len() * FAULTS.len());
    for row in &table {
        assert!(row.calls > 20, "{row:?}");
        assert!(expected(row), "{row:?}");
    }
}
