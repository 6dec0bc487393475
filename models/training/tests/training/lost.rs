//! No work is lost: what is written can be read back, what cannot be written is known before the first
//! step, and a failure at the end of a run costs what failed.

use crate::{NX, options, write, write_store};
use burn::tensor::{Device, TensorData};
use burn_om4::Channel;
use burn_om4::synth::{Consolidation, SynthOptions, field};
use samudra::Samudra;
use samudra_training::checkpoint::{Checkpoints, RunState};
use samudra_training::network;
use samudra_training::options::Options;
use samudra_training::report::{EpochRecord, Extension};
use samudra_training::run::{Outcome, run};
use samudra_training::signals::{Interrupted, Stop};
use samudra_training::trainer::{Trainer, write_weights};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn asked(dir: &Path, more: &[&str]) -> Options {
    let fixed = ["--batch-size", "4", "--epochs", "2"];
    options(dir, &[&fixed[..], more].concat())
}

fn train(options: &Options) -> anyhow::Result<Outcome> {
    run(options, &Stop::default())
}

fn refused(options: &Options) -> String {
    format!("{:#}", train(options).err().expect("it was done"))
}

fn report(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("out/report.json")).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_channel_that_stays_zero_has_no_ratio_and_its_checkpoints_are_read() {
    // Ice, say: none in the last rows, which are for validation.
    let dir = tempfile::tempdir().unwrap();
    let plane = |channel: &Channel, row: usize, out: &mut [f32]| {
        for (i, value) in out.iter_mut().enumerate() {
            let wave = (0.4 * row as f32 + 0.3 * i as f32).sin();
            *value = match channel.name() {
                "zos" if row >= 32 => 0.0,
                _ => wave,
            };
        }
    };
    write(dir.path(), 40, &mut field(|_, _, _| true, plane));
    let options = asked(dir.path(), &["--save-every", "3", "--resume"]);
    let first = train(&options).unwrap().report;
    let ratios = |report: &Value| {
        ["thetao_0", "zos"].map(|name| report["validation"][name]["ratio"].as_f64())
    };
    let written = report(dir.path());
    let [thetao, zos] = ratios(&written);
    assert_eq!(zos, None);
    assert_eq!(written["validation"]["zos"]["persistence"][0], 0.0);
    let epoch = &written["epochs"][1]["validation_ratio"];
    assert!(
        (epoch.as_f64().unwrap() - thetao.unwrap()).abs() < 1e-9,
        "{epoch} {thetao:?}"
    );
    let named = first
        .warnings
        .iter()
        .filter(|w| w.contains("for zos: there is no ratio"));
    assert_eq!(named.count(), 1, "{:?}", first.warnings);
    // It goes on from there, and finds what it wrote.
    let again = train(&options).unwrap().report;
    assert_eq!(again.epochs.len(), 2);
    assert_eq!(ratios(&report(dir.path())), [thetao, zos]);
}

/// A network fitted to the store in `dir`, on an autodiff device.
fn network_of(options: &Options) -> (Samudra, crate::Loaders) {
    let loaders = crate::open(options);
    let context = loaders.train.batcher().dataset().context(0);
    let network = network::config(options.model, context)
        .init(
            &network::grid(context.grid()),
            1,
            &Device::flex().autodiff(),
        )
        .unwrap();
    (network, loaders)
}

#[test]
fn records_that_are_not_finite_come_back() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let (_, loaders) = network_of(&asked(dir.path(), &[]));
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300];
    let mut state = RunState::new(7, loaders.train.state(), Default::default());
    state.losses = values.to_vec();
    for ratio in values.map(Some).into_iter().chain([None]) {
        let value = ratio.unwrap_or(0.5);
        state.epochs.push(EpochRecord {
            epoch: 1,
            steps: 3,
            train_loss: value,
            validation_ratio: ratio,
            learning_rate: value,
            seconds: value,
        });
    }
    state.extensions.push(Extension {
        step: 3,
        planned: 1,
        epochs: 9,
    });
    let checkpoints = Checkpoints::of(dir.path());
    let folder = checkpoints.write(&state, |_| Ok(())).unwrap();
    let (newest, read) = checkpoints.newest().unwrap().unwrap();
    assert_eq!(newest, folder);
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    assert_eq!(read.losses.len(), values.len());
    assert!(read.losses.iter().zip(values).all(|(a, b)| same(*a, b)));
    assert_eq!(read.extensions, state.extensions);
    for (a, b) in read.epochs.iter().zip(&state.epochs) {
        assert_eq!(a.validation_ratio.is_some(), b.validation_ratio.is_some());
        let ratio = |record: &EpochRecord| record.validation_ratio.unwrap_or(0.0);
        assert!(same(ratio(a), ratio(b)), "{a:?} {b:?}");
        assert!(same(a.train_loss, b.train_loss), "{a:?} {b:?}");
        assert!(same(a.learning_rate, b.learning_rate) && same(a.seconds, b.seconds));
    }
}

