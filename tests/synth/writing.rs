//! Same bytes for the same seed; what is refused, and what is left behind.

use crate::{dir, read, small};
use burn_om4::ocean::Calendar;
use burn_om4::synth::{Chunking, Existing, SynthOptions, field};
use burn_om4::{Date, ErrorKind};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
