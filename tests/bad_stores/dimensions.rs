//! Dimensions, shapes and channels.

use crate::{CELLS, NX, NY, ROWS, TestStore, refused, warned};
use burn_om4::{Channel, ErrorKind};
use om4_test_support::stores::{Bend, field, plane_bits, read, read_all};

#[test]
fn known_dimension_names_are_accepted_and_others_named() {
    let (t, y, x) = (ROWS as u64, NY as u64, NX as u64);
    for dims in [
        ["time", "y", "x"],
        ["time", "lat", "lon"],
        ["time", "latitude", "longitude"],
        ["time", "yh", "xh"],
    ] {
        let store = TestStore::timed(true);
        let values = field("zos", 0, ROWS, NY, NX);
        store.writer.array(
            "zos",
            &dims,
            &[t, y, x],
            &[1, y, x],
            "float32",
            &Bend::default(),
            &values,
        );
        let (found, _) = read_all(&store.open().unwrap()).unwrap();
        assert_eq!(found[4], plane_bits("zos", 0, 4, CELLS), "{dims:?}");
    }
    for v3 in [false, true] {
        for dims in [
            &["time", "x", "y"][..],
            &["y", "x", "time"],
            &["time", "yq", "xq"],
            &["time", "y", "x", "lev"],
            &["y", "time", "lev", "x"],
            &["time", "time", "y", "x"],
        ] {
            let store = TestStore::timed(v3);
            let shape = vec![ROWS as u64; dims.len()];
            store
                .writer
                .document("zos", dims, &shape, &shape, "float32", &Bend::default());
            let found = format!("({})", dims.join(", "));
            refused(
                &store,
                ErrorKind::Metadata,
                &["array zos", &found, "(time, level, y, x)"],
            );
        }
    }
}

#[test]
fn dimensions_without_names_are_recognised_by_extent_or_refused() {
    let unnamed = Bend {
        unnamed: true,
        ..Bend::default()
    };
    for v3 in [false, true] {
        let store = TestStore::timed(v3);
        store.flat("zos", &unnamed);
        let open = store.open().unwrap();
        warned(&open, &["array zos", "without names"]);
        assert_eq!(
            read_all(&open).unwrap().0[2],
            plane_bits("zos", 0, 2, CELLS)
        );
        // As many levels as rows: nobody can tell.
        let (t, y, x) = (ROWS as u64, NY as u64, NX as u64);
        store
            .writer
            .document("so", &[], &[t, t, y, x], &[1, 1, y, x], "float32", &unnamed);
        refused(&store, ErrorKind::Metadata, &["array so", "without names"]);
    }
}

#[test]
fn extents_must_agree_with_grid_time_and_levels() {
    let case = |name: &str, dims: &[&str], shape: &[u64], words: &[&str]| {
        let store = TestStore::good(false);
        let lev = [2.5f64, 10.0];
        store.writer.array(
            "lev",
            &["lev"],
            &[2],
            &[2],
            "float64",
            &Bend::default(),
            &lev,
        );
        let chunk: Vec<u64> = shape.iter().map(|n| (*n).max(1)).collect();
        store
            .writer
            .document(name, dims, shape, &chunk, "float32", &Bend::default());
        refused(&store, ErrorKind::Metadata, words);
    };
    let flat = ["time", "y", "x"];
    let compact = ["lev", "time", "y", "x"];
    case(
        "zzz",
        &flat,
        &[6, 3, 5],
        &["array zzz", "expected 3 x 4", "[6, 3, 5]"],
    );
    case(
        "zzz",
        &flat,
        &[7, 3, 4],
        &["array zzz", "time", "expected 6", "found 7"],
    );
    case("zzz", &flat, &[6, 0, 4], &["array zzz", "zero"]);
    case("zzz", &flat, &[0, 3, 4], &["array zzz", "zero"]);
    case(
        "zzz",
        &compact,
        &[3, 6, 3, 4],
        &["array zzz", "levels", "lev", "expected 2", "found 3"],
    );
    case("zzz", &compact, &[0, 6, 3, 4], &["array zzz", "zero"]);
    case(
        "thetao_1",
        &compact,
        &[2, 6, 3, 4],
        &["array thetao_1", "level in its name"],
    );
    // Without a level coordinate the compact arrays must agree with each other.
    let store = TestStore::good(false);
    for (name, levels) in [("so", 2), ("uo", 3)] {
        let shape = [6, levels, 3, 4];
        let dims = ["time", "lev", "y", "x"];
        let values = vec![1.0f32; shape.iter().product::<u64>() as usize];
        store.writer.array(
            name,
            &dims,
            &shape,
            &shape,
            "float32",
            &Bend::default(),
            &values,
        );
    }
    refused(
        &store,
        ErrorKind::Metadata,
        &["array uo", "array so", "expected 2", "found 3"],
    );
}

#[test]
fn a_channel_must_be_there_once() {
    let compact = |store: &TestStore| {
        let shape = [6, 2, 3, 4];
        let dims = ["time", "lev", "y", "x"];
        let values = vec![1.0f32; 6 * 2 * 12];
        store.writer.array(
            "so",
            &dims,
            &shape,
            &shape,
            "float32",
            &Bend::default(),
            &values,
        );
    };
    let store = TestStore::good(false);
    compact(&store);
    store.flat("so_1", &Bend::default());
    refused(
        &store,
        ErrorKind::Metadata,
        &["array so_1", "twice", "array so"],
    );
    let store = TestStore::good(true);
    store.flat("so_1", &Bend::default());
    store.flat("so_lev_10_0", &Bend::default());
    refused(
        &store,
        ErrorKind::Metadata,
        &["array so_lev_10_0", "twice", "so_1"],
    );
    let store = TestStore::good(true);
    store.flat("so_lev_11_0", &Bend::default());
    refused(
        &store,
        ErrorKind::Metadata,
        &["array so_lev_11_0", "11 m", "OM4 level"],
    );
    // Older names on their own are fine.
    let store = TestStore::timed(true);
    store.flat("so_lev_6000_0", &Bend::default());
    store.flat("so_lev_2_5", &Bend::default());
    let open = store.open().unwrap();
    assert_eq!(
        open.channels(),
        [Channel::at_level("so", 0), Channel::at_level("so", 18)]
    );
    assert_eq!(
        read(&open, &[1], &[1]).unwrap().0[0],
        plane_bits("so_lev_6000_0", 0, 1, CELLS)
    );
}
