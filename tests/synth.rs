//! Synthetic stores, read back with nothing but zarrs and JSON.

use burn_om4::ocean::Calendar;
use burn_om4::synth::{
    Chunking, Codec, Consolidation, Existing, Field, Format, Land, Layout, MaskType, Separator,
    SynthOptions, TimeEncoding, Waves, field,
};
use burn_om4::{Channel, Date, ErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use zarrs::array::{Array, ElementOwned};
use zarrs::filesystem::FilesystemStore;

const NY: usize = 5;
const NX: usize = 7;
const LEVELS: usize = 3;
const ROWS: usize = 4;
const PLANE: usize = NY * NX;

fn small() -> SynthOptions {
    SynthOptions::new(NY, NX)
        .with_levels(LEVELS)
        .with_rows(ROWS)
        .with_seed(7)
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn read<T: ElementOwned>(store: &Path, name: &str) -> (Vec<u64>, Vec<T>) {
    let storage = Arc::new(FilesystemStore::new(store).unwrap());
    let array = Array::open(storage, &format!("/{name}")).unwrap();
    let values = array.retrieve_array_subset(&array.subset_all()).unwrap();
    (array.shape().to_vec(), values)
}

fn document(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Every plane of a store by channel and row, whatever its layout.
fn planes(
    store: &Path,
    options: &SynthOptions,
    layout: Layout,
) -> BTreeMap<(String, usize), Vec<f32>> {
    let depth_names = ["2_5", "10_0", "22_5"];
    let mut out = BTreeMap::new();
    for channel in options.channels() {
        let level = channel.level();
        let stacked =
            level.filter(|_| matches!(layout, Layout::CompactLevTime | Layout::CompactTimeLev));
        let name = match (layout, level) {
            (Layout::Flat, _) | (_, None) => channel.name().to_string(),
            (Layout::FlatDepthNames, Some(k)) => {
                format!("{}_lev_{}", channel.variable(), depth_names[k])
            }
            _ => channel.variable().to_string(),
        };
        let (shape, values) = read::<f32>(store, &name);
        let (rows, levels, plane) = (ROWS as u64, LEVELS as u64, [NY as u64, NX as u64]);
        let expected = match (layout, stacked) {
            (_, None) => vec![rows],
            (Layout::CompactLevTime, _) => vec![levels, rows],
            _ => vec![rows, levels],
        };
        assert_eq!(shape, [expected, plane.to_vec()].concat(), "{name}");
        for row in 0..ROWS {
            let at = match (layout, stacked) {
                (_, None) => row,
                (Layout::CompactLevTime, Some(k)) => k * ROWS + row,
                (_, Some(k)) => row * LEVELS + k,
            };
            let key = (channel.name().to_string(), row);
            out.insert(key, values[at * PLANE..(at + 1) * PLANE].to_vec());
        }
    }
    out
}

fn expected_plane(waves: &mut Waves, channel: &Channel, row: usize) -> Vec<f32> {
    let mut out = vec![0.0; PLANE];
    waves.plane(channel, row, &mut out);
    for (i, value) in out.iter_mut().enumerate() {
        if !waves.is_ocean(channel.mask_level(), i / NX, i % NX) {
            *value = f32::NAN;
        }
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check_values(store: &Path, options: &SynthOptions, layout: Layout, form: &str) {
    let found = planes(store, options, layout);
    let mut waves = options.waves();
    for channel in options.channels() {
        for row in 0..ROWS {
            let expected = expected_plane(&mut waves, &channel, row);
            let found = &found[&(channel.name().to_string(), row)];
            assert_eq!(bits(found), bits(&expected), "{form}: {channel} row {row}");
        }
    }
}

const LAYOUTS: [Layout; 4] = [
    Layout::Flat,
    Layout::FlatDepthNames,
    Layout::CompactLevTime,
    Layout::CompactTimeLev,
];

#[test]
fn every_form_holds_the_same_values() {
    let codecs = [
        Codec::None,
        Codec::BloscLz4,
        Codec::BloscZstd,
        Codec::Zstd,
        // Which zarrs can read because the writer has made it known to this process.
        Codec::Lz4,
        Codec::Gzip,
    ];
    // Three rows to a chunk of four: the last chunk is partly empty.
    let chunkings = [Chunking::OneRow, Chunking::Rows(3), Chunking::Shards(3)];
    let mut forms = 0;
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            for codec in codecs {
                for chunking in chunkings {
                    if (format, chunking) == (Format::V2, Chunking::Shards(3)) {
                        continue;
                    }
                    let dir = dir();
                    let options = small()
                        .with_variables(&["uo"], &["zos"])
                        .with_layout(layout)
                        .with_format(format)
                        .with_codec(codec)
                        .with_chunking(chunking);
                    options.write(&dir).unwrap();
                    let form = format!("{layout:?} {format:?} {codec:?} {chunking:?}");
                    check_values(&dir.path().join("OM4.zarr"), &options, layout, &form);
                    forms += 1;
                }
            }
        }
    }
    assert_eq!(forms, 4 * 6 * (2 + 3));
}

#[test]
fn lz4_chunks_are_those_of_numcodecs() {
    for (format, key) in [(Format::V2, "2.0.0"), (Format::V3, "c/2/0/0")] {
        let dir = dir();
        let options = small().with_format(format).with_codec(Codec::Lz4);
        options.write(&dir).unwrap();
        let array = dir.path().join("OM4.zarr/so_1");
        let chunk = fs::read(array.join(key)).unwrap();
        // Four bytes of length, then one block.
        let length = u32::from_le_bytes(chunk[..4].try_into().unwrap());
        assert_eq!(length as usize, 4 * PLANE);
        let plain = lz4_flex::block::decompress(&chunk[4..], length as usize).unwrap();
        let words = plain.chunks_exact(4);
        let found: Vec<u32> = words
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let channel = "so_1".parse().unwrap();
        let expected = expected_plane(&mut options.waves(), &channel, 2);
        assert_eq!(found, bits(&expected));
        let codec = match format {
            Format::V2 => document(array.join(".zarray"))["compressor"]["id"].clone(),
            Format::V3 => document(array.join("zarr.json"))["codecs"][1]["name"].clone(),
        };
        let name = if format == Format::V2 {
            "lz4"
        } else {
            "numcodecs.lz4"
        };
        assert_eq!(codec, name);
    }
    // In v2 a single number is stored as it is.
    let dir = dir();
    small().with_codec(Codec::Lz4).write(&dir).unwrap();
    let mean = dir.path().join("OM4_means.zarr/so_1");
    assert_eq!(document(mean.join(".zarray"))["compressor"], Value::Null);
    assert_eq!(fs::metadata(mean.join("0")).unwrap().len(), 4);
}

#[test]
fn the_default_is_the_published_form() {
    let dir = dir();
    small().write(&dir).unwrap();
    let store = dir.path().join("OM4.zarr");
    assert_eq!(
        document(store.join("thetao_1/.zarray")),
        json!({
            "chunks": [1, NY, NX], "compressor": null, "dtype": "<f4", "fill_value": "NaN",
            "filters": null, "order": "C", "shape": [ROWS, NY, NX], "zarr_format": 2
        })
    );
    assert_eq!(
        document(store.join("thetao_1/.zattrs")),
        json!({
            "_ARRAY_DIMENSIONS": ["time", "y", "x"], "coordinates": "areacello lat lon",
            "long_name": "Sea Water Potential Temperature level-1", "units": "degC"
        })
    );
    assert_eq!(
        document(store.join("mask_2/.zarray")),
        json!({
            "chunks": [NY, NX], "compressor": null, "dtype": "|i1", "fill_value": null,
            "filters": null, "order": "C", "shape": [NY, NX], "zarr_format": 2
        })
    );
    assert_eq!(document(store.join("mask_2/.zattrs"))["dtype"], "bool");
    let blosc = json!({"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 1});
    assert_eq!(
        document(store.join("time/.zarray")),
        json!({
            "chunks": [ROWS], "compressor": blosc, "dtype": "<i8", "fill_value": null,
            "filters": null, "order": "C", "shape": [ROWS], "zarr_format": 2
        })
    );
    assert_eq!(
        document(store.join("time/.zattrs")),
        json!({
            "_ARRAY_DIMENSIONS": ["time"], "calendar": "julian",
            "units": "days since 1958-01-03 12:00:00.000000"
        })
    );
    assert_eq!(document(store.join("lat/.zarray"))["compressor"], blosc);
    for row in 0..ROWS {
        let chunk = store.join(format!("zos/{row}.0.0"));
        assert_eq!(fs::metadata(chunk).unwrap().len() as usize, 4 * PLANE);
    }
    for name in ["thetao_0", "zos", "mask_0"] {
        let document = document(dir.path().join("OM4_means.zarr").join(name).join(".zarray"));
        let dtype = if name == "mask_0" { "<f8" } else { "<f4" };
        assert_eq!(
            document,
            json!({
                "chunks": [], "compressor": null, "dtype": dtype, "fill_value": "NaN",
                "filters": null, "order": "C", "shape": [], "zarr_format": 2
            })
        );
    }
    // Three stores, and nothing left over from writing them.
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["OM4.zarr", "OM4_means.zarr", "OM4_stds.zarr"]);
}

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
fn masks_say_where_the_ocean_is() {
    let ones = |options: &SynthOptions| -> Vec<Vec<u8>> {
        let waves = options.waves();
        let cell = |k, i: usize| u8::from(waves.is_ocean(k, i / NX, i % NX));
        (0..LEVELS)
            .map(|k| (0..PLANE).map(|i| cell(k, i)).collect())
            .collect()
    };
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            for masks in [MaskType::Int8, MaskType::Bool] {
                let dir = dir();
                let options = small()
                    .with_layout(layout)
                    .with_format(format)
                    .with_masks(masks);
                options.write(&dir).unwrap();
                let store = dir.path().join("OM4.zarr");
                let read_mask = |name: &str| -> Vec<u8> {
                    match masks {
                        MaskType::Int8 => read::<i8>(&store, name)
                            .1
                            .iter()
                            .map(|v| *v as u8)
                            .collect(),
                        MaskType::Bool => read::<bool>(&store, name)
                            .1
                            .iter()
                            .map(|v| u8::from(*v))
                            .collect(),
                    }
                };
                let expected = ones(&options);
                if layout == Layout::Flat {
                    assert!(!store.join("wetmask").exists());
                    for (k, expected) in expected.iter().enumerate() {
                        assert_eq!(&read_mask(&format!("mask_{k}")), expected);
                    }
                } else {
                    assert!(!store.join("mask_0").exists());
                    assert_eq!(read_mask("wetmask"), expected.concat());
                }
            }
        }
    }
}

/// Mean and population standard deviation of the ocean cells, the slow and plain way.
fn moments(options: &SynthOptions, channel: &Channel) -> (f64, f64) {
    let mut waves = options.waves();
    let values: Vec<f64> = (0..ROWS)
        .flat_map(|row| expected_plane(&mut waves, channel, row))
        .filter(|v| !v.is_nan())
        .map(f64::from)
        .collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[test]
fn statistics_are_masked_and_by_name() {
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            let dir = dir();
            // Values on land must not count.
            let options = small()
                .with_layout(layout)
                .with_format(format)
                .with_codec(Codec::Zstd)
                .with_land(Land::AsGiven);
            options.write(&dir).unwrap();
            let statistic = |store: &str, channel: &Channel| -> f64 {
                let store = dir.path().join(store);
                let compact = matches!(layout, Layout::CompactLevTime | Layout::CompactTimeLev);
                let (name, at) = match (layout, channel.level()) {
                    (Layout::FlatDepthNames, Some(k)) => {
                        let depth = ["2_5", "10_0", "22_5"][k];
                        (format!("{}_lev_{depth}", channel.variable()), 0)
                    }
                    (_, Some(k)) if compact => (channel.variable().to_string(), k),
                    _ => (channel.name().to_string(), 0),
                };
                let (shape, values) = read::<f32>(&store, &name);
                let expected = if compact && channel.level().is_some() {
                    vec![3]
                } else {
                    vec![]
                };
                assert_eq!(shape, expected);
                values[at].into()
            };
            for channel in options.channels() {
                let (mean, std) = moments(&options, &channel);
                let found = statistic("OM4_means.zarr", &channel);
                assert!(
                    (found - mean).abs() <= 1e-6 * mean.abs().max(std),
                    "{channel}: {found} {mean}"
                );
                let found = statistic("OM4_stds.zarr", &channel);
                assert!(
                    std > 0.0 && (found / std - 1.0).abs() < 1e-6,
                    "{channel}: {found} {std}"
                );
            }
        }
    }
    // Of the flat layout's masks: the share of ocean, over all cells.
    let dir = dir();
    let options = small();
    options.write(&dir).unwrap();
    let waves = options.waves();
    let ocean = (0..PLANE)
        .filter(|i| waves.is_ocean(1, i / NX, i % NX))
        .count();
    let share = ocean as f64 / PLANE as f64;
    let means = read::<f64>(&dir.path().join("OM4_means.zarr"), "mask_1").1;
    let stds = read::<f64>(&dir.path().join("OM4_stds.zarr"), "mask_1").1;
    assert!((means[0] - share).abs() < 1e-12);
    assert!((stds[0] - (share * (1.0 - share)).sqrt()).abs() < 1e-12);
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

#[test]
fn a_field_is_asked_in_order_and_once() {
    let mut asked = Vec::new();
    let dir = dir();
    let options = small()
        .with_variables(&["thetao"], &["zos", "hfds"])
        .with_chunking(Chunking::Rows(3));
    let mut ocean = field(
        |level, y, x| (y + x) % (level + 2) > 0,
        |channel, row, out| {
            asked.push(format!("{channel} {row}"));
            out.fill(row as f32);
        },
    );
    options.write_field(&dir, &mut ocean).unwrap();
    drop(ocean);
    let names = ["thetao_0", "thetao_1", "thetao_2", "zos", "hfds"];
    let expected: Vec<String> = (0..ROWS)
        .flat_map(|r| names.map(|n| format!("{n} {r}")))
        .collect();
    assert_eq!(asked, expected);
    let (_, values) = read::<f32>(&dir.path().join("OM4.zarr"), "zos");
    for (i, value) in values.iter().enumerate() {
        let ocean = !(i / NX % NY + i % NX).is_multiple_of(2);
        assert!(if ocean {
            *value == (i / PLANE) as f32
        } else {
            value.is_nan()
        });
    }
}

#[test]
fn ocean_nans_stay_and_do_not_count() {
    let dir = dir();
    let options = small().with_variables(&[], &["zos"]).with_rows(2);
    let mut ocean = field(
        |_, _, _| true,
        |_, row, out| {
            out.fill(1.0);
            out[3] = if row == 0 { f32::NAN } else { 1.0 };
        },
    );
    options.write_field(&dir, &mut ocean).unwrap();
    let (_, values) = read::<f32>(&dir.path().join("OM4.zarr"), "zos");
    assert!(values[3].is_nan() && values[PLANE + 3] == 1.0);
    assert_eq!(
        read::<f32>(&dir.path().join("OM4_means.zarr"), "zos").1,
        [1.0]
    );
    assert_eq!(
        read::<f32>(&dir.path().join("OM4_stds.zarr"), "zos").1,
        [0.0]
    );
}

fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        match path.is_dir() {
            true => {
                for (below, bytes) in files(&path) {
                    out.insert(format!("{name}/{below}"), bytes);
                }
            }
            false => drop(out.insert(name, fs::read(&path).unwrap())),
        }
    }
    out
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let write = |seed| {
        let dir = dir();
        small().with_seed(seed).write(&dir).unwrap();
        files(dir.path())
    };
    let (first, again, other) = (write(3), write(3), write(4));
    assert!(first == again);
    assert!(first != other);
    assert_eq!(first.len(), other.len());
}

