//! Stores that nothing, or only what was planted, is wrong with; and examinations that are stopped.

use crate::{Form, examine};
use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Store};
use burn_om4::survey::FindingKind::{Constant, NanInOcean, Statistics};
use burn_om4::survey::{Depth, Examination, FindingKind, Severity};
use burn_om4::synth::SynthOptions;
use burn_om4::{Om4Paths, Strictness};
use om4_test_support::fixtures::golden;
use om4_test_support::shared;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const DEPTHS: [Depth; 2] = [Depth::Sample, Depth::Full];

#[test]
fn stores_of_every_form_have_no_findings() {
    for form in Form::ALL {
        let dir = tempfile::tempdir().unwrap();
        form.write(dir.path());
        for depth in DEPTHS {
            let examined = examine(dir.path(), depth);
            assert!(
                examined.findings.is_empty(),
                "{form:?}: {:?}",
                examined.findings
            );
            assert!(examined.planes > 0);
        }
    }
}

fn variants(dataset: &str) -> Vec<PathBuf> {
    let Some((root, _)) = golden() else {
        return Vec::new();
    };
    let folders = fs::read_dir(root.join("stores").join(dataset)).unwrap();
    folders.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn golden_and_real_stores_have_no_findings() {
    let mut stores: Vec<PathBuf> = ["A", "C", "D", "E"].map(variants).concat();
    for name in ["ersst_2deg_v2", "ersst_2deg_v3"] {
        stores.extend(shared(&format!("data/{name}")));
    }
    for dir in stores {
        for depth in DEPTHS {
            let examined = examine(&dir, depth);
            assert!(
                examined.findings.is_empty(),
                "{}: {:?}",
                dir.display(),
                examined.findings
            );
            assert!(examined.planes > 0);
        }
    }
    for name in ["woa_wetmask_1deg.zarr", "woa_wetmask_2deg.zarr"] {
        let Some(data) = shared(&format!("data/{name}")) else {
            return;
        };
        let paths = Om4Paths {
            means: data.join("none"),
            stds: data.join("none"),
            data,
        };
        let examined = Examination::new(&paths).run().unwrap();
        assert!(
            examined.findings.is_empty(),
            "{name}: {:?}",
            examined.findings
        );
    }
}

/// Rows in which a channel is NaN in the ocean, as the reader has them.
fn planted(dir: &Path) -> BTreeSet<(String, usize)> {
    let options = OpenOptions::default().with_strictness(Strictness::Lenient);
    let store = Store::open(dir.join("OM4.zarr"), &options).unwrap();
    let mut planted = BTreeSet::new();
    for channel in store.channels() {
        for row in 0..store.rows() {
            if store.check_mask(channel, row).unwrap().nan_in_ocean > 0 {
                planted.insert((channel.name().to_owned(), row));
            }
        }
    }
    planted
}

#[test]
fn in_the_dirty_store_exactly_what_was_planted_is_found() {
    for dir in variants("B") {
        let examined = examine(&dir, Depth::Full);
        let findings = &examined.findings;
        let of = |kind: FindingKind| findings.iter().filter(move |f| f.kind == kind);
        let arrays = |kind| -> Vec<&str> { of(kind).filter_map(|f| f.array.as_deref()).collect() };
        assert_eq!(arrays(Constant), ["so_2"], "{findings:?}");
        assert_eq!(arrays(Statistics), ["so_2", "vo_2"], "{findings:?}");
        let planted = planted(&dir);
        assert!(!planted.is_empty());
        let rows: BTreeSet<_> = of(NanInOcean)
            .filter_map(|f| Some((f.array.clone()?, f.row?)))
            .collect();
        // Of many in one array twenty are listed.
        assert!(rows.is_subset(&planted), "{findings:?}");
        for channel in planted.iter().map(|(channel, _)| channel) {
            let of =
                |set: &BTreeSet<(String, usize)>| set.iter().filter(|p| p.0 == *channel).count();
            assert_eq!(of(&rows), of(&planted).min(20), "{channel}");
        }
        let known = [Constant, Statistics, NanInOcean];
        let others: Vec<_> = findings
            .iter()
            .filter(|f| !known.contains(&f.kind))
            .collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

#[test]
fn a_stopped_examination_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(40);
    options.write(&store).unwrap();
    let spoilt = store.join("OM4.zarr/zos/1.0.0");
    let bytes = vec![255; fs::read(&spoilt).unwrap().len()];
    fs::write(&spoilt, bytes).unwrap();
    let paths = Om4Paths::in_dir(&store);
    let whole = examine(&store, Depth::Full);
    assert_eq!(whole.findings.len(), 1, "{:?}", whole.findings);
    let state = dir.path().join("state.json");
    let steps = Mutex::new(Vec::new());
    let note = |done, _| steps.lock().unwrap().push(done);
    let stop = |done, of| {
        note(done, of);
        assert!(done == 0, "stopped on purpose");
    };
    let examination = |progress| {
        Examination::new(&paths)
            .with_depth(Depth::Full)
            .with_state(&state)
            .with_progress(progress)
    };
    let stopped = catch_unwind(AssertUnwindSafe(|| examination(&stop).run()));
    assert!(stopped.is_err() && state.exists());
    // It is about one store and one depth.
    let other = Examination::new(&paths)
        .with_state(&state)
        .run()
        .unwrap_err();
    assert!(other.to_string().contains("another examination"), "{other}");
    let rest = examination(&note).run().unwrap();
    assert_eq!(rest.findings, whole.findings);
    assert_eq!(rest.planes, whole.planes);
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps[..3], [0, 256, 256], "{steps:?}");
    assert!(!state.exists());
}

#[test]
fn what_is_not_there_cannot_be_examined() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Om4Paths::in_dir(dir.path().join("nothing"));
    assert!(Examination::new(&paths).run().is_err());
}

#[test]
fn a_note_is_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    Form::Plain.write(dir.path());
    let examined = examine(dir.path(), Depth::Sample);
    assert!(
        examined
            .notes
            .iter()
            .all(|note| note.severity == Severity::Note)
    );
    let said = examined
        .notes
        .iter()
        .any(|note| note.message.contains("no consolidated"));
    assert!(said, "{:?}", examined.notes);
}
