//! Opening stores: the fixtures in every layout, the real data, masks, grids, statistics.

use burn_om4::ocean::{AreaSource, Coordinate, DEPTHS};
use burn_om4::store::{OpenOptions, Statistics, Store, WetMasks, ZarrFormat};
use burn_om4::{Channel, ErrorKind, Strictness};
use om4_test_support::shared;
use om4_test_support::stores::{Bend, Writer};
use serde_json::json;
use std::path::{Path, PathBuf};

fn lenient() -> OpenOptions {
    OpenOptions::default().with_strictness(Strictness::Lenient)
}

/// Every fixture store: (dataset, layout, path of the folder with OM4.zarr).
fn fixtures() -> Vec<(String, String, PathBuf)> {
    let Some(root) = shared("fixtures/batches/stores") else {
        return Vec::new();
    };
    let children = |dir: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.is_dir())
            .collect();
        paths.sort();
        paths
    };
    let name = |p: &Path| p.file_name().unwrap().to_str().unwrap().to_owned();
    let mut stores = Vec::new();
    for dataset in children(&root) {
        for store in children(&dataset) {
            stores.push((name(&dataset), name(&store), store));
        }
    }
    assert_eq!(stores.len(), 15, "fixtures");
    stores
}

fn by_dataset() -> Vec<Vec<(String, PathBuf)>> {
    let mut groups: Vec<(String, Vec<(String, PathBuf)>)> = Vec::new();
    for (dataset, layout, path) in fixtures() {
        match groups.iter_mut().find(|(d, _)| *d == dataset) {
            Some((_, group)) => group.push((layout, path)),
            None => groups.push((dataset, vec![(layout, path)])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[test]
fn every_fixture_opens_strictly_and_without_warnings() {
    for (dataset, layout, path) in fixtures() {
        let store = Store::open(path.join("OM4.zarr"), &OpenOptions::default()).unwrap();
        assert_eq!(store.warnings(), &[] as &[String], "{dataset}/{layout}");
        let format = if layout.contains("v3") {
            ZarrFormat::V3
        } else {
            ZarrFormat::V2
        };
        assert_eq!(store.format(), format);
        Store::open(path.join("OM4.zarr"), &lenient()).unwrap();
    }
}

#[test]
fn layouts_of_one_dataset_have_the_same_channels_times_grid_and_masks() {
    for group in by_dataset() {
        let open = |path: &Path| Store::open(path.join("OM4.zarr"), &lenient()).unwrap();
        let first = open(&group[0].1);
        let levels = first.masks().levels().len();
        assert!(levels >= 1);
        for (layout, path) in &group[1..] {
            let store = open(path);
            assert_eq!(store.channels(), first.channels(), "{layout}");
            let times = |s: &Store| -> Vec<f64> {
                (0..s.time().len()).map(|r| s.time().seconds(r)).collect()
            };
            let days =
                |s: &Store| -> Vec<_> { (0..s.time().len()).map(|r| s.time().date(r)).collect() };
            assert_eq!(days(&store), days(&first), "{layout}");
            let steps =
                |s: &Store| -> Vec<f64> { times(s).windows(2).map(|w| w[1] - w[0]).collect() };
            assert_eq!(steps(&store), steps(&first), "{layout}");
            assert_eq!(store.time().calendar(), first.time().calendar());
            assert_eq!(store.grid(), first.grid(), "{layout}");
            assert_eq!(store.masks().levels().len(), levels, "{layout}");
            for level in 0..levels {
                assert_eq!(
                    store.wet_mask(level).unwrap(),
                    first.wet_mask(level).unwrap(),
                    "{layout} level {level}"
                );
            }
            for channel in store.channels() {
                assert_eq!(
                    store.unit(channel),
                    first.unit(channel),
                    "{layout} {channel}"
                );
            }
        }
    }
}

#[test]
fn statistics_are_the_same_in_every_layout() {
    for group in by_dataset() {
        let open = |path: &Path| {
            let [means, stds] = ["OM4_means.zarr", "OM4_stds.zarr"].map(|n| path.join(n));
            Statistics::open(means, stds, &lenient()).unwrap()
        };
        let first = open(&group[0].1);
        let channels: Vec<Channel> = {
            let store = Store::open(group[0].1.join("OM4.zarr"), &lenient()).unwrap();
            store.channels().to_vec()
        };
        for (layout, path) in &group {
            let statistics = open(path);
            for channel in &channels {
                let bits = |s: &Statistics| {
                    let one = s.get(channel).unwrap();
                    [one.mean.to_bits(), one.std.to_bits()]
                };
                assert_eq!(bits(&statistics), bits(&first), "{layout} {channel}");
            }
        }
    }
}

#[test]
fn statistics_are_the_numbers_in_the_files() {
    let Some(path) = shared("fixtures/batches/stores/A/flat_v2_none") else {
        return;
    };
    let number = |file: &str| {
        let bytes = std::fs::read(path.join(file)).unwrap();
        f32::from_le_bytes(bytes.try_into().unwrap())
    };
    let [means, stds] = ["OM4_means.zarr", "OM4_stds.zarr"].map(|n| path.join(n));
    let statistics = Statistics::open(means, stds, &OpenOptions::default()).unwrap();
    for name in ["thetao_0", "so_5", "zos", "hfds"] {
        let one = statistics.get(&name.parse().unwrap()).unwrap();
        assert_eq!(one.mean, number(&format!("OM4_means.zarr/{name}/0")));
        assert_eq!(one.std, number(&format!("OM4_stds.zarr/{name}/0")));
    }
}

#[test]
fn strict_statistics_refuse_a_zero_std_when_the_channel_is_wanted() {
    let Some(path) = shared("fixtures/batches/stores/B/flat_v2_none") else {
        return;
    };
    let [means, stds] = ["OM4_means.zarr", "OM4_stds.zarr"].map(|n| path.join(n));
    let constant: Channel = "so_2".parse().unwrap();
    let strict = Statistics::open(&means, &stds, &OpenOptions::default()).unwrap();
    let e = strict.get(&constant).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Values);
    assert!(
        e.to_string().contains("so_2") && e.to_string().contains("OM4_stds.zarr"),
        "{e}"
    );
    let wanted = OpenOptions::default().with_channels([constant.clone()]);
    assert!(Statistics::open(&means, &stds, &wanted).is_err());
    let statistics = Statistics::open(&means, &stds, &lenient()).unwrap();
    assert_eq!(statistics.get(&constant).unwrap().std, 0.0);
    let e = statistics.get(&"nope_3".parse().unwrap()).unwrap_err();
    assert!(e.to_string().contains("nope_3"), "{e}");
}

#[test]
fn float64_statistics_are_rounded_once() {
    let Some(path) = shared("fixtures/batches/stores/E/flat_v2_none") else {
        return;
    };
    let bytes = std::fs::read(path.join("OM4_stds.zarr/thetao_0/0")).unwrap();
    let wide = f64::from_le_bytes(bytes.try_into().unwrap());
    let [means, stds] = ["OM4_means.zarr", "OM4_stds.zarr"].map(|n| path.join(n));
    let statistics = Statistics::open(means, stds, &OpenOptions::default()).unwrap();
    let one = statistics.get(&"thetao_0".parse().unwrap()).unwrap();
    assert_eq!(one.std, wide as f32);
}

#[test]
fn the_published_layout_is_read_as_documented() {
    let Some(path) = shared("fixtures/batches/stores/A/flat_v2_none/OM4.zarr") else {
        return;
    };
    let store = Store::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!((store.grid().ny(), store.grid().nx()), (12, 24));
    assert_eq!(store.time().len(), 28);
    assert_eq!(store.channels().len(), 4 * 6 + 4);
    let thetao: Channel = "thetao_0".parse().unwrap();
    assert_eq!(store.unit(&thetao), Some("degC"));
    assert_eq!(
        store.long_name(&thetao),
        Some("Sea Water Potential Temperature level-0")
    );
    assert_eq!(store.unit(&"nope".parse().unwrap()), None);
    assert!(matches!(store.grid().latitude(), Some(Coordinate::Plane(v)) if v.len() == 288));
    let weights = store.grid().cell_area_weights().unwrap();
    assert_eq!(weights.source, AreaSource::CellArea);
    assert_eq!(weights.weights.len(), 288);
    // The mask is stored as bytes: the file itself is the oracle.
    let bytes = std::fs::read(path.join("mask_3/0.0")).unwrap();
    let wet: Vec<bool> = bytes.iter().map(|b| *b != 0).collect();
    let mask = store.wet_mask(3).unwrap();
    assert_eq!(mask.as_slice(), wet);
    assert!(mask.wet_count() > 0 && mask.wet_count() < 288);
    let e = store.wet_mask(6).unwrap_err().to_string();
    assert!(e.contains("mask_6") && e.contains("0 to 5"), "{e}");
}

#[test]
fn the_real_stores_open_in_both_formats() {
    for format in ["ersst_2deg_v2", "ersst_2deg_v3"] {
        let Some(path) = shared(&format!("data/{format}")) else {
            return;
        };
        let store = Store::open(path.join("OM4.zarr"), &OpenOptions::default()).unwrap();
        assert_eq!(store.warnings(), &[] as &[String]);
        assert_eq!((store.grid().ny(), store.grid().nx()), (89, 180));
        assert_eq!(store.time().len(), 128);
        let names: Vec<_> = store.channels().iter().map(Channel::name).collect();
        assert_eq!(names, ["insolation", "thetao_0"]);
        let (first, last) = (store.time().date(0), store.time().date(127));
        assert_eq!((first.year, first.month), (2010, 1));
        assert_eq!((last.year, last.month), (2020, 8));
        let report = store.check_mask(&"thetao_0".parse().unwrap(), 5).unwrap();
        assert_eq!(report.wet, store.wet_mask(0).unwrap().wet_count());
        assert_eq!((report.nan_in_ocean, report.infinite), (0, 0), "{report:?}");
        let statistics = Statistics::open(
            path.join("OM4_means.zarr"),
            path.join("OM4_stds.zarr"),
            &OpenOptions::default(),
        )
        .unwrap();
        let one = statistics.get(&"thetao_0".parse().unwrap()).unwrap();
        assert!(
            one.mean > 10.0 && one.mean < 25.0 && one.std > 5.0,
            "{one:?}"
        );
    }
}

#[test]
fn real_wet_masks_shrink_with_depth() {
    for (name, cells) in [("1deg", 180 * 360), ("2deg", 90 * 180)] {
        let Some(path) = shared(&format!("data/woa_wetmask_{name}.zarr")) else {
            return;
        };
        let masks = WetMasks::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(masks.levels().len(), DEPTHS.len());
        let wet: Vec<usize> = (0..19)
            .map(|k| masks.level(k).unwrap().wet_count())
            .collect();
        assert!(wet[0] > cells / 2 && wet[0] < cells, "{wet:?}");
        assert!(wet.windows(2).all(|w| w[1] <= w[0]), "{wet:?}");
        // It is no store of channels, and says so.
        let e = Store::open(&path, &OpenOptions::default()).unwrap_err();
        assert!(e.to_string().contains("time"), "{e}");
    }
}

/// A store with one channel and a mask written as `write` likes.
fn with_mask(v3: bool, write: impl FnOnce(&Writer)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::new(dir.path().join("s.zarr"), v3);
    writer.steady_time(3);
    writer.flat("thetao_1", 3, 2, 3, &Bend::default());
    write(&writer);
    (dir, writer.root)
}

#[test]
fn masks_of_every_number_type_follow_the_rule() {
    let expected = [true, false, true, false, true, true];
    let dims = ["y", "x"];
    let plain = Bend::default();
    for v3 in [false, true] {
        let check = |dtype: &str, write: &dyn Fn(&Writer, &str)| {
            let (_dir, root) = with_mask(v3, |w| {
                write(w, "mask_0");
                write(w, "mask_1");
            });
            let store = Store::open(&root, &OpenOptions::default()).unwrap();
            for level in [0, 1] {
                assert_eq!(
                    store.wet_mask(level).unwrap().as_slice(),
                    expected,
                    "{dtype} v3 {v3}"
                );
            }
        };
        macro_rules! ints {
            ($($t:ty => $name:literal),*) => {$(
                check($name, &|w, n| {
                    let values: [$t; 6] = [1, 0, 1, 0, 1, 1];
                    w.array(n, &dims, &[2, 3], &[2, 3], $name, &plain, &values);
                });
            )*};
        }
        ints!(i8 => "int8", u8 => "uint8", i16 => "int16", i32 => "int32", i64 => "int64");
        check("bool", &|w, n| {
            w.array(n, &dims, &[2, 3], &[1, 2], "bool", &plain, &expected);
        });
        check("float32", &|w, n| {
            let values = [1.0f32, 0.0, 1.0, f32::NAN, 1.0, 1.0];
            w.array(n, &dims, &[2, 3], &[2, 2], "float32", &plain, &values);
        });
        check("float64", &|w, n| {
            let values = [1.0f64, -0.0, 1.0, f64::NAN, 1.0, 1.0];
            w.array(n, &dims, &[2, 3], &[2, 3], "float64", &plain, &values);
        });
    }
    // A NaN in a float mask is dry, and said.
    let (_dir, root) = with_mask(false, |w| {
        let values = [1.0f32, 0.0, 1.0, f32::NAN, 1.0, 1.0];
        w.array(
            "mask_0",
            &dims,
            &[2, 3],
            &[2, 3],
            "float32",
            &plain,
            &values,
        );
    });
    let store = Store::open(&root, &OpenOptions::default()).unwrap();
    assert!(
        store
            .warnings()
            .iter()
            .any(|w| w.contains("1 missing cells")),
        "{:?}",
        store.warnings()
    );
}

#[test]
fn a_stacked_mask_serves_where_there_is_no_mask_0_and_time_is_taken_at_row_0() {
    let stacked = [1i8, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0];
    let plain = Bend::default();
    let (_dir, root) = with_mask(false, |w| {
        w.array(
            "wetmask",
            &["lev", "y", "x"],
            &[2, 2, 3],
            &[1, 2, 3],
            "int8",
            &plain,
            &stacked,
        );
    });
    let store = Store::open(&root, &OpenOptions::default()).unwrap();
    assert_eq!(store.wet_mask(0).unwrap().wet_count(), 1);
    assert_eq!(store.wet_mask(1).unwrap().wet_count(), 5);
    // mask_0 wins over wetmask.
    let (_dir, root) = with_mask(false, |w| {
        w.array(
            "wetmask",
            &["lev", "y", "x"],
            &[2, 2, 3],
            &[2, 2, 3],
            "int8",
            &plain,
            &stacked,
        );
        w.array(
            "mask_0",
            &["y", "x"],
            &[2, 3],
            &[2, 3],
            "int8",
            &plain,
            &[1i8; 6],
        );
    });
    let store = Store::open(&root, &OpenOptions::default()).unwrap();
    assert_eq!(store.wet_mask(0).unwrap().wet_count(), 6);
    assert!(store.wet_mask(1).is_err());
    // A time axis, before or after the levels: row 0 counts.
    let at = |time: usize, level: usize| (time == 0) as i8 * (level as i8 + 1);
    for (dims, order) in [
        (["time", "lev", "y", "x"], 0),
        (["lev", "time", "y", "x"], 1),
    ] {
        let mut values = vec![0i8; 2 * 2 * 6];
        for time in 0..2 {
            for level in 0..2 {
                let plane = if order == 0 {
                    time * 2 + level
                } else {
                    level * 2 + time
                };
                // Level 0 has one wet cell, level 1 two; row 1 has none.
                let n = at(time, level) as usize;
                values[plane * 6..plane * 6 + n].fill(1);
            }
        }
        let (_dir, root) = with_mask(true, |w| {
            w.array(
                "wetmask",
                &dims,
                &[2, 2, 2, 3],
                &[1, 1, 2, 3],
                "int8",
                &plain,
                &values,
            );
        });
        let store = Store::open(&root, &OpenOptions::default()).unwrap();
        assert_eq!(store.wet_mask(0).unwrap().wet_count(), 1, "{dims:?}");
        assert_eq!(store.wet_mask(1).unwrap().wet_count(), 2, "{dims:?}");
    }
}

#[test]
fn masks_that_do_not_fit_are_refused() {
    let plain = Bend::default();
    let refused = |write: &dyn Fn(&Writer), words: &[&str]| {
        let (_dir, root) = with_mask(false, write);
        let e = Store::open(&root, &lenient()).unwrap_err().to_string();
        for word in words.iter().chain(&["mask_0", "s.zarr"]) {
            assert!(e.contains(word), "{word}: {e}");
        }
    };
    refused(
        &|w| {
            w.array(
                "mask_0",
                &["y", "x"],
                &[3, 3],
                &[3, 3],
                "int8",
                &plain,
                &[1i8; 9],
            )
        },
        &["2 x 3", "[3, 3]"],
    );
    refused(
        &|w| {
            w.array(
                "mask_0",
                &["x", "y"],
                &[2, 3],
                &[2, 3],
                "int8",
                &plain,
                &[1i8; 6],
            )
        },
        &["(y, x)"],
    );
    let (_dir, root) = with_mask(false, |_| {});
    let store = Store::open(&root, &OpenOptions::default()).unwrap();
    let e = store.wet_mask(1).unwrap_err();
    assert!(e.to_string().contains("no mask"), "{e}");
    assert!(WetMasks::open(&root, &OpenOptions::default()).is_err());
}

#[test]
fn nan_in_the_ocean_and_values_on_land_are_reported() {
    let Some(path) = shared("fixtures/batches/stores/B/flat_v2_none/OM4.zarr") else {
        return;
    };
    let store = Store::open(&path, &OpenOptions::default()).unwrap();
    let channel: Channel = "thetao_0".parse().unwrap();
    let mask = store.wet_mask(0).unwrap();
    let mut nan_in_ocean = 0;
    for row in 0..store.time().len() {
        let report = store.check_mask(&channel, row).unwrap();
        // The file is uncompressed: the oracle is its bytes.
        let bytes = std::fs::read(path.join(format!("thetao_0/{row}.0.0"))).unwrap();
        let values: Vec<f32> = bytes
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let count = |f: &dyn Fn(&f32, bool) -> bool| {
            values
                .iter()
                .zip(mask.as_slice())
                .filter(|(v, w)| f(v, **w))
                .count()
        };
        assert_eq!(report.nan_in_ocean, count(&|v, wet| wet && v.is_nan()));
        assert_eq!(
            report.finite_on_land,
            count(&|v, wet| !wet && v.is_finite())
        );
        assert!(report.finite_on_land > 0 && !report.is_clean());
        nan_in_ocean += report.nan_in_ocean;
    }
    assert!(nan_in_ocean > 0);
}

#[test]
fn grids_are_taken_from_what_there_is() {
    let plain = Bend::default();
    let open = |write: &dyn Fn(&Writer)| {
        let (_dir, root) = with_mask(true, |w| write(w));
        Store::open(&root, &OpenOptions::default())
    };
    let line = |values: &[f64]| Some(Coordinate::Line(values.to_vec()));
    let store = open(&|w| {
        w.array("y", &["y"], &[2], &[2], "float64", &plain, &[-45.0, 45.0]);
        w.array("x", &["x"], &[3], &[3], "float64", &plain, &[0.0, 1.0, 2.0]);
    })
    .unwrap();
    assert_eq!(store.grid().latitude().cloned(), line(&[-45.0, 45.0]));
    assert_eq!(store.grid().longitude(), None, "a counter is no longitude");
    let weights = store.grid().cell_area_weights().unwrap();
    assert_eq!(weights.source, AreaSource::CosLatitude);
    let store = open(&|w| {
        w.array(
            "lat",
            &["y"],
            &[2],
            &[2],
            "float32",
            &plain,
            &[10.0f32, 20.0],
        );
        let degrees = Bend::attributes(json!({"units": "degrees_east"}));
        w.array(
            "x",
            &["x"],
            &[3],
            &[3],
            "float64",
            &degrees,
            &[0.0, 1.0, 2.0],
        );
    })
    .unwrap();
    assert_eq!(store.grid().latitude().cloned(), line(&[10.0, 20.0]));
    assert_eq!(store.grid().longitude().cloned(), line(&[0.0, 1.0, 2.0]));
    let store = open(&|_| {}).unwrap();
    assert!(store.grid().latitude().is_none() && store.grid().cell_area_weights().is_err());
    // Wrong extents and wrong values are errors that name the array.
    let e = open(&|w| {
        w.array(
            "lat",
            &["y"],
            &[3],
            &[3],
            "float64",
            &plain,
            &[1.0, 2.0, 3.0],
        )
    });
    assert!(e.unwrap_err().to_string().contains("array lat"));
    let e = open(&|w| w.array("lat", &["y"], &[2], &[2], "float64", &plain, &[1.0, 92.0]));
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Values);
    let e = open(&|w| {
        w.array(
            "areacello",
            &["y", "x"],
            &[2, 3],
            &[2, 3],
            "float64",
            &plain,
            &[-1.0f64; 6],
        );
    });
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Values);
}
