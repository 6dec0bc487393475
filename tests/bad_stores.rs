//! What goes wrong with real stores: each symptom is an error that says where, or a warning, and
//! never a wrong number.

use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Statistics, Store};
use burn_om4::{Channel, Error, ErrorKind, Strictness};
use om4_test_support::shared;
use om4_test_support::stores::{Bend, Writer, copy_dir, field, plane_bits, read, read_all, value};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const ROWS: usize = 6;
const NY: usize = 3;
const NX: usize = 4;
const CELLS: usize = NY * NX;

fn strict() -> OpenOptions {
    OpenOptions::default()
}

fn lenient() -> OpenOptions {
    OpenOptions::default().with_strictness(Strictness::Lenient)
}

struct TestStore {
    _dir: tempfile::TempDir,
    writer: Writer,
}

impl TestStore {
    /// A group with `ROWS` times.
    fn timed(v3: bool) -> Self {
        let this = Self::bare(v3);
        this.writer.steady_time(ROWS);
        this
    }

    fn bare(v3: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("bad.zarr"), v3);
        Self { _dir: dir, writer }
    }

    /// Times and a good `zos`.
    fn good(v3: bool) -> Self {
        let this = Self::timed(v3);
        this.flat("zos", &Bend::default());
        this
    }

    fn flat(&self, name: &str, bend: &Bend) {
        self.writer.flat(name, ROWS, NY, NX, bend);
    }

    fn root(&self) -> &Path {
        &self.writer.root
    }

    fn file(&self, key: &str) -> PathBuf {
        self.writer.root.join(key)
    }

    fn open(&self) -> Result<Store, Error> {
        Store::open(self.root(), &strict())
    }
}

