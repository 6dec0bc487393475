//! Values, value types and marks of missing values.

use crate::{CELLS, NX, NY, ROWS, TestStore, lenient, refused, says, strict, warned};
use burn_om4::store::Store;
use burn_om4::{Channel, ErrorKind};
use om4_test_support::stores::{Bend, field, read_all};
use serde_json::json;

#[test]
fn stored_values_that_equal_the_fill_value_survive() {
    for v3 in [false, true] {
        for fill in [json!(0.0), json!(100.0), json!("NaN")] {
            for attribute in [None, Some(&fill)] {
                let store = TestStore::timed(v3);
                let number = fill.as_f64().map_or(f32::NAN, |f| f as f32);
                let values: Vec<f32> = (0..ROWS * CELLS)
                    .map(|i| {
                        if i % 3 == 0 || i < CELLS {
                            number
                        } else {
                            i as f32
                        }
                    })
                    .collect();
                let bend = Bend {
                    fields: json!({"fill_value": fill}),
                    attributes: attribute.map_or(json!({}), |a| json!({"_FillValue": a})),
                    unnamed: false,
                };
                let shape = [ROWS as u64, NY as u64, NX as u64];
                let chunk = [1, NY as u64, NX as u64];
                let dims = ["time", "y", "x"];
                store
                    .writer
                    .array("zos", &dims, &shape, &chunk, "float32", &bend, &values);
                let key = if v3 { "zos/c/2/0/0" } else { "zos/2.0.0" };
                let (found, _) = read_all(&store.open().unwrap()).unwrap();
                let bits: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
                assert_eq!(found.concat(), bits, "v3 {v3} fill {fill} {attribute:?}");
                // A missing chunk never passes for data unasked.
                std::fs::remove_file(store.file(key)).unwrap();
                let e = read_all(&store.open().unwrap()).unwrap_err();
                says(&e, ErrorKind::MissingChunk, &["zos", "time row 2"]);
                let open = Store::open(store.root(), &lenient()).unwrap();
                let (found, counts) = read_all(&open).unwrap();
                assert_eq!(counts.missing_chunks, 1);
                assert_eq!(open.missing_chunks().len(), 1);
                assert!(
                    found[2].iter().all(|b| *b == number.to_bits()),
                    "v3 {v3} fill {fill}"
                );
                assert_eq!(found[3], bits[3 * CELLS..4 * CELLS]);
            }
        }
    }
}

#[test]
fn marks_of_missing_values_read_as_nan_and_unmarked_ones_are_reported() {
    for (v3, mark) in [
        (false, json!({"missing_value": 1e20, "_FillValue": 1e20})),
        (true, json!({"_FillValue": "QIy1eB2vFUQ="})),
        (true, json!({"missing_value": [1e20]})),
        (false, json!({"_FillValue": 9.969209968386869e36})),
    ] {
        for marked in [true, false] {
            let store = TestStore::timed(v3);
            let sentinel = if mark.to_string().contains("e+36") {
                9.969_209_968_386_869e36f64 as f32
            } else {
                1e20
            };
            let mut values = field("zos", 0, ROWS, NY, NX);
            values[CELLS + 1] = sentinel;
            let attributes = if marked { mark.clone() } else { json!({}) };
            let bend = Bend::attributes(attributes);
            let shape = [ROWS as u64, NY as u64, NX as u64];
            let dims = ["time", "y", "x"];
            store
                .writer
                .array("zos", &dims, &shape, &[2, 3, 4], "float32", &bend, &values);
            store.writer.array(
                "mask_0",
                &["y", "x"],
                &[3, 4],
                &[3, 4],
                "int8",
                &Bend::default(),
                &[1i8; CELLS],
            );
            let open = store.open().unwrap();
            let (found, _) = read_all(&open).unwrap();
            let zos: Channel = "zos".parse().unwrap();
            let report = open.check_mask(&zos, 1).unwrap();
            if marked {
                assert!(
                    f32::from_bits(found[1][1]).is_nan(),
                    "{mark} {} {:?}",
                    f32::from_bits(found[1][1]),
                    open.warnings()
                );
                assert_eq!(report.extreme_in_ocean, 0);
                warned(&open, &["array zos", "marked as missing"]);
            } else {
                assert_eq!(found[1][1], sentinel.to_bits());
                assert_eq!(report.extreme_in_ocean, 1);
                assert!(!report.is_clean());
            }
            assert_eq!(found[1][2], values[CELLS + 2].to_bits());
        }
    }
}

#[test]
fn other_value_types_and_packing_are_refused_before_any_read() {
    for v3 in [false, true] {
        let shape = [ROWS as u64, NY as u64, NX as u64];
        let dims = ["time", "y", "x"];
        for dtype in ["int16", "float64", "uint8"] {
            let store = TestStore::good(v3);
            store
                .writer
                .document("hfds", &dims, &shape, &shape, dtype, &Bend::default());
            refused(
                &store,
                ErrorKind::Metadata,
                &["array hfds", "float32", "found"],
            );
        }
        for packing in ["scale_factor", "add_offset"] {
            let store = TestStore::timed(v3);
            store.flat("zos", &Bend::attributes(json!({packing: 0.5})));
            refused(&store, ErrorKind::Metadata, &["array zos", packing, "0.5"]);
        }
    }
    let store = TestStore::good(false);
    store.flat("hfds", &Bend::default());
    store
        .writer
        .edit("hfds", |d| drop(d.insert("dtype".into(), json!("<f2"))));
    refused(&store, ErrorKind::Metadata, &["hfds", "<f2"]);
}

#[test]
fn what_nobody_asked_for_may_be_anything() {
    let store = TestStore::good(false);
    let dims = ["time", "y", "x"];
    let shape = [ROWS as u64, NY as u64, NX as u64];
    store
        .writer
        .document("packed", &dims, &shape, &shape, "int16", &Bend::default());
    store.writer.document(
        "v_edge",
        &["time", "yq", "xq"],
        &[6, 4, 5],
        &[1, 4, 5],
        "float32",
        &Bend::default(),
    );
    assert!(store.open().is_err());
    let zos: Channel = "zos".parse().unwrap();
    let only = strict().with_channels([zos.clone()]);
    let open = Store::open(store.root(), &only).unwrap();
    assert_eq!(open.channels(), std::slice::from_ref(&zos));
    read_all(&open).unwrap();
    let both = strict().with_channels([zos, "so_3".parse().unwrap()]);
    let e = Store::open(store.root(), &both).unwrap_err();
    says(
        &e,
        ErrorKind::Metadata,
        &["so_3", "[packed, time, v_edge, zos]"],
    );
}
