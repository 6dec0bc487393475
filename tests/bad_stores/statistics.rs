//! Statistics, and published stores with one thing broken.

use crate::{lenient, says, strict, warned};
use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Statistics, Store};
use burn_om4::{Channel, ErrorKind};
use om4_test_support::shared;
use om4_test_support::stores::{Bend, Writer, copy_dir};

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
    // A chunk that is not there is its fill value, here NaN, which normalises nothing.
    std::fs::remove_file(means.join("zos/0")).unwrap();
    let statistics = open(&strict()).unwrap();
    let warnings = statistics.warnings().join("\n");
    for word in ["array zos", "a chunk is not there", "fill value \"NaN\""] {
        assert!(warnings.contains(word), "`{word}` is not in: {warnings}");
    }
    let e = statistics.get(&channel("zos")).unwrap_err();
    assert_eq!((e.kind(), e.array_name()), (ErrorKind::Values, Some("zos")));
    let lenient = open(&lenient()).unwrap();
    assert!(lenient.get(&channel("zos")).unwrap().mean.is_nan());
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