/// The error names the store, and these words.
fn says(e: &Error, kind: ErrorKind, words: &[&str]) {
    let text = format!("{e:?}");
    assert_eq!(e.kind(), kind, "{text}");
    for word in words.iter().chain(&["bad.zarr"]) {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

fn refused(store: &TestStore, kind: ErrorKind, words: &[&str]) {
    says(&store.open().expect_err("must not open"), kind, words);
}

fn warned(store: &Store, words: &[&str]) {
    let all = store.warnings().join("\n");
    for word in words {
        assert!(all.contains(word), "`{word}` is not in: {all}");
    }
}

// ---- values

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

// ---- dimensions and shapes

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

// ---- time

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

// ---- metadata and data that disagree

#[test]
fn metadata_ahead_of_the_data_is_found_when_the_store_is_opened() {
    for v3 in [false, true] {
        let store = TestStore::good(v3);
        store.flat("hfds", &Bend::default());
        store.writer.steady_time(ROWS + 2);
        for name in ["zos", "hfds"] {
            store.writer.edit(name, |d| {
                drop(d.insert("shape".into(), json!([ROWS + 2, NY, NX])))
            });
        }
        let key = if v3 { "c/7/0/0" } else { "7.0.0" };
        let e = store.open().unwrap_err();
        says(&e, ErrorKind::MissingChunk, &["array hfds", key]);
        let open = Store::open(store.root(), &lenient()).unwrap();
        warned(&open, &["hfds", "zos", key]);
        assert_eq!(read_all(&open).unwrap().1.missing_chunks, 4);
    }
}

#[test]
fn consolidated_metadata_that_is_missing_or_stale_is_a_warning_and_the_arrays_win() {
    let store = TestStore::good(false);
    warned(&store.open().unwrap(), &["no consolidated metadata"]);
    let stale = json!({"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": {"zarr_format": 2},
        "zos/.zarray": {"shape": [4, 3, 4]},
        "zos/.zattrs": {"_ARRAY_DIMENSIONS": ["time", "y", "x"]},
        "gone/.zarray": {"shape": [1]},
    }});
    std::fs::write(store.file(".zmetadata"), stale.to_string()).unwrap();
    let open = store.open().unwrap();
    warned(
        &open,
        &[
            "zos is stale",
            "shape",
            "lacks array time",
            "lists array gone",
        ],
    );
    assert_eq!(open.time().len(), ROWS);
    read_all(&open).unwrap();

    let store = TestStore::good(true);
    warned(&store.open().unwrap(), &["no consolidated metadata"]);
    let document = |name: &str| -> Value {
        let bytes = std::fs::read(store.file(&format!("{name}/zarr.json"))).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let (mut zos, time) = (document("zos"), document("time"));
    let group = |zos: &Value| {
        json!({"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata":
            {"kind": "inline", "must_understand": false, "metadata": {"zos": zos, "time": time}}})
    };
    std::fs::write(store.file("zarr.json"), group(&zos).to_string()).unwrap();
    assert_eq!(store.open().unwrap().warnings(), &[] as &[String]);
    zos["attributes"]["units"] = json!("km");
    std::fs::write(store.file("zarr.json"), group(&zos).to_string()).unwrap();
    let open = store.open().unwrap();
    warned(&open, &["zos is stale", "attributes"]);
    assert_eq!(open.unit(&"zos".parse().unwrap()), None);
}

#[test]
fn what_is_no_group_or_no_metadata_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("bad.zarr");
    let open = || Store::open(&root, &strict()).unwrap_err();
    says(&open(), ErrorKind::Io, &["cannot open the store"]);
    std::fs::create_dir(&root).unwrap();
    says(&open(), ErrorKind::Metadata, &["zarr.json or .zgroup"]);
    std::fs::write(
        root.join("zarr.json"),
        r#"{"zarr_format": 3, "node_type": "array"}"#,
    )
    .unwrap();
    says(
        &open(),
        ErrorKind::Metadata,
        &["expected node_type group", "array"],
    );
    std::fs::write(root.join("zarr.json"), "{").unwrap();
    says(
        &open(),
        ErrorKind::Metadata,
        &["zarr.json is not valid JSON"],
    );

    let store = TestStore::timed(false);
    refused(&store, ErrorKind::Metadata, &["no channel"]);
    std::fs::create_dir(store.file("zos")).unwrap();
    for (document, word) in [
        ("[]", "shape"),
        ("{\"shape\": [6, 3, 4], \"chunks\": [1, 3]}", "rank"),
        ("{\"shape\": [6, 3, 4], \"chunks\": [1, 0, 4]}", "zero"),
        ("{\"shape\": [6, 3, 4], \"chunks\": [1, 3, 4]}", "data type"),
        ("{\"shape\": [-6, 3, 4], \"chunks\": [1, 3, 4]}", "shape"),
    ] {
        std::fs::write(store.file("zos/.zarray"), document).unwrap();
        refused(&store, ErrorKind::Metadata, &["array zos", word]);
    }
    // Codecs that nobody has.
    for (v3, fields) in [
        (false, json!({"compressor": {"id": "lzma"}})),
        (false, json!({"filters": [{"id": "delta", "dtype": "<f4"}]})),
        (
            true,
            json!({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "acme"}]}),
        ),
        (true, json!({"codecs": []})),
        (
            true,
            json!({"chunk_grid": {"name": "rectilinear", "configuration": {}}}),
        ),
        (true, json!({"storage_transformers": [{"name": "acme"}]})),
    ] {
        let store = TestStore::good(v3);
        let fields = fields.as_object().unwrap().clone();
        store.writer.edit("zos", |d| d.extend(fields));
        let e = store.open().unwrap_err();
        says(&e, ErrorKind::Metadata, &["array zos"]);
    }
}

#[test]
fn shards_in_arrangements_that_are_not_served_are_refused() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let shard = |inner: Value, codecs: Value, index: Value| {
        json!({"name": "sharding_indexed", "configuration":
            {"chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": "end"}})
    };
    let plain = shard(json!([1, NY, NX]), json!([little]), json!([little]));
    for (codecs, word) in [
        (json!([plain, zstd]), "other codecs"),
        (
            json!([shard(json!([1, 2, NX]), json!([little]), json!([little]))]),
            "divide",
        ),
        (
            json!([shard(json!([1, NY, 0]), json!([little]), json!([little]))]),
            "divide",
        ),
        (
            json!([shard(json!([1, NY, NX]), json!([little]), json!([big]))]),
            "index",
        ),
        (
            json!([shard(
                json!([1, NY, NX]),
                json!([little]),
                json!([little, zstd])
            )]),
            "index",
        ),
        (
            json!([shard(json!([1, NY, NX]), json!([plain]), json!([little]))]),
            "within shards",
        ),
        (
            json!([{"name": "sharding_indexed", "configuration": {}}]),
            "zos",
        ),
    ] {
        let store = TestStore::good(true);
        store
            .writer
            .edit("zos", |d| drop(d.insert("codecs".into(), codecs.clone())));
        refused(&store, ErrorKind::Metadata, &["array zos", word]);
    }
}

// ---- chunks

