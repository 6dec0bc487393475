//! Metadata that disagrees with the data, with itself or with what is served.

use crate::{NX, NY, ROWS, TestStore, lenient, refused, says, strict, warned};
use burn_om4::ErrorKind;
use burn_om4::store::Store;
use om4_test_support::stores::{Bend, read_all};
use serde_json::{Value, json};

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