#[test]
fn a_store_is_not_overwritten_unasked() {
    let dir = dir();
    small().write(&dir).unwrap();
    let before = files(dir.path());
    let error = small().with_seed(8).write(&dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("already"), "{error}");
    assert!(files(dir.path()) == before);

    small()
        .with_seed(8)
        .with_rows(2)
        .with_existing(Existing::Replace)
        .write(&dir)
        .unwrap();
    let (shape, _) = read::<f32>(&dir.path().join("OM4.zarr"), "zos");
    assert_eq!(shape[0], 2);
    let after = files(dir.path());
    assert!(
        !after.contains_key("OM4.zarr/zos/2.0.0"),
        "a chunk of the old store is left"
    );
    assert!(
        after.keys().all(|k| k.starts_with("OM4")),
        "something hidden is left"
    );
}

#[test]
fn a_writer_that_dies_leaves_no_store() {
    let dir = dir();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let died = std::panic::catch_unwind(|| {
        let mut ocean = field(
            |_, _, _| true,
            |_, row, out| {
                assert!(row < 2, "the simulation blew up");
                out.fill(0.5);
            },
        );
        small().write_field(&dir, &mut ocean)
    });
    assert!(died.is_err());
    let left: Vec<_> = files(dir.path()).into_keys().collect();
    assert_eq!(left, ["notes.txt"]);
}