/// Compressed stores with one plane per chunk: (what, v3, fields).
fn encodings() -> Vec<(&'static str, bool, Value)> {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let gzip = json!({"name": "gzip", "configuration": {"level": 4}});
    let crc = json!({"name": "crc32c"});
    let inner = json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [1, NY, NX], "codecs": [little, zstd],
        "index_codecs": [little, crc], "index_location": "end"}});
    vec![
        ("none", false, json!({})),
        ("order F", false, json!({"order": "F"})),
        (
            "blosc",
            false,
            json!({"compressor":
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}}),
        ),
        (
            "blosc zstd",
            false,
            json!({"compressor":
            {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0}}),
        ),
        (
            "zstd",
            false,
            json!({"compressor": {"id": "zstd", "level": 3}}),
        ),
        (
            "zlib",
            false,
            json!({"compressor": {"id": "zlib", "level": 3}}),
        ),
        (
            "gzip",
            false,
            json!({"compressor": {"id": "gzip", "level": 3}}),
        ),
        ("v3 gzip", true, json!({"codecs": [little, gzip]})),
        ("v3 zstd", true, json!({"codecs": [little, zstd]})),
        ("v3 crc32c", true, json!({"codecs": [little, crc]})),
        (
            "v3 zstd crc32c",
            true,
            json!({"codecs": [little, zstd, crc]}),
        ),
        ("v3 shard", true, json!({"codecs": [inner]})),
    ]
}

fn chunk_file(store: &TestStore, v3: bool, row: usize) -> PathBuf {
    store.file(&match v3 {
        true => format!("zos/c/{row}/0/0"),
        false => format!("zos/{row}.0.0"),
    })
}

#[test]
fn truncated_chunks_are_errors_at_every_length_and_neighbours_stay_readable() {
    for (what, v3, fields) in encodings() {
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 2);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        let n = bytes.len();
        for length in [n - 1, n / 2, 16, 1, 0] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            for options in [strict(), lenient()] {
                let open = Store::open(store.root(), &options).unwrap();
                let e = read(&open, &[1, 2, 3], &[0]).expect_err(&format!("{what} {length}"));
                says(&e, ErrorKind::Corrupt, &["array zos", "2", "time row 2"]);
            }
            let (found, _) = read(&open, &[1, 3], &[0]).unwrap();
            assert_eq!(found[1], plane_bits("zos", 0, 3, CELLS), "{what}");
        }
        // Longer than it should be is as wrong.
        std::fs::write(&path, [&bytes[..], &[0; 7]].concat()).unwrap();
        let longer = read(&open, &[2], &[0]);
        says(&longer.expect_err(what), ErrorKind::Corrupt, &["array zos"]);
    }
}

#[test]
fn a_chunk_of_the_wrong_size_names_both_sizes() {
    for (what, v3, fields) in encodings() {
        // Encode planes of another size with the same codec, then put one in a chunk's place.
        let other = TestStore::timed(v3);
        let mut wide = fields.clone();
        if let Some(inner) = wide.pointer_mut("/codecs/0/configuration/chunk_shape") {
            *inner = json!([1, NY, NX + 1]);
        }
        other
            .writer
            .flat("zos", ROWS, NY, NX + 1, &Bend::fields(wide));
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        std::fs::copy(chunk_file(&other, v3, 2), chunk_file(&store, v3, 2)).unwrap();
        let e = read_all(&store.open().unwrap()).expect_err(what);
        let text = format!("{e:?}");
        says(&e, ErrorKind::Corrupt, &["array zos", "time row 2"]);
        if !matches!(what, "gzip" | "v3 gzip" | "zlib" | "order F") {
            assert!(
                text.contains("48 bytes") && text.contains("60 bytes"),
                "{what}: {text}"
            );
        }
    }
}

#[test]
fn a_flipped_byte_is_found_where_there_is_a_checksum() {
    for (what, v3, fields) in encodings() {
        if !what.contains("crc32c") {
            continue;
        }
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 4);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let e = read_all(&open).expect_err(&format!("{what} at {at}"));
            says(
                &e,
                ErrorKind::Corrupt,
                &["array zos", "chunk c/4/0/0", "checksum", "bytes 0.."],
            );
            let (found, _) = read(&open, &[3, 5], &[0]).unwrap();
            assert_eq!(found[0], plane_bits("zos", 0, 3, CELLS));
        }
    }
}

#[test]
fn damaged_bytes_never_panic_or_crash() {
    // A small generator of our own: the same damage every time.
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for (what, v3, fields) in encodings() {
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 2);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        let mut failures = 0;
        for _ in 0..300 {
            let mut bad = bytes.clone();
            for _ in 0..1 + random(4) {
                let at = random(bad.len());
                bad[at] = random(256) as u8;
            }
            std::fs::write(&path, &bad).unwrap();
            if let Err(e) = read(&open, &[2], &[0]) {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {e:?}");
                failures += 1;
            }
        }
        if !matches!(what, "none" | "order F") {
            assert!(failures > 0, "{what}");
        }
    }
}

