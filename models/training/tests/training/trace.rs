//! The timeline of a training run.

use crate::{options, write_store};
use samudra_training::options::Options;
use samudra_training::run::run;
use samudra_training::signals::{Interrupted, Stop};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Batches of 3 windows in an epoch.
const BATCHES: u64 = 9;

fn asked(dir: &Path, more: &[&str]) -> Options {
    let trace = dir.join("trace.json").display().to_string();
    let fixed = ["--steps", "2", "--batch-size", "3", "--epochs", "2"];
    options(dir, &[&fixed[..], &["--trace", &trace], more].concat())
}

/// The batches of each lane's spans, in order of their start.
fn lanes(dir: &Path) -> BTreeMap<String, Vec<u64>> {
    let text = std::fs::read_to_string(dir.join("trace.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let mut lanes = BTreeMap::new();
    for event in events.iter().filter(|e| e["ph"] == "M") {
        lanes.insert(event["args"]["name"].as_str().unwrap().to_owned(), vec![]);
    }
    let mut spans: Vec<&Value> = events.iter().filter(|e| e["ph"] == "X").collect();
    spans.sort_by(|a, b| {
        a["ts"]
            .as_f64()
            .unwrap()
            .total_cmp(&b["ts"].as_f64().unwrap())
    });
    for span in spans {
        assert!(span["dur"].as_f64().unwrap() >= 0.0);
        let batch = span["name"].as_str().unwrap().strip_prefix("batch ");
        let lane = lanes.get_mut(span["cat"].as_str().unwrap()).unwrap();
        lane.push(batch.unwrap().parse().unwrap());
    }
    lanes
}

#[test]
fn every_training_batch_has_a_span_in_each_lane() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    run(&asked(dir.path(), &[]), &Stop::default()).unwrap();
    let lanes = lanes(dir.path());
    let epochs: Vec<u64> = (0..BATCHES).chain(0..BATCHES).collect();
    for lane in ["host read", "prepare", "model"] {
        assert_eq!(lanes[lane], epochs, "{lane}");
    }
    // Nothing is copied to a CPU device.
    assert!(lanes["upload"].is_empty());
    assert_eq!(lanes.len(), 4);
}

#[test]
fn a_run_that_is_told_to_stop_leaves_its_trace() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let stop = Stop::default();
    stop.request();
    let error = run(&asked(dir.path(), &[]), &stop).err().unwrap();
    assert!(error.is::<Interrupted>(), "{error:#}");
    let lanes = lanes(dir.path());
    assert_eq!(
        (&lanes["prepare"][..], &lanes["model"][..]),
        (&[0][..], &[0][..])
    );
    assert!(lanes["host read"].starts_with(&[0]));
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_training() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let mut options = asked(dir.path(), &[]);
    options.trace = Some(dir.path().join("nowhere/trace.json"));
    let error = run(&options, &Stop::default()).err().unwrap();
    assert!(format!("{error:#}").contains("nowhere"), "{error:#}");
    assert!(!dir.path().join("out").exists(), "nothing was trained");
}

#[test]
fn each_of_several_ranks_writes_files_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--rank", "1", "--world", "4", "--report", "some/where.json"];
    let options = asked(dir.path(), &more).of_rank(|_| None).unwrap();
    assert_eq!(options.trace, Some(dir.path().join("trace.rank-1.json")));
    assert_eq!(options.report, Some("some/where.rank-1.json".into()));
    let alone = asked(dir.path(), &[]).of_rank(|_| None).unwrap();
    assert_eq!(alone.trace, Some(dir.path().join("trace.json")));
}