#[test]
fn weights_that_are_not_finite_are_named_and_the_older_checkpoint_stays() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let (mut network, loaders) = network_of(&asked(dir.path(), &[]));
    let checkpoints = Checkpoints::of(dir.path());
    let state = |steps| RunState::new(steps, loaders.train.state(), Default::default());
    let save = |network: &Samudra, steps| {
        let trainer = Trainer::new(network.clone(), 1e-3, 10);
        checkpoints.write(&state(steps), |folder| trainer.save(folder))
    };
    let good = save(&network, 1).unwrap();

    let name = "unet.layers.2.convblock.1.running_var";
    let mut weights = network.state_dict();
    let shape = weights.get(name).unwrap().shape().to_vec();
    let values: usize = shape.iter().product();
    weights.insert(name, TensorData::new(vec![f32::NAN; values], shape));
    network.load_state_dict(&weights).unwrap();
    let named = format!("{name} has {values} of {values} values that are not finite");
    let error = format!("{:#}", save(&network, 2).unwrap_err());
    assert!(
        error.contains(&named) && error.contains("step-00000002"),
        "{error}"
    );
    assert_eq!(names(&dir.path().join("checkpoints")), ["step-00000001"]);
    assert_eq!(checkpoints.newest().unwrap().unwrap().0, good);

    let path = dir.path().join("w.safetensors");
    let error = format!("{:#}", write_weights(&network, &path).unwrap_err());
    assert!(error.contains(&named), "{error}");
    assert!(!path.exists());
}

#[test]
fn half_a_checkpoint_is_removed_and_a_whole_one_kept() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let folder = dir.path().join("out/checkpoints");
    // As kills of other processes leave them.
    let litter = || {
        for process in ["partial-1", "partial-99999999"] {
            fs::create_dir_all(folder.join(process)).unwrap();
            fs::write(folder.join(process).join("network.safetensors"), "half").unwrap();
        }
    };
    litter();
    let stop = Stop::default();
    stop.request();
    let options = asked(dir.path(), &["--resume"]);
    let error = run(&options, &stop).err().unwrap();
    assert!(error.is::<Interrupted>(), "{error:#}");
    assert_eq!(names(&folder), ["step-00000001"]);
    // A run that saves nothing cleans, too.
    litter();
    train(&options).unwrap();
    assert_eq!(names(&folder), ["step-00000001"]);

    let checkpoints = Checkpoints::of(&dir.path().join("out"));
    let (_, state) = checkpoints.newest().unwrap().unwrap();
    let next = RunState::new(2, state.loader, state.recipe);
    let error = checkpoints.write(&next, |folder| {
        fs::write(folder.join("network.safetensors"), "ha").unwrap();
        anyhow::bail!("no space left on device")
    });
    let message = format!("{:#}", error.unwrap_err());
    assert!(
        message.contains("no space left") && message.contains("step-00000002"),
        "{message}"
    );
    assert_eq!(names(&folder), ["step-00000001"]);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_training() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let mut nowhere = asked(dir.path(), &[]);
    nowhere.report = Some(dir.path().join("nowhere/report.json"));
    let message = refused(&nowhere);
    assert!(
        message.contains("nowhere/report.json cannot be written"),
        "{message}"
    );
    let mut folder = asked(dir.path(), &[]);
    folder.report = Some(dir.path().join("OM4.zarr"));
    assert!(refused(&folder).contains("OM4.zarr cannot be written"));
    assert!(!dir.path().join("out").exists(), "nothing was trained");
    fs::write(dir.path().join("out"), "a file").unwrap();
    let message = refused(&asked(dir.path(), &[]));
    assert!(
        message.contains("creating") && message.contains("/out"),
        "{message}"
    );
}

