//! Metadata documents and coordinates.

use crate::{check_values, dir, document, read, small};
use burn_om4::Date;
use burn_om4::ocean::Calendar;
use burn_om4::synth::{Consolidation, Format, Layout, Separator, SynthOptions, TimeEncoding};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All metadata documents below a group, by key.
fn documents(root: &Path, format: Format) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        match format {
            Format::V2 if path.is_dir() => {
                for file in [".zarray", ".zattrs"] {
                    out.insert(format!("{name}/{file}"), document(path.join(file)));
                }
            }
            Format::V2 if name != ".zmetadata" => drop(out.insert(name, document(path))),
            Format::V3 if path.is_dir() => drop(out.insert(name, document(path.join("zarr.json")))),
            _ => {}
        }
    }
    out
}

#[test]
fn consolidated_metadata_is_a_copy_of_all_metadata() {
    for store in ["OM4.zarr", "OM4_means.zarr", "OM4_stds.zarr"] {
        let dir = dir();
        small().write(&dir).unwrap();
        let root = dir.path().join(store);
        let all = document(root.join(".zmetadata"));
        assert_eq!(all["zarr_consolidated_format"], 1);
        assert_eq!(
            all["metadata"],
            json!(documents(&root, Format::V2)),
            "{store}"
        );

        let dir = self::dir();
        small().with_format(Format::V3).write(&dir).unwrap();
        let root = dir.path().join(store);
        let group = document(root.join("zarr.json"));
        assert_eq!(group["node_type"], "group");
        let inline = &group["consolidated_metadata"];
        assert_eq!(
            (&inline["kind"], &inline["must_understand"]),
            (&json!("inline"), &json!(false))
        );
        assert_eq!(
            inline["metadata"],
            json!(documents(&root, Format::V3)),
            "{store}"
        );
    }
}

#[test]
fn consolidation_and_separators_can_differ() {
    for (format, file) in [(Format::V2, ".zmetadata"), (Format::V3, "zarr.json")] {
        for (separator, v2_key, v3_key) in [
            (Separator::Dot, "1.0.0", "c.1.0.0"),
            (Separator::Slash, "1/0/0", "c/1/0/0"),
        ] {
            let dir = dir();
            let options = small()
                .with_format(format)
                .with_separator(separator)
                .with_consolidation(Consolidation::Separate);
            options.write(&dir).unwrap();
            let store = dir.path().join("OM4.zarr");
            match format {
                Format::V2 => assert!(!store.join(file).exists()),
                Format::V3 => {
                    assert_eq!(
                        document(store.join(file)).get("consolidated_metadata"),
                        None
                    );
                }
            }
            let key = if format == Format::V2 { v2_key } else { v3_key };
            assert!(store.join("zos").join(key).is_file(), "{key}");
            check_values(&store, &options, Layout::Flat, key);
        }
    }
}

#[test]
fn time_can_be_written_in_every_calendar() {
    let days = |options: SynthOptions, float: bool| -> (Vec<f64>, String) {
        let dir = dir();
        options.write(&dir).unwrap();
        let store = dir.path().join("OM4.zarr");
        let values = match float {
            true => read::<f64>(&store, "time").1,
            false => read::<i64>(&store, "time")
                .1
                .iter()
                .map(|v| *v as f64)
                .collect(),
        };
        let attributes = document(store.join("time/.zattrs"));
        let text = |key: &str| attributes[key].as_str().unwrap().to_string();
        (values, format!("{} {}", text("calendar"), text("units")))
    };
    let february = Date {
        year: 1960,
        month: 2,
        day: 22,
    };
    // 22 and 27 February, 4 and 9 March.
    for (calendar, name, leap) in [
        (Calendar::Julian, "julian", 1.0),
        (Calendar::Standard, "standard", 1.0),
        (Calendar::ProlepticGregorian, "proleptic_gregorian", 1.0),
        (Calendar::NoLeap, "noleap", 0.0),
        (Calendar::AllLeap, "all_leap", 1.0),
        (Calendar::Day360, "360_day", 0.0),
    ] {
        let options = small().with_calendar(calendar).with_start(february);
        let (values, about) = days(options.clone(), false);
        assert_eq!(values, [0.0, 5.0, 10.0 + leap, 15.0 + leap], "{name}");
        assert_eq!(
            about,
            format!("{name} days since 1960-02-22 12:00:00.000000")
        );
        let (values, about) = days(options.with_time(TimeEncoding::Float), true);
        let first = if calendar == Calendar::Day360 {
            51.5
        } else {
            52.5
        };
        assert_eq!(
            values,
            [0.0, 5.0, 10.0 + leap, 15.0 + leap].map(|d| first + d)
        );
        assert_eq!(about, format!("{name} days since 1960-01-01"));
    }
}

#[test]
fn coordinates_are_those_of_the_grid() {
    let dir = dir();
    // Larger than the published chunks of 90 by 360, so that coordinates have partial chunks.
    let options = SynthOptions::new(100, 370)
        .with_levels(2)
        .with_rows(1)
        .with_variables(&[], &["zos"]);
    options.write(&dir).unwrap();
    let store = dir.path().join("OM4.zarr");
    assert_eq!(
        document(store.join("lat/.zarray"))["chunks"],
        json!([90, 360])
    );
    assert_eq!(
        document(store.join("lat_b/.zarray"))["chunks"],
        json!([91, 361])
    );
    let (shape, lat) = read::<f64>(&store, "lat");
    assert_eq!(shape, [100, 370]);
    let (y, x) = (read::<f64>(&store, "y").1, read::<f64>(&store, "x").1);
    let (lon, edges) = (read::<f64>(&store, "lon").1, read::<f64>(&store, "lat_b").1);
    for row in 0..100 {
        for column in 0..370 {
            assert_eq!(lat[row * 370 + column], y[row]);
            assert_eq!(lon[row * 370 + column], x[column]);
            let (south, north) = (edges[row * 371 + column], edges[(row + 1) * 371 + column]);
            assert!(south < y[row] && y[row] < north);
        }
    }
    assert!(y.windows(2).all(|w| w[0] < w[1]) && (x[369] + x[0] - 360.0).abs() < 1e-9);
    assert_eq!(read::<f64>(&store, "lev").1, [2.5, 10.0]);
    assert_eq!(read::<f64>(&store, "dz").1, [5.0, 10.0]);
    let area: f64 = read::<f64>(&store, "areacello").1.iter().sum();
    assert!((area / 5.1006e14 - 1.0).abs() < 1e-3, "{area}");
}
