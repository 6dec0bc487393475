//! What is odd is said before training and stands in the report; what fails says why.

use crate::{NX, NY, options, write};
use burn_om4::Channel;
use burn_om4::synth::{Consolidation, SynthOptions, field};
use samudra_training::options::Options;
use samudra_training::run::{Outcome, run};
use samudra_training::signals::Stop;
use std::fs;
use std::path::Path;

fn asked(dir: &Path, more: &[&str]) -> Options {
    let fixed = ["--batch-size", "4"];
    let mut options = options(dir, &[&fixed[..], more].concat());
    options.epochs.get_or_insert(1);
    options
}

fn train(options: &Options) -> anyhow::Result<Outcome> {
    run(options, &Stop::default())
}

/// Waves, and `extreme` in one cell of one row of a channel.
fn write_with(dir: &Path, name: &'static str, at: (usize, usize), extreme: f32) {
    let plane = move |channel: &Channel, row: usize, out: &mut [f32]| {
        for (i, value) in out.iter_mut().enumerate() {
            *value = (0.4 * row as f32 + 0.3 * i as f32).sin();
        }
        if (channel.name(), row) == (name, at.0) {
            out[at.1] = extreme;
        }
    };
    write(dir, 40, &mut field(|_, _, _| true, plane));
}

#[test]
fn a_value_that_cannot_be_learned_from_is_named_and_not_the_learning_rate() {
    for (name, role) in [("thetao_0", "label"), ("hfds", "boundary")] {
        let dir = tempfile::tempdir().unwrap();
        write_with(dir.path(), name, (20, 2 * NX + 5), 0.0);
        // Statistics are of the clean field.
        let clean = tempfile::tempdir().unwrap();
        write_with(clean.path(), name, (20, 2 * NX + 5), 1e30);
        let chunk = format!("OM4.zarr/{name}/20.0.0");
        fs::copy(clean.path().join(&chunk), dir.path().join(&chunk)).unwrap();
        let error = train(&asked(dir.path(), &[])).err().unwrap();
        let message = format!("{error:#}");
        assert!(!message.contains("--lr"), "{message}");
        for part in [name, "row 20", "(y 2, x 5)", "cannot be learned from"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(
            message.contains(role) || message.contains("input"),
            "{message}"
        );
    }
}

#[test]
fn a_learning_rate_that_is_too_large_is_named_and_no_value() {
    let dir = tempfile::tempdir().unwrap();
    write_with(dir.path(), "zos", (0, 0), 0.0);
    let error = train(&asked(dir.path(), &["--lr", "1e30", "--epochs", "3"]));
    let message = format!("{:#}", error.err().unwrap());
    assert!(message.contains("try a smaller --lr"), "{message}");
    assert!(!message.contains("row 0 of the store"), "{message}");
}

#[test]
fn warnings_of_the_store_stand_in_the_report_once_and_lenient_is_an_option() {
    let dir = tempfile::tempdir().unwrap();
    SynthOptions::new(NY, NX)
        .with_levels(1)
        .with_rows(40)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .with_consolidation(Consolidation::Separate)
        .write(dir.path())
        .unwrap();
    // The last row is looked at when a store is opened.
    fs::remove_file(dir.path().join("OM4.zarr/zos/39.0.0")).unwrap();
    let strict = train(&asked(dir.path(), &[])).err().unwrap();
    assert!(format!("{strict:#}").contains("39.0.0"), "{strict:#}");
    let outcome = train(&asked(dir.path(), &["--lenient"])).unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("out/report.json")).unwrap()).unwrap();
    let warnings = report["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), outcome.report.warnings.len());
    let of_row = warnings
        .iter()
        .filter(|w| w.as_str().unwrap().contains("39.0.0"));
    assert_eq!(of_row.count(), 1, "{warnings:?}");
    assert_eq!(report["config"]["lenient"], true);
    assert!(report["loader"]["validation"]["missing_chunks"].as_u64() > Some(0));
}

#[test]
fn a_batch_of_one_window_at_a_level_of_one_cell_leaves_finite_weights() {
    // 4 x 4 cells are 1 x 1 at the coarsest level; 29 windows make 7 batches of 4 and one of 1.
    let dir = tempfile::tempdir().unwrap();
    SynthOptions::new(4, 4)
        .with_levels(1)
        .with_rows(40)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .write(dir.path())
        .unwrap();
    let outcome = train(&asked(dir.path(), &["--save-every", "8"])).unwrap();
    let warning = "29 windows in batches of 4 make a batch of one";
    let said = outcome
        .report
        .warnings
        .iter()
        .filter(|w| w.contains(warning));
    assert_eq!(said.count(), 1, "{:?}", outcome.report.warnings);
    let weights = samudra::StateDict::read(dir.path().join("out/samudra.safetensors")).unwrap();
    weights.check_finite().unwrap();
}

#[test]
fn rank_and_world_stand_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    write_with(dir.path(), "zos", (0, 0), 0.0);
    train(&asked(dir.path(), &["--rank", "1", "--world", "3"])).unwrap();
    let report = fs::read(dir.path().join("out/rank-1/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let config = &report["config"];
    assert_eq!((&config["rank"], &config["world"]), (&1.into(), &3.into()));
}

#[test]
fn what_batches_hold_is_said_once_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    write_with(dir.path(), "thetao_0", (20, 2 * NX + 5), f32::NAN);
    let outcome = train(&asked(dir.path(), &["--epochs", "2"])).unwrap();
    let warning = format!(
        "array thetao_0, time row 20: 1 of {} wet cells are NaN",
        NY * NX
    );
    let said = outcome.report.warnings.iter();
    assert_eq!(
        said.filter(|w| w.contains(&warning)).count(),
        1,
        "{:?}",
        outcome.report.warnings
    );
    let report = fs::read(dir.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let of = |loader: &str| {
        report["loader"][loader]["values"]
            .as_array()
            .unwrap()
            .clone()
    };
    let found = [of("train"), of("validation")].concat();
    assert!(!found.is_empty(), "{report}");
    for found in found {
        assert_eq!(found["channel"], "thetao_0");
        assert_eq!(
            (&found["worst_row"], &found["cells"]["nan"]),
            (&20.into(), &1.into())
        );
    }
}

#[test]
fn a_time_axis_of_another_name_is_named_by_an_option() {
    let dir = tempfile::tempdir().unwrap();
    SynthOptions::new(NY, NX)
        .with_levels(1)
        .with_rows(40)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .with_consolidation(Consolidation::Separate)
        .write(dir.path())
        .unwrap();
    let store = dir.path().join("OM4.zarr");
    fs::rename(store.join("time"), store.join("step")).unwrap();
    for array in fs::read_dir(&store).unwrap() {
        let attributes = array.unwrap().path().join(".zattrs");
        if let Ok(text) = fs::read_to_string(&attributes) {
            fs::write(&attributes, text.replace("\"time\"", "\"step\"")).unwrap();
        }
    }
    let error = train(&asked(dir.path(), &[])).err().unwrap();
    assert!(format!("{error:#}").contains("time"), "{error:#}");
    train(&asked(dir.path(), &["--time-name", "step"])).unwrap();
}
