//! Small stores that people's reports led to, as far as training is concerned.

use clap::Parser;
use om4_test_support::inputs::{Input, unpack};
use samudra_training::options::Options;
use samudra_training::run::{Outcome, run};
use samudra_training::signals::Stop;
use std::path::Path;

/// Two epochs on the store in `inside` of an archive.
fn train(input: &Input, inside: &str, prognostic: &str) -> anyhow::Result<Outcome> {
    let data = input.root.join(inside).display().to_string();
    let out = input.root.join(inside).join("out").display().to_string();
    let arguments = ["--data", &data, "--out", &out, "--prognostic", prognostic];
    let fixed = ["samudra_train", "--boundary", "hfds", "--device", "cpu"];
    let more = ["--epochs", "2", "--save-every", "3", "--resume", "--quiet"];
    let options = Options::parse_from([&fixed[..], &arguments, &more].concat());
    run(&options, &Stop::default())
}

fn warned(outcome: &Outcome, words: &str) -> bool {
    outcome.report.warnings.iter().any(|w| w.contains(words))
}

fn weights(input: &Input) -> samudra::StateDict {
    let out = input.root.join("out/samudra.safetensors");
    samudra::StateDict::read(Path::new(&out)).unwrap()
}

#[test]
fn a28_a_channel_without_ice_in_validation_has_no_ratio() {
    let Some(input) = unpack("a28_no_ice_in_validation") else {
        return;
    };
    let first = train(&input, "", "thetao_0,siconc").unwrap();
    let ratios: Vec<bool> = first
        .report
        .validation
        .iter()
        .map(|s| s.ratio.is_some())
        .collect();
    assert_eq!(ratios, [true, false]);
    assert!(
        first
            .report
            .epochs
            .iter()
            .all(|e| e.validation_ratio.is_some())
    );
    assert!(warned(&first, "for siconc: there is no ratio"));
    // Its checkpoint is read.
    train(&input, "", "thetao_0,siconc").unwrap();
}

#[test]
fn a29_cells_without_latitude_weigh_alike() {
    let Some(input) = unpack("a29_no_latitude") else {
        return;
    };
    let outcome = train(&input, "", "thetao_0,zos").unwrap();
    assert!(
        warned(&outcome, "weigh all cells alike"),
        "{:?}",
        outcome.report.warnings
    );
}

#[test]
fn b30_weights_are_finite_after_a_batch_of_one() {
    let Some(input) = unpack("b30_plain") else {
        return;
    };
    let outcome = train(&input, "", "thetao_0,zos").unwrap();
    assert!(
        warned(&outcome, "make a batch of one"),
        "{:?}",
        outcome.report.warnings
    );
    weights(&input).check_finite().unwrap();
}

#[test]
fn a20_a_cell_that_cannot_be_learned_from_is_named() {
    let Some(input) = unpack("a20_infinite") else {
        return;
    };
    for inside in ["inf", "3e38", "1e12"] {
        let error = train(&input, inside, "thetao_0,zos").err().unwrap();
        let message = format!("{error:#}");
        for part in ["zos", "row 5"] {
            assert!(message.contains(part), "{inside}: {message}");
        }
        assert!(!message.contains("--lr"), "{inside}: {message}");
    }
}

#[test]
fn a27_inverted_masks_are_known_before_training() {
    let Some(input) = unpack("a27_inverted_mask") else {
        return;
    };
    let error = train(&input, "", "thetao_0,zos").err().unwrap();
    let message = format!("{error:#}");
    assert!(
        message.contains("NaN") && message.contains("mask"),
        "{message}"
    );
    assert!(!input.root.join("out").exists(), "{message}");
}
