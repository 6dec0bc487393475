//! What lies beside the arrays that are wanted: it may be of any kind, or broken. And what is wanted is
//! absent only where the system says so.

use crate::{CELLS, NX, NY, ROWS, TestStore, refused, says, strict, warned};
use burn_om4::ErrorKind;
use burn_om4::store::{OpenOptions, Store};
use om4_test_support::stores::{Bend, plane_bits, read_all};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn wanting(names: &[&str]) -> OpenOptions {
    strict().with_channels(names.iter().map(|n| n.parse().unwrap()))
}

/// Opens for `zos` alone, which reads as it was written.
fn zos_reads(store: &TestStore) -> Store {
    let open = Store::open(store.root(), &wanting(&["zos"])).unwrap();
    let (planes, _) = read_all(&open).unwrap();
    assert_eq!(planes[2], plane_bits("zos", 0, 2, CELLS));
    open
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn arrays_that_nobody_asked_for_are_warnings_and_wanted_ones_errors() {
    let rectilinear = json!({"name": "rectilinear", "configuration": {"kind": "inline",
        "chunk_shapes": [[1, 5], [NY], [NX]]}});
    for (v3, fields, word) in [
        (true, json!({"chunk_grid": rectilinear}), "rectilinear"),
        (true, json!({"codecs": [{"name": "acme"}]}), ""),
        (true, json!({"data_type": "string"}), ""),
        (
            true,
            json!({"new": {"must_understand": true}}),
            "must be understood",
        ),
        (true, json!({"new": 7}), "must be understood"),
        (false, json!({"compressor": {"id": "lzma"}}), ""),
        (false, json!({"shape": [1, "x"]}), "shape"),
        (false, json!({"zarr_format": 3}), "zarr_format 2"),
    ] {
        let store = TestStore::good(v3);
        store.flat("other", &Bend::default());
        store
            .writer
            .edit("other", |d| d.extend(fields.as_object().unwrap().clone()));
        let open = zos_reads(&store);
        if !word.is_empty() {
            warned(&open, &["other is not used", word]);
        }
        let e = Store::open(store.root(), &wanting(&["zos", "other"])).unwrap_err();
        says(&e, ErrorKind::Metadata, &["array other", word]);
    }
    for (v3, text) in [
        (true, "{"),
        (true, "{}"),
        (true, ""),
        (false, "{\"shape\": NaNNaN}"),
    ] {
        let store = TestStore::good(v3);
        let file = if v3 { "junk/zarr.json" } else { "junk/.zarray" };
        write(store.file(file), text);
        // Nobody asked for anything by name: what can be served is.
        for open in [zos_reads(&store), store.open().unwrap()] {
            warned(&open, &["junk is not used"]);
        }
        let e = Store::open(store.root(), &wanting(&["junk"])).unwrap_err();
        says(&e, ErrorKind::Metadata, &["array junk"]);
    }
}

#[test]
fn masks_of_levels_that_nobody_asked_for_may_be_broken() {
    let build = || {
        let store = TestStore::good(true);
        let shape = [NY as u64, NX as u64];
        for name in ["mask_0", "mask_3"] {
            let plain = Bend::default();
            let wet = vec![1i8; CELLS];
            store
                .writer
                .array(name, &["y", "x"], &shape, &shape, "int8", &plain, &wet);
        }
        store.flat("so_3", &Bend::default());
        store
    };
    let metadata = |store: &TestStore| write(store.file("mask_3/zarr.json"), "{");
    let chunk = |store: &TestStore| write(store.file("mask_3/c/0/0"), "");
    for damage in [&metadata as &dyn Fn(&TestStore), &chunk] {
        let store = build();
        damage(&store);
        warned(&zos_reads(&store), &["mask_3", "not used"]);
        let e = Store::open(store.root(), &wanting(&["zos", "so_3"])).unwrap_err();
        assert_eq!(e.array_name(), Some("mask_3"), "{e:?}");
    }
}

#[test]
fn fields_that_need_not_be_understood_are_not() {
    let store = TestStore::good(true);
    let may = json!({"name": "x", "must_understand": false});
    store
        .writer
        .edit("zos", |d| drop(d.insert("new".into(), may.clone())));
    let group = |extra: Value| {
        let mut group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
        group["new"] = extra;
        write(store.file("zarr.json"), &group.to_string());
    };
    group(may);
    zos_reads(&store);
    for must in [json!({"must_understand": true}), json!({}), json!(null)] {
        group(must);
        refused(&store, ErrorKind::Metadata, &["must be understood", "new"]);
    }
}

#[test]
fn a_consolidated_copy_never_refuses_a_store() {
    let store = TestStore::good(false);
    for text in [
        "{",
        "[]",
        "",
        "{\"metadata\": 3}",
        "{\"metadata\": {\"zos/.zarray\": 1}}",
    ] {
        write(store.file(".zmetadata"), text);
        assert!(!zos_reads(&store).warnings().is_empty(), "{text}");
    }
    fs::remove_file(store.file(".zmetadata")).unwrap();
    fs::create_dir(store.file(".zmetadata")).unwrap();
    warned(
        &zos_reads(&store),
        &["consolidated metadata is not used", "a directory"],
    );
    let store = TestStore::good(true);
    for copy in [
        json!(1),
        json!({"metadata": []}),
        json!({"metadata": {"zos": 4}}),
    ] {
        let mut group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
        group["consolidated_metadata"] = copy;
        write(store.file("zarr.json"), &group.to_string());
        assert!(!zos_reads(&store).warnings().is_empty());
    }
}

#[test]
fn numbers_that_python_writes_are_read() {
    for v3 in [false, true] {
        let store = TestStore::good(v3);
        let file = if v3 { "zos/zarr.json" } else { "zos/.zarray" };
        let text = fs::read_to_string(store.file(file)).unwrap();
        let bare = text.replace("\"NaN\"", "NaN");
        assert!(bare.contains(":NaN"), "{bare}");
        write(store.file(file), &bare);
        if !v3 {
            let attributes = r#"{"_ARRAY_DIMENSIONS": ["time", "y", "x"], "valid_range":
                [-Infinity, Infinity], "a": NaN, "long_name": "NaN, \"-Infinity"}"#;
            write(store.file("zos/.zattrs"), attributes);
        }
        let open = zos_reads(&store);
        if !v3 {
            let name = open.long_name(&"zos".parse().unwrap());
            assert_eq!(name, Some("NaN, \"-Infinity"));
        }
    }
}