#[test]
fn bad_options_are_refused_before_anything_is_written() {
    let day = |year, month, day| Date { year, month, day };
    let bad = [
        SynthOptions::new(0, 4),
        SynthOptions::new(4, usize::MAX),
        small().with_levels(0),
        small().with_levels(20),
        small().with_rows(0),
        small().with_rows(usize::MAX),
        small().with_chunking(Chunking::Rows(0)),
        small().with_chunking(Chunking::Shards(2)),
        small().with_variables(&[], &[]),
        small().with_variables(&["so"], &["so_1"]),
        small().with_variables(&["so", "so"], &[]),
        small().with_variables(&["../so"], &[]),
        small().with_variables(&["so"], &["lat"]),
        small().with_start(day(1958, 13, 1)),
        small().with_start(day(1958, 0, 1)),
        small().with_start(day(1960, 2, 29)),
        small().with_start(day(1958, 4, 31)),
        small().with_start(day(i32::MIN, 1, 1)),
        small()
            .with_start(day(1500, 1, 1))
            .with_calendar(Calendar::Standard),
    ];
    let dir = dir();
    let inside = dir.path().join("new");
    for options in bad {
        let error = options.write(&inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{options:?}: {error}");
        assert!(!inside.exists(), "{options:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_io_error() {
    let dir = dir();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = small().write(file.join("below")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(std::error::Error::source(&error).is_some());
}
