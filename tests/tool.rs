//! The program `om4`, run as a user runs it. It is built with the feature `cli`.
#![cfg(feature = "cli")]

use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Store};
use burn_om4::synth::SynthOptions;
use om4_test_support::inputs::{Right, unpack};
use om4_test_support::read_npy;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `om4` with these words.
fn om4<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_om4"));
    command.args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// Runs `om4 dump` of a folder.
fn dump(dir: &Path, channels: &str, more: &[&str], out: &Path) -> Output {
    let (dir, out) = (dir.to_str().unwrap(), out.to_str().unwrap());
    let words = ["dump", dir, "--channels", channels, "--out", out];
    om4(words.iter().chain(more))
}

fn same(a: &[f32], b: &[f32]) -> bool {
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    a.len() == b.len() && a.iter().zip(b).all(same)
}

#[test]
fn a_dump_is_what_the_reader_delivers() {
    let dir = tempfile::tempdir().unwrap();
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    options.write(dir.path()).unwrap();
    let out = dir.path().join("out");
    let output = dump(dir.path(), "zos, thetao_1", &["--rows", "2..7"], &out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    let data = dir.path().join("OM4.zarr");
    let store = Store::open(&data, &OpenOptions::default()).unwrap();
    for name in ["zos", "thetao_1"] {
        let channel = name.parse().unwrap();
        let planes = (2..7).flat_map(|row| store.read_plane(&channel, row).unwrap());
        let planes: Vec<f32> = planes.collect();
        let path = out.join(format!("{name}.npy"));
        assert!(same(&read_npy(&path), &planes), "{name}");
        let bytes = fs::read(&path).unwrap();
        let shape = npyz::NpyFile::new(&bytes[..]).unwrap().shape().to_vec();
        assert_eq!(shape, [5, 6, 12]);
    }
    for level in [0, 1] {
        let wet: Vec<bool> = read_npy(&out.join(format!("mask_{level}.npy")));
        assert_eq!(wet, store.wet_mask(level).unwrap().as_slice());
    }
    let meta: Value = serde_json::from_slice(&fs::read(out.join("meta.json")).unwrap()).unwrap();
    let times: Vec<String> = (2..7).map(|row| store.time().label(row)).collect();
    assert_eq!(meta["times"], serde_json::json!(times));
    assert_eq!(meta["calendar"], "julian");
    assert_eq!(meta["latitude"].as_array().unwrap().len(), 6);
    assert_eq!(meta["warnings"], serde_json::json!([]));
    // The store itself serves as well as the folder that holds it.
    let again = dir.path().join("again");
    assert!(
        dump(&data, "zos", &["--rows", "2..7"], &again)
            .status
            .success()
    );
    assert_eq!(
        fs::read(again.join("zos.npy")).unwrap(),
        fs::read(out.join("zos.npy")).unwrap()
    );
    assert_eq!(store.rows(), 8);
}

#[test]
fn what_cannot_be_dumped_is_said_and_exits_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    options.write(dir.path()).unwrap();
    let out = dir.path().join("out");
    for (channels, more, word) in [
        ("zos, nope", &[][..], "nope"),
        ("zos", &["--rows", "3..9"], "the store has 8"),
        ("zos", &["--rows", "3..3"], "there is none"),
    ] {
        let output = dump(dir.path(), channels, more, &out);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(word), "{output:?}");
        assert!(!out.join("meta.json").exists());
    }
    let output = dump(&dir.path().join("elsewhere"), "zos", &["--json"], &out);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["kind"], "Io");
    // A missing chunk: refused, or read as fill and said, once.
    fs::remove_file(dir.path().join("OM4.zarr/zos/3.0.0")).unwrap();
    let output = dump(dir.path(), "zos", &[], &out);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("time row 3"), "{output:?}");
    let output = dump(dir.path(), "zos", &["--lenient", "--json"], &out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let warnings = json(&output)["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 1, "{warnings}");
    assert_eq!(
        text(&output.stderr).matches("3.0.0").count(),
        1,
        "{output:?}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_no_command_in_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    options.write(dir.path()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_om4"));
    let words = [
        "plan",
        "--prognostic",
        "thetao_1",
        "--boundary",
        "hfds",
        "--json",
        "--data",
    ];
    command.args(words).arg(dir.path());
    command.args(["--steps", "1", "--batch", "1"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn plan_is_for_people_and_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    options.write(dir.path()).unwrap();
    let data = dir.path().to_str().unwrap();
    let words = [
        "plan",
        "--data",
        data,
        "--prognostic",
        "thetao_1",
        "--boundary",
        "hfds",
    ];
    let words = [
        &words[..],
        &["--steps", "2", "--batch", "1", "--history", "0"],
    ]
    .concat();
    let people = om4(&words);
    assert_eq!(people.status.code(), Some(0), "{people:?}");
    let programs = json(&om4(words.iter().chain(&["--json"])));
    // Rows 0 to 2 of one channel and 0, 1 of the other, and so on: 6 windows.
    assert_eq!(programs["windows"], 6);
    assert_eq!(programs["unique_planes_per_batch"], 5.0);
    let said = text(&people.stdout);
    assert!(said.contains("windows              6\n"), "{said}");
    assert!(said.contains("5.0 planes"), "{said}");
}

/// Archives of stores that read as they are, and what was read of them.
#[test]
fn dumps_of_peoples_stores_are_right() {
    for name in [
        "a15_no_dimension_names_v3",
        "a25_zero_lat_fill_zero",
        "b30_plain",
    ] {
        let Some(input) = unpack(name) else { return };
        let right = Right::read(&input.root);
        let channels: Vec<&str> = right.planes.keys().map(String::as_str).collect();
        let out = input.root.join("out");
        let output = dump(&input.root, &channels.join(","), &[], &out);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        for (channel, planes) in &right.planes {
            let found: Vec<f32> = read_npy(&out.join(format!("{channel}.npy")));
            assert!(same(&found, planes), "{name} {channel}");
        }
        for (level, wet) in &right.masks {
            let found: Vec<bool> = read_npy(&out.join(format!("mask_{level}.npy")));
            assert_eq!(&found, wet, "{name} {level}");
        }
        let meta = fs::read(out.join("meta.json")).unwrap();
        let meta: Value = serde_json::from_slice(&meta).unwrap();
        assert_eq!(meta["times"], serde_json::json!(right.times), "{name}");
    }
}
