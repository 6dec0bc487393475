//! Whole runs and their parts, on stores of a few cells.

mod derived;
mod inputs;
mod lost;
mod process;
mod resume;
mod said;
mod trace;

use burn::tensor::Device;
use burn_om4::Channel;
use burn_om4::synth::{Field, SynthOptions, field};
use clap::Parser;
use samudra_training::data::{Loaders, PUBLISHED, Task};
use samudra_training::network;
use samudra_training::options::Options;
use samudra_training::run::run;
use samudra_training::score::validate;
use samudra_training::signals::Stop;
use serde_json::Value;
use std::path::Path;

const NY: usize = 8;
const NX: usize = 16;

/// A slow wave of the sea level and the temperature, driven by a known heat flux. The first column
/// is land.
fn write_store(dir: &Path) {
    let plane = |channel: &Channel, row: usize, out: &mut [f32]| {
        for (i, value) in out.iter_mut().enumerate() {
            let (y, x) = ((i / NX) as f32, (i % NX) as f32);
            let phase = 0.4 * row as f32 - std::f32::consts::TAU * x / NX as f32;
            *value = match channel.name() {
                "thetao_0" => 10.0 + y + 2.0 * phase.sin(),
                "zos" => 0.1 * phase.cos(),
                _ => 50.0 * (phase + 0.4).sin(),
            };
        }
    };
    write(dir, 40, &mut field(|_, _, x| x > 0, plane));
}

fn write(dir: &Path, rows: usize, field: &mut dyn Field) {
    SynthOptions::new(NY, NX)
        .with_levels(1)
        .with_rows(rows)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .write_field(dir, field)
        .unwrap();
}

fn options(dir: &Path, more: &[&str]) -> Options {
    let dir = dir.display().to_string();
    let out = format!("{dir}/out");
    let fixed = [
        "samudra_train",
        "--quiet",
        "--data",
        &dir,
        "--prognostic",
        "thetao_0,zos",
        "--boundary",
        "hfds",
        "--device",
        "cpu",
        "--out",
        &out,
    ];
    Options::parse_from(fixed.iter().chain(more))
}

fn open(options: &Options) -> Loaders {
    let task = Task::new(options.data.as_ref().unwrap(), options, &PUBLISHED).unwrap();
    Loaders::open(&task, options, &Device::flex()).unwrap()
}

#[test]
fn a_run_learns_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let options = options(
        dir.path(),
        &["--steps", "2", "--epochs", "8", "--batch-size", "3"],
    );
    let outcome = run(&options, &Stop::default()).unwrap();
    assert!(!outcome.demo);

    let read = |name: &str| std::fs::read(dir.path().join("out").join(name)).unwrap();
    let report: Value = serde_json::from_slice(&read("report.json")).unwrap();
    // The default days: the first 32 rows and the last 8. A window of two steps spans 6 rows.
    assert_eq!(report["validation_windows"], 3);
    let epochs = report["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 8);
    assert_eq!(epochs[7]["steps"], 8 * 9);
    let loss = |e: usize| epochs[e]["train_loss"].as_f64().unwrap();
    assert!(loss(7) < 0.5 * loss(0), "{} to {}", loss(0), loss(7));
    assert!(epochs[7]["learning_rate"].as_f64().unwrap() < 1e-12);

    let validation = report["validation"].as_object().unwrap();
    assert_eq!(validation.keys().collect::<Vec<_>>(), ["thetao_0", "zos"]);
    for (name, unit) in [("thetao_0", "degC"), ("zos", "m")] {
        let skill = &validation[name];
        assert_eq!(skill["unit"], unit);
        for key in ["rmse", "persistence"] {
            let values = skill[key].as_array().unwrap();
            assert_eq!(values.len(), 2 * 2, "{name} {key}");
            assert!(values.iter().all(|v| v.as_f64().unwrap() > 0.0));
        }
    }
    assert_eq!(report["config"]["epochs"], 8);
    assert_eq!(report["config"]["prognostic"][1], "zos");
    let loader = &report["loader"];
    assert_eq!(loader["train"]["windows"], 8 * 27);
    assert_eq!(loader["validation"]["windows"], 8 * 3);
    check_loading(&loader["train"], 8 * 27, 8 * 9);
    check_loading(&loader["validation"], 8 * 3, 8);

    for picture in ["maps.png", "skill.png"] {
        assert!(read(picture).starts_with(b"\x89PNG"), "{picture}");
    }
    let weights = samudra::StateDict::read(dir.path().join("out/samudra.safetensors")).unwrap();
    assert!(weights.get("decoder.bias").is_some());
}