#[test]
fn arrays_of_one_format_in_a_group_of_the_other_are_said() {
    for v3 in [false, true] {
        let store = TestStore::good(v3);
        let (file, group) = match v3 {
            true => (".zgroup", json!({"zarr_format": 2})),
            false => ("zarr.json", json!({"zarr_format": 3, "node_type": "group"})),
        };
        // A v3 group wins where both are; a v2 group alone is what there is.
        if v3 {
            fs::remove_file(store.file("zarr.json")).unwrap();
        }
        write(store.file(file), &group.to_string());
        refused(
            &store,
            ErrorKind::Metadata,
            &["array time", "both formats", "zarr.json", ".zgroup"],
        );
    }
}

#[test]
fn the_time_axis_has_the_name_that_the_options_say() {
    let store = TestStore::good(true);
    for name in ["time", "zos"] {
        let text = fs::read_to_string(store.file(&format!("{name}/zarr.json"))).unwrap();
        let text = text.replace("\"time\"", "\"ocean_time\"");
        write(store.file(&format!("{name}/zarr.json")), &text);
    }
    fs::rename(store.file("time"), store.file("ocean_time")).unwrap();
    refused(
        &store,
        ErrorKind::Metadata,
        &["array time", "time_name", "ocean_time"],
    );
    let open = Store::open(store.root(), &strict().with_time_name("ocean_time")).unwrap();
    assert_eq!(open.time().len(), ROWS);
    assert_eq!(
        read_all(&open).unwrap().0[3],
        plane_bits("zos", 0, 3, CELLS)
    );
}

#[cfg(unix)]
#[test]
fn only_what_the_system_does_not_find_is_absent() {
    use std::os::unix::fs::symlink;
    let area = vec![1.0f64; CELLS];
    let build = || {
        let store = TestStore::good(true);
        let shape = [NY as u64, NX as u64];
        let plain = Bend::default();
        store.writer.array(
            "areacello",
            &["y", "x"],
            &shape,
            &shape,
            "float64",
            &plain,
            &area,
        );
        store
    };
    assert!(build().open().unwrap().grid().cell_area().is_some());
    let store = build();
    fs::remove_dir_all(store.file("areacello")).unwrap();
    assert!(store.open().unwrap().grid().cell_area().is_none());
    // Links that lead nowhere, to themselves, and a file in the folder's place.
    for target in ["gone", "areacello"] {
        let store = build();
        fs::remove_dir_all(store.file("areacello")).unwrap();
        symlink(target, store.file("areacello")).unwrap();
        refused(&store, ErrorKind::Io, &["array areacello", "areacello"]);
        // Nobody asked for `other`.
        symlink(target, store.file("other")).unwrap();
        fs::remove_file(store.file("areacello")).unwrap();
        warned(&zos_reads(&store), &["other is not used"]);
        let e = Store::open(store.root(), &wanting(&["other"])).unwrap_err();
        says(&e, ErrorKind::Io, &["array other"]);
    }
    let store = build();
    fs::remove_dir_all(store.file("areacello")).unwrap();
    write(store.file("areacello"), "");
    refused(&store, ErrorKind::Io, &["array areacello", "a file"]);
    // The same for its document, and for the chunk.
    for key in ["areacello/zarr.json", "areacello/c/0/0", "areacello/c"] {
        let store = build();
        let path = store.file(key);
        fs::rename(&path, store.file("areacello/away")).unwrap();
        symlink("nowhere", &path).unwrap();
        refused(
            &store,
            ErrorKind::Io,
            &["array areacello", "cannot be followed"],
        );
        // A link that leads somewhere is what it leads to.
        fs::remove_file(&path).unwrap();
        symlink(store.file("areacello/away"), &path).unwrap();
        assert!(store.open().unwrap().grid().cell_area().is_some(), "{key}");
    }
    // Something else in the place of a document.
    let store = build();
    fs::remove_file(store.file("areacello/zarr.json")).unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(store.file("areacello/zarr.json")).unwrap();
    refused(&store, ErrorKind::Io, &["array areacello", "zarr.json"]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_warnings() {
    use std::os::unix::ffi::OsStrExt;
    let store = TestStore::good(true);
    fs::create_dir(store.root().join(std::ffi::OsStr::from_bytes(b"so\xff"))).unwrap();
    warned(&zos_reads(&store), &["no UTF-8"]);
}