#[test]
fn only_not_found_means_missing() {
    for options in [strict(), lenient()] {
        let store = TestStore::good(false);
        std::fs::remove_file(store.file("zos/2.0.0")).unwrap();
        std::fs::create_dir(store.file("zos/2.0.0")).unwrap();
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(
            &e,
            ErrorKind::Io,
            &["array zos", "chunk 2.0.0", "directory"],
        );
        // A file where a directory of chunks should be.
        let store = TestStore::good(true);
        std::fs::remove_dir_all(store.file("zos/c/2")).unwrap();
        std::fs::write(store.file("zos/c/2"), b"").unwrap();
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(&e, ErrorKind::Io, &["array zos", "c/2/0/0"]);
    }
}

#[cfg(unix)]
#[test]
fn a_chunk_that_may_not_be_read_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let store = TestStore::good(false);
    let path = store.file("zos/2.0.0");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    for options in [strict(), lenient()] {
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(
            &e,
            ErrorKind::Io,
            &["array zos", "chunk 2.0.0", "time row 2", "denied"],
        );
    }
}

#[test]
fn inner_chunks_that_are_not_there_are_missing_only_where_they_are_wanted() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    for inner in [[1, NY, NX], [2, 1, 2], [3, NY, NX]] {
        let codec = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": inner,
            "codecs": [little], "index_codecs": [little], "index_location": "start"}});
        let store = TestStore::timed(true);
        let bend = Bend::fields(json!({"codecs": [codec], "fill_value": -3.0}));
        let shape = [ROWS as u64, NY as u64, NX as u64];
        let values = field("zos", 0, ROWS, NY, NX);
        store.writer.array(
            "zos",
            &["time", "y", "x"],
            &shape,
            &shape,
            "float32",
            &bend,
            &values,
        );
        // Take the last inner chunk of the last rows out of the index.
        let path = store.file("zos/c/0/0/0");
        let mut bytes = std::fs::read(&path).unwrap();
        let counts = ROWS / inner[0] * (NY / inner[1]) * (NX / inner[2]);
        bytes[(counts - 1) * 16..counts * 16].fill(0xFF);
        std::fs::write(&path, bytes).unwrap();
        let open = store.open().unwrap();
        let e = read_all(&open).unwrap_err();
        let row = ROWS - inner[0];
        let place = format!("time row {row}");
        says(
            &e,
            ErrorKind::MissingChunk,
            &["array zos", "inner chunk", "c/0/0/0", &place],
        );
        let (found, _) = read(&open, &[0, 1, 2], &[0]).unwrap();
        assert_eq!(found[2], plane_bits("zos", 0, 2, CELLS));
        let open = Store::open(store.root(), &lenient()).unwrap();
        let (found, counts) = read(&open, &[5, 0], &[0]).unwrap();
        assert_eq!(counts.missing_chunks, 1, "{inner:?}");
        assert_eq!(open.missing_chunks().len(), 1);
        assert_eq!(found[1], plane_bits("zos", 0, 0, CELLS));
        for (cell, bits) in found[0].iter().enumerate() {
            let (y, x) = (cell / NX, cell % NX);
            let gone = y / inner[1] == NY / inner[1] - 1 && x / inner[2] == NX / inner[2] - 1;
            let expected = if gone { -3.0 } else { value("zos", 0, 5, cell) };
            assert_eq!(*bits, expected.to_bits(), "{inner:?} cell {cell}");
        }
    }
}

#[test]
fn a_shard_index_that_leaves_the_shard_is_corrupt() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let codec = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [1, NY, NX],
        "codecs": [little], "index_codecs": [little], "index_location": "start"}});
    let store = TestStore::timed(true);
    let shape = [ROWS as u64, NY as u64, NX as u64];
    let values = field("zos", 0, ROWS, NY, NX);
    let bend = Bend::fields(json!({"codecs": [codec]}));
    store.writer.array(
        "zos",
        &["time", "y", "x"],
        &shape,
        &shape,
        "float32",
        &bend,
        &values,
    );
    let path = store.file("zos/c/0/0/0");
    let good = std::fs::read(&path).unwrap();
    let open = store.open().unwrap();
    let entries: [(u64, u64); 4] = [
        (0, 1 << 40),
        (u64::MAX - 1, 48),
        (1 << 62, 1 << 62),
        (96, 44),
    ];
    for (offset, length) in entries {
        let mut bad = good.clone();
        bad[32..40].copy_from_slice(&offset.to_le_bytes());
        bad[40..48].copy_from_slice(&length.to_le_bytes());
        std::fs::write(&path, bad).unwrap();
        let e = read(&open, &[2], &[0]).unwrap_err();
        says(&e, ErrorKind::Corrupt, &["array zos", "c/0/0/0"]);
    }
}