#[test]
fn what_cannot_be_written_at_the_end_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    // Pictures go where a folder is.
    fs::create_dir_all(dir.path().join("out/maps.png")).unwrap();
    let options = asked(dir.path(), &["--trace", "trace.json"]);
    let options = Options {
        trace: Some(dir.path().join("trace.json")),
        ..options
    };
    let message = refused(&options);
    assert!(message.contains("not all of its files"), "{message}");
    assert!(message.contains("maps.png"), "{message}");
    let weights = dir.path().join("out/samudra.safetensors");
    assert!(
        samudra::StateDict::read(weights)
            .unwrap()
            .check_finite()
            .is_ok()
    );
    assert_eq!(report(dir.path())["epochs"].as_array().unwrap().len(), 2);
    assert!(dir.path().join("trace.json").is_file());
    let left = names(&dir.path().join("out"));
    assert_eq!(left, ["maps.png", "report.json", "samudra.safetensors"]);
}

#[test]
fn a_read_that_fails_after_a_while_leaves_a_checkpoint_to_go_on_from() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    train(&asked(dir.path(), &[])).unwrap();
    let weights = |out: &str| fs::read(dir.path().join(out).join("samudra.safetensors")).unwrap();
    let mut options = asked(dir.path(), &["--resume"]);
    options.out = dir.path().join("failed");
    // Not of the first batch, whichever rows that has: it is read when the loaders are made.
    let loaders = crate::open(&options);
    let dataset = loaders.train.batcher().dataset();
    let start = |i: u64| dataset.window(i as usize).unwrap().start;
    let epoch = loaders.train.schedule().epoch(0);
    let rows = |k| epoch.batch(k).into_iter().map(start).collect::<Vec<_>>();
    let far = |row: &usize| rows(0).iter().all(|first| first.abs_diff(*row) > 3);
    let row = rows(2).into_iter().find(far).unwrap();
    let chunk = dir.path().join(format!("OM4.zarr/zos/{row}.0.0"));
    let kept = fs::read(&chunk).unwrap();
    fs::remove_file(&chunk).unwrap();
    let message = refused(&options);
    assert!(message.contains("--resume goes on from"), "{message}");
    assert!(message.contains(&format!("{row}.0.0")), "{message}");
    let saved = names(&dir.path().join("failed/checkpoints"));
    assert!(
        saved.len() == 1 && saved[0].as_str() > "step-00000000",
        "{saved:?}"
    );
    fs::write(&chunk, kept).unwrap();
    train(&options).unwrap();
    assert_eq!(weights("failed"), weights("out"));
}

/// A store without what says where its cells are.
fn without(dir: &Path, arrays: &[&str]) {
    SynthOptions::new(8, NX)
        .with_levels(1)
        .with_rows(40)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .with_consolidation(Consolidation::Separate)
        .write(dir)
        .unwrap();
    for array in arrays {
        fs::remove_dir_all(dir.join("OM4.zarr").join(array)).unwrap();
    }
}

#[test]
fn a_store_without_latitudes_and_areas_weighs_cells_alike_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // `y` holds latitudes, too.
    without(dir.path(), &["lat", "y", "areacello"]);
    let outcome = train(&asked(dir.path(), &[])).unwrap();
    assert_eq!(report(dir.path())["weighting"], "none");
    let said = outcome
        .report
        .warnings
        .iter()
        .filter(|w| w.contains("weigh all cells alike"));
    assert_eq!(said.count(), 1, "{:?}", outcome.report.warnings);

    let dir = tempfile::tempdir().unwrap();
    without(dir.path(), &["areacello"]);
    let outcome = train(&asked(dir.path(), &[])).unwrap();
    assert_eq!(report(dir.path())["weighting"], "cos-latitude");
    let said = |w: &String| w.contains("alike");
    assert!(!outcome.report.warnings.iter().any(said));
}

#[test]
fn areas_that_are_all_0_are_refused_before_training() {
    let dir = tempfile::tempdir().unwrap();
    without(dir.path(), &[]);
    // One chunk without a codec, in place of what was written.
    let array = dir.path().join("OM4.zarr/areacello");
    let meta = fs::read(array.join(".zarray")).unwrap();
    let mut meta: Value = serde_json::from_slice(&meta).unwrap();
    meta["compressor"] = Value::Null;
    meta["chunks"] = meta["shape"].clone();
    fs::write(array.join(".zarray"), meta.to_string()).unwrap();
    fs::write(array.join("0.0"), vec![0; 8 * 8 * NX]).unwrap();
    let message = refused(&asked(dir.path(), &[]));
    let expected = "those of thetao_0's ocean cells are all 0";
    assert!(message.contains(expected), "{message}");
    assert!(!dir.path().join("out/checkpoints").exists());
}
