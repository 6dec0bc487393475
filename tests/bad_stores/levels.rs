//! Level 0 is the surface, or the store is refused.

use crate::{NX, NY, ROWS, TestStore, lenient, refused, says, strict};
use burn_om4::ErrorKind;
use burn_om4::store::{Statistics, Store};
use om4_test_support::stores::{Bend, Writer};
use serde_json::json;

fn compact(store: &TestStore, levels: u64) {
    let shape = [ROWS as u64, levels, NY as u64, NX as u64];
    let values = vec![1.0f32; shape.iter().product::<u64>() as usize];
    let dims = ["time", "lev", "y", "x"];
    let plain = Bend::default();
    store
        .writer
        .array("so", &dims, &shape, &shape, "float32", &plain, &values);
}

fn level(writer: &Writer, name: &str, values: &[f64], bend: &Bend) {
    let n = values.len() as u64;
    writer.array(name, &[name], &[n], &[n], "float64", bend, values);
}

#[test]
fn levels_run_from_the_surface_down_or_are_refused() {
    let up = Bend::attributes(json!({"positive": "up"}));
    let down = Bend::attributes(json!({"positive": "down"}));
    for flat in [false, true] {
        let build = |name: &str, values: &[f64], bend: &Bend| {
            let store = TestStore::good(true);
            if flat {
                for k in 0..3 {
                    store.flat(&format!("so_{k}"), &Bend::default());
                }
            } else {
                compact(&store, 3);
            }
            level(&store.writer, name, values, bend);
            store
        };
        for (values, bend) in [
            ([2.5, 10.0, 22.5], &down),
            ([0.0, 10.0, 22.5], &Bend::default()),
            // Heights, and depths that say the wrong direction: by their distance from the surface.
            ([-2.5, -10.0, -22.5], &up),
            ([2.5, 10.0, 22.5], &up),
            ([0.0, 1.0, 2.0], &Bend::default()),
        ] {
            let open = build("lev", &values, bend).open().unwrap();
            assert_eq!(open.grid().depths(), Some(&values[..]));
        }
        for (values, word) in [
            ([22.5, 10.0, 2.5], "10 at level 1 of [22.5, 10, 2.5]"),
            ([-22.5, -10.0, -2.5], "-10 at level 1"),
            ([2.5, 22.5, 10.0], "10 at level 2"),
            ([2.5, 2.5, 10.0], "2.5 at level 1"),
            ([2.5, f64::NAN, 10.0], "NaN at level 1"),
        ] {
            for name in ["lev", "z_l", "depth"] {
                let store = build(name, &values, &up);
                let array = format!("array {name}");
                refused(&store, ErrorKind::Values, &[&array, "surface", word]);
                assert!(Store::open(store.root(), &lenient()).is_err());
            }
        }
    }
}

#[test]
fn what_is_no_level_coordinate_is_left_alone() {
    // The depth of the sea floor, stations with depths of their own, words.
    let store = TestStore::good(true);
    compact(&store, 3);
    level(&store.writer, "lev", &[1.0, 2.0, 3.0], &Bend::default());
    let shape = [NY as u64, NX as u64];
    let bottom = vec![10.0f32; NY * NX];
    let plain = Bend::default();
    store.writer.array(
        "depth",
        &["y", "x"],
        &shape,
        &shape,
        "float32",
        &plain,
        &bottom,
    );
    store.writer.array(
        "z",
        &["station"],
        &[2],
        &[2],
        "float64",
        &plain,
        &[9.0f64, 3.0],
    );
    assert_eq!(
        store.open().unwrap().grid().depths(),
        Some(&[1.0, 2.0, 3.0][..])
    );
}

#[test]
fn statistics_by_level_run_down_too() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, depths: &[f64]| {
        let writer = Writer::new(dir.path().join(name), true);
        level(&writer, "lev", depths, &Bend::default());
        let plain = Bend::default();
        writer.array(
            "so",
            &["lev"],
            &[3],
            &[3],
            "float64",
            &plain,
            &[1.0f64, 2.0, 3.0],
        );
        writer.root
    };
    let good = write("good.zarr", &[2.5, 10.0, 22.5]);
    let bad = write("bad.zarr", &[22.5, 10.0, 2.5]);
    Statistics::open(&good, &good, &strict()).unwrap();
    let e = Statistics::open(&good, &bad, &strict()).unwrap_err();
    says(&e, ErrorKind::Values, &["array lev", "surface"]);
}