// ---- statistics and fixtures bent

#[test]
fn statistics_are_found_by_name_and_missing_or_bad_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let plain = Bend::default();
    let write = |name: &str, v3: bool, zos: f32, so: [f64; 3]| {
        let writer = Writer::new(dir.path().join(name), v3);
        writer.array("zos", &[], &[], &[], "float32", &plain, &[zos]);
        writer.array("so", &["lev"], &[3], &[3], "float64", &plain, &so);
        writer.array(
            "thetao_lev_22_5",
            &[],
            &[],
            &[],
            "float64",
            &plain,
            &[zos as f64 * 2.0],
        );
        writer.array(
            "lev",
            &["lev"],
            &[3],
            &[3],
            "float64",
            &plain,
            &[2.5, 10.0, 22.5],
        );
        writer.root
    };
    // One store in v2, the other in v3: names decide, not order or layout.
    let means = write("means.zarr", false, 1.5, [34.0, 34.5, 35.0]);
    let stds = write("bad.zarr", true, 0.5, [1.0, 0.0, f64::NAN]);
    let open = |options: &OpenOptions| Statistics::open(&means, &stds, options);
    let channel = |name: &str| -> Channel { name.parse().unwrap() };
    let statistics = open(&strict()).unwrap();
    let one = statistics.get(&channel("so_0")).unwrap();
    assert_eq!((one.mean, one.std), (34.0, 1.0));
    let one = statistics.get(&channel("thetao_2")).unwrap();
    assert_eq!((one.mean, one.std), (3.0, 1.0));
    let names: Vec<&str> = statistics.channels().map(Channel::name).collect();
    assert_eq!(names, ["so_0", "so_1", "so_2", "thetao_2", "zos"]);
    for (name, found) in [("so_1", "found 0"), ("so_2", "found NaN")] {
        says(
            &statistics.get(&channel(name)).unwrap_err(),
            ErrorKind::Values,
            &[name, found],
        );
    }
    let e = statistics.get(&channel("hfds")).unwrap_err();
    assert!(e.to_string().contains("no mean for channel hfds"), "{e}");
    let statistics = open(&lenient()).unwrap();
    assert_eq!(statistics.get(&channel("so_1")).unwrap().std, 0.0);
    assert!(statistics.get(&channel("so_2")).unwrap().std.is_nan());
    // A value that is not there is no NaN in strict mode.
    std::fs::remove_file(means.join("zos/0")).unwrap();
    let e = open(&strict()).unwrap_err();
    assert_eq!(
        (e.kind(), e.array_name()),
        (ErrorKind::MissingChunk, Some("zos"))
    );
    assert!(
        open(&lenient())
            .unwrap()
            .get(&channel("zos"))
            .unwrap()
            .mean
            .is_nan()
    );
}

#[test]
fn a_published_store_with_one_thing_broken_says_what() {
    let Some(fixture) = shared("fixtures/batches/stores/A/flat_v2_none/OM4.zarr") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("bad.zarr");
    copy_dir(&fixture, &root);
    Store::open(&root, &strict()).unwrap();
    // Lost in a copy: the last row of one array, then the file of one array.
    std::fs::rename(root.join("vo_5/27.0.0"), root.join("gone")).unwrap();
    let e = Store::open(&root, &strict()).unwrap_err();
    says(&e, ErrorKind::MissingChunk, &["array vo_5", "chunk 27.0.0"]);
    std::fs::rename(root.join("gone"), root.join("vo_5/27.0.0")).unwrap();
    std::fs::remove_file(root.join("uo_1/.zarray")).unwrap();
    let open = Store::open(&root, &strict()).unwrap();
    warned(&open, &["lists array uo_1"]);
    let e = open.positions(&[Channel::at_level("uo", 1)]).unwrap_err();
    says(&e, ErrorKind::Metadata, &["uo_1"]);
    let planes = open.planned_chunks(&burn_om4::ocean::PlaneRequest {
        rows: &[0, 1],
        channels: &[0, 1, 2],
    });
    assert_eq!(planes.unwrap(), 6);
}
