//! The program `om4`, run as a user runs it. It is built with the feature `cli`.
#![cfg(feature = "cli")]

use burn_om4::dataset::Ocean;
use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Statistics, Store};
use burn_om4::survey::compute_statistics;
use burn_om4::synth::SynthOptions;
use burn_om4::{Om4Paths, Strictness, parse_channels};
use om4_test_support::inputs::{Right, unpack};
use om4_test_support::{read_npy, shared};
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

/// Mean and deviation of a scalar pair.
fn stats_of(dir: &Path, name: &str) -> (f64, f64) {
    let scalar = |store: &str| {
        let bytes = fs::read(dir.join(store).join(name).join("0")).unwrap();
        f64::from(f32::from_le_bytes(bytes.try_into().unwrap()))
    };
    (scalar("OM4_means.zarr"), scalar("OM4_stds.zarr"))
}

/// Computes the statistics of a store, and compares them with those beside it.
fn recompute(dir: &Path, more: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let words = [
        "stats",
        dir.to_str().unwrap(),
        "--out",
        out.path().to_str().unwrap(),
    ];
    let output = om4(words.iter().chain(more));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let published = Om4Paths::in_dir(dir);
    let options = OpenOptions::default();
    let published = Statistics::open(&published.means, &published.stds, &options).unwrap();
    let own = Om4Paths::in_dir(out.path());
    let own = Statistics::open(&own.means, &own.stds, &options).unwrap();
    assert!(own.warnings().is_empty(), "{:?}", own.warnings());
    let mut compared = 0;
    for channel in published
        .channels()
        .filter(|c| !c.name().starts_with("mask_"))
    {
        let right = published.get(channel).unwrap();
        let found = own.get(channel).unwrap();
        let (mean, std) = (f64::from(found.mean), f64::from(found.std));
        assert_eq!((mean, std), stats_of(out.path(), channel.name()));
        let (right_mean, right_std) = (f64::from(right.mean), f64::from(right.std));
        let (apart, ratio) = ((mean - right_mean).abs() / right_std, std / right_std - 1.0);
        // A mean of float32 may itself be off by more than that.
        let last_bit = right_mean.abs() * f64::from(f32::EPSILON) / right_std;
        assert!(
            apart < 1e-6_f64.max(last_bit),
            "{} {channel}: {apart:e}",
            dir.display()
        );
        assert!(ratio.abs() < 1e-6, "{} {channel}: {ratio:e}", dir.display());
        compared += 1;
    }
    assert!(compared > 1, "{}", dir.display());
}

#[test]
fn computed_statistics_are_the_published_ones() {
    let Some(stores) = shared("fixtures/batches/stores") else {
        return;
    };
    for dataset in ["A", "D", "E"] {
        for entry in fs::read_dir(stores.join(dataset)).unwrap() {
            recompute(&entry.unwrap().path(), &[]);
        }
    }
    for name in ["ersst_2deg_v2", "ersst_2deg_v3"] {
        let Some(dir) = shared(&format!("data/{name}")) else {
            return;
        };
        recompute(&dir, &["--time", "2010-01-01..2018-12-31"]);
    }
}

#[test]
fn statistics_are_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let words = [
        "synth", path, "--ny", "6", "--nx", "12", "--levels", "2", "--rows", "8",
    ];
    assert_eq!(om4(words).status.code(), Some(0));
    let written = stats_of(dir.path(), "zos");
    let output = om4(["stats", path]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("there already"), "{output:?}");
    let output = om4(["stats", path, "--force", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["rows"], serde_json::json!([0, 8]));
    let (mean, std) = stats_of(dir.path(), "zos");
    assert!((mean - written.0).abs() < 1e-6 * std && (std / written.1 - 1.0).abs() < 1e-6);
    // As published, consolidated, and nothing else is left.
    let keys = fs::read(dir.path().join("OM4_means.zarr/.zmetadata")).unwrap();
    let keys: Value = serde_json::from_slice(&keys).unwrap();
    let array = &keys["metadata"]["zos/.zarray"];
    assert_eq!(array["dtype"], "<f4");
    assert_eq!(array["shape"], serde_json::json!([]));
    assert_eq!(keys["metadata"]["mask_0/.zarray"]["dtype"], "<f8");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn inspect_says_what_a_store_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let words = [
        "synth", path, "--ny", "6", "--nx", "12", "--levels", "2", "--rows", "8",
    ];
    let words = [
        &words[..],
        &["--layout", "compact", "--format", "v3", "--codec", "zstd"],
    ]
    .concat();
    assert_eq!(om4(words).status.code(), Some(0));
    let output = om4(["inspect", path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    assert_eq!(found["zarr_format"], 3);
    assert_eq!(found["layout"], "compact");
    assert_eq!(found["rows"], 8);
    assert_eq!(found["missing_chunks"], 0);
    let arrays = found["arrays"].as_array().unwrap();
    let thetao = arrays.iter().find(|a| a["name"] == "thetao").unwrap();
    assert_eq!(
        (&thetao["codec"], &thetao["chunks"]),
        (&"zstd".into(), &8.into())
    );
    let said = text(&om4(["inspect", path]).stdout);
    for words in [
        "Zarr v3, compact",
        "6 x 12",
        "8 rows",
        "thetao_0 to thetao_1",
        "codec zstd",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn doctor_exits_with_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let words = [
        "synth", path, "--ny", "6", "--nx", "12", "--levels", "2", "--rows", "8",
    ];
    assert_eq!(om4(words).status.code(), Some(0));
    let output = om4(["doctor", path, "--full"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output.stdout).contains("0 errors, 0 warnings"),
        "{output:?}"
    );
    fs::remove_file(dir.path().join("OM4.zarr/zos/3.0.0")).unwrap();
    let output = om4(["doctor", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("error: array zos, chunk 3.0.0: not there, with ocean in it"),
        "{said}"
    );
    let found = json(&om4(["doctor", path, "--json"]));
    assert_eq!(found["findings"][0]["kind"], "missing-chunk");
    assert_eq!(found["findings"][0]["array"], "zos");
    let output = om4(["doctor", &format!("{path}/nothing"), "--json"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_store_without_statistics_opens_with_computed_ones() {
    let dir = tempfile::tempdir().unwrap();
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    options.write(dir.path()).unwrap();
    let paths = Om4Paths::in_dir(dir.path());
    let channels = parse_channels("thetao_1, zos").unwrap();
    let options = OpenOptions::default();
    let published = Ocean::open(&paths, &channels, &options).unwrap();
    fs::remove_dir_all(&paths.means).unwrap();
    assert!(Ocean::open(&paths, &channels, &options).is_err());
    let store = Store::open(&paths.data, &options).unwrap();
    let computed = compute_statistics(&store, &channels, 0..8, &|_| {}).unwrap();
    let statistics = computed.statistics(Strictness::Strict);
    let ocean = Ocean::open_with_statistics(&paths.data, &statistics, &channels, &options).unwrap();
    for channel in &channels {
        let of = |ocean: &Ocean| {
            let constants = &ocean.channels[channel].constants;
            (constants.mean, constants.std)
        };
        let (right, found) = (of(&published), of(&ocean));
        assert!((right.0 - found.0).abs() <= 1e-6 * right.1, "{channel}");
        assert!((right.1 / found.1 - 1.0).abs() < 1e-6, "{channel}");
    }
}