/// The counters of a loader that delivered this many windows of two steps in this many batches.
fn check_loading(loader: &Value, windows: u64, batches: u64) {
    let count = |key: &str| loader[key].as_u64().unwrap();
    assert_eq!((count("windows"), count("batches")), (windows, batches));
    // Input, boundary and label of 2 times each, of two channels, one, and two; the input of the
    // second step is the label of the first.
    assert_eq!(count("planes_shown"), windows * (2 * 2 + 2 * 2 + 2 * 2 * 2));
    assert!(count("unique_planes") < count("planes_shown"));
    assert_eq!(
        count("planes_read") + count("planes_carried"),
        count("unique_planes")
    );
    // On a CPU every tensor is a buffer of its own.
    let cells = (NY * NX) as u64;
    assert_eq!(count("bytes_uploaded"), 4 * cells * count("planes_shown"));
    assert_eq!(count("uploads"), batches * (1 + 2 + 2));
    let wait = &loader["wait"];
    let [mean, p50, p99, max] = ["mean", "p50", "p99", "max"].map(|k| wait[k].as_f64().unwrap());
    // A pass over one batch has no wait that could have been hidden.
    let waits = batches - 8;
    assert_eq!(wait["batches"].as_u64().unwrap(), waits, "{wait}");
    assert!(p50 <= p99 && p99 <= max && mean <= max, "{wait}");
    assert_eq!(mean > 0.0 && p50 > 0.0, waits > 0, "{wait}");
    assert!(wait["first_seconds"].as_f64().unwrap() > 0.0);
    let pool = &loader["host_pool"];
    assert_eq!(pool["leased"], 0, "{pool}");
    assert!(pool["peak_bytes"].as_u64() >= pool["bytes"].as_u64());
    assert!(pool["allocations"].as_u64().unwrap() > 0 && pool["free"].is_u64());
}

#[test]
fn persistence_is_the_last_input_weighted_by_area() {
    // Every cell grows by its own amount from row to row, so persistence errs by that amount times
    // the lead, whatever the window.
    let growth = |y: usize, x: usize| 0.1 + y as f32 * 0.25 + x as f32 * 0.01;
    let dir = tempfile::tempdir().unwrap();
    let plane = move |channel: &Channel, row: usize, out: &mut [f32]| {
        for (i, value) in out.iter_mut().enumerate() {
            let factor = if channel.name() == "zos" { 1.0 } else { 20.0 };
            *value = factor * growth(i / NX, i % NX) * row as f32;
        }
    };
    let wet = |y: usize, x: usize| !(x + y).is_multiple_of(5);
    write(dir.path(), 100, &mut field(move |_, y, x| wet(y, x), plane));

    let options = options(
        dir.path(),
        &["--steps", "2", "--history", "2", "--stride", "2"],
    );
    let loaders = open(&options);
    let context = loaders.validation.batcher().dataset().context(0);
    let device = Device::flex();
    let network = network::config(options.model, context)
        .init(&network::grid(context.grid()), 1, &device)
        .unwrap();
    let scores = validate(&network, &loaders.validation, &device).unwrap();
    // The last 20 rows; a window spans 17.
    assert_eq!(scores.windows(), 4);

    let area = context.grid().cell_area_weights().unwrap().weights;
    assert_ne!(area[0], area[4 * NX], "rows differ in area");
    let (mut squares, mut total) = (0.0, 0.0);
    for (i, area) in area.iter().enumerate().filter(|(i, _)| wet(i / NX, i % NX)) {
        squares += area * f64::from(growth(i / NX, i % NX)).powi(2);
        total += area;
    }
    for (channel, factor) in [(0, 20.0), (1, 1.0)] {
        let found = scores.persistence(channel);
        assert_eq!(found.len(), 6);
        for (lead, found) in (1..).zip(found) {
            // Two rows to a lead.
            let expected = factor * f64::from(2 * lead) * (squares / total).sqrt();
            assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
        }
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let refused = |more: &[&str]| {
        let error = run(&options(dir.path(), more), &Stop::default())
            .err()
            .unwrap();
        format!("{error:#}")
    };
    let message = refused(&["--steps", "9"]);
    assert!(message.contains("windows to validate on"), "{message}");
    assert!(message.contains("no window fits"), "{message}");
    let mut other = options(dir.path(), &[]);
    other.prognostic = Some("so_0".parse().unwrap());
    let message = format!("{:#}", run(&other, &Stop::default()).err().unwrap());
    assert!(message.contains("so_0"), "{message}");
    let message = refused(&["--lr", "0"]);
    assert!(message.contains("--lr"), "{message}");
    // A rate that makes the network diverge.
    let message = refused(&["--lr", "1e30", "--epochs", "3"]);
    assert!(message.contains("smaller --lr"), "{message}");

    let nowhere = options(&dir.path().join("nowhere"), &[]);
    let message = format!("{:#}", run(&nowhere, &Stop::default()).err().unwrap());
    assert!(message.contains("OM4.zarr"), "{message}");
    let half = ["samudra_train", "--train-time", "2001-01-01..2001-02-01"];
    assert!(Options::try_parse_from(half).is_err());
}
