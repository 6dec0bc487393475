//! Training that is interrupted, by a word or by force, and goes on: the weights at the end are those
//! of a run that was not, bit for bit.

use crate::{options, write_store};
use clap::Parser;
use samudra_training::options::Options;
use samudra_training::ranks::Rank;
use samudra_training::report::{EpochRecord, Extension};
use samudra_training::run::{Outcome, run};
use samudra_training::signals::{Interrupted, Stop, exit_code};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Batches of 3 windows in an epoch.
const BATCHES: usize = 9;

fn asked(dir: &Path, out: &str, epochs: usize, more: &[&str]) -> Options {
    let epochs = epochs.to_string();
    let fixed = ["--steps", "2", "--batch-size", "3", "--epochs", &epochs];
    let mut options = options(dir, &[&fixed[..], more].concat());
    options.out = dir.join(out);
    options
}

fn weights(dir: &Path, out: &str) -> Vec<u8> {
    std::fs::read(dir.join(out).join("samudra.safetensors")).unwrap()
}

/// Steps of the checkpoints that are there.
fn checkpoints(dir: &Path, out: &str) -> Vec<usize> {
    let Ok(entries) = std::fs::read_dir(dir.join(out).join("checkpoints")) else {
        return Vec::new();
    };
    let steps = entries.filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_prefix("step-").map(|n| n.parse().unwrap())
    });
    steps.collect()
}

#[test]
fn a_run_that_stops_after_any_step_ends_with_the_same_weights() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let straight = run(&asked(dir.path(), "straight", 3, &[]), &Stop::default()).unwrap();
    assert!(checkpoints(dir.path(), "straight").is_empty());

    // Told to stop from the beginning, a run takes one step at a time.
    let stop = Stop::default();
    stop.request();
    for step in 1..=3 * BATCHES {
        // Threads and prefetching may change on the way.
        let prefetch = (step % 3).to_string();
        let options = asked(
            dir.path(),
            "stopped",
            3,
            &["--resume", "--prefetch", &prefetch],
        );
        let error = run(&options, &stop).err().unwrap();
        let at = error.downcast_ref::<Interrupted>().expect("no failure");
        let name = format!("step-{step:08}");
        assert!(at.checkpoint.ends_with(name), "{}", at.checkpoint.display());
        assert_eq!(checkpoints(dir.path(), "stopped"), [step]);
    }
    // All steps are taken; the last epoch is not validated yet.
    let options = asked(dir.path(), "stopped", 3, &["--resume", "--save-every", "5"]);
    let stopped = run(&options, &Stop::default()).unwrap();
    assert_eq!(
        weights(dir.path(), "stopped"),
        weights(dir.path(), "straight")
    );
    let losses = |outcome: &Outcome| -> Vec<(usize, f32, f32)> {
        let epochs = outcome.report.epochs.iter();
        let ratio = |e: &EpochRecord| e.validation_ratio.unwrap() as f32;
        let record = |e: &EpochRecord| (e.steps, e.train_loss as f32, ratio(e));
        epochs.map(record).collect()
    };
    assert_eq!(losses(&stopped), losses(&straight));
    // A finished run that is asked to go on has nothing to do.
    let again = run(&options, &Stop::default()).unwrap();
    assert_eq!(losses(&again), losses(&straight));
    assert_eq!(
        weights(dir.path(), "stopped"),
        weights(dir.path(), "straight")
    );
}

/// Epochs that take a good while longer than to notice a checkpoint.
const LONG: usize = 8;

/// Trains in a process of its own, as `kills_leave_a_run_that_goes_on` asks.
#[test]
#[ignore = "run by kills_leave_a_run_that_goes_on"]
fn child_trains() {
    let dir = PathBuf::from(std::env::var_os("TRAIN_DIR").unwrap());
    let stop = Stop::on_signals().unwrap();
    let options = asked(&dir, "killed", LONG, &["--save-every", "1", "--resume"]);
    match run(&options, &stop) {
        Ok(_) => std::fs::write(dir.join("finished"), "").unwrap(),
        Err(error) => {
            let code = exit_code(&error).unwrap_or_else(|| panic!("{error:?}"));
            std::process::exit(code.into());
        }
    }
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resume::child_trains", "--ignored"])
        .env("TRAIN_DIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[cfg(unix)]
fn kills_leave_a_run_that_goes_on() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    run(&asked(dir.path(), "straight", LONG, &[]), &Stop::default()).unwrap();
    let newest = || checkpoints(dir.path(), "killed").into_iter().max();
    // The first dies once it is past step 4, wherever it is then; the second is asked to stop.
    for (past, signal) in [(4, "KILL"), (14, "TERM")] {
        let mut child = start(dir.path());
        while newest().is_none_or(|step| step <= past) {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        let status = child.wait().unwrap();
        let expected = match signal {
            "KILL" => (Some(9), None),
            _ => (None, Some(75)),
        };
        assert_eq!((status.signal(), status.code()), expected);
        assert!(!dir.path().join("finished").exists());
        assert!(newest().unwrap() < LONG * BATCHES);
    }
    assert!(start(dir.path()).wait().unwrap().success());
    assert!(dir.path().join("finished").exists());
    assert_eq!(checkpoints(dir.path(), "killed"), [LONG * BATCHES]);
    assert_eq!(
        weights(dir.path(), "killed"),
        weights(dir.path(), "straight")
    );
}

#[test]
fn other_runs_and_other_data_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let stop = Stop::default();
    stop.request();
    let first = run(&asked(dir.path(), "out", 3, &[]), &stop);
    assert!(first.err().unwrap().is::<Interrupted>());
    let refused = |more: &[&str]| {
        let result = run(&asked(dir.path(), "out", 3, more), &stop);
        format!("{:#}", result.err().unwrap())
    };
    let message = refused(&[]);
    assert!(message.contains("--resume"), "{message}");
    let message = refused(&["--resume", "--lr", "0.25"]);
    assert!(message.contains("lr was 0.005, is 0.25"), "{message}");
    // The same size, other statistics.
    let stds = dir.path().join("OM4_stds.zarr/zos/0");
    let mut bytes = std::fs::read(&stds).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&stds, bytes).unwrap();
    let message = refused(&["--resume"]);
    assert!(message.contains("statistics"), "{message}");
}

#[test]
fn a_run_is_made_longer_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let train = |epochs, more: &[&str]| {
        let saved = [&["--resume", "--save-every", "100"], more].concat();
        run(&asked(dir.path(), "out", epochs, &saved), &Stop::default())
    };
    let refused = |epochs, more: &[&str]| format!("{:#}", train(epochs, more).err().unwrap());
    let message = refused(4, &["--extend"]);
    assert!(message.contains("no checkpoint to extend"), "{message}");
    assert!(train(2, &[]).unwrap().report.extensions.is_empty());
    let message = refused(4, &[]);
    assert!(
        message.contains("epochs was 2, is 4 (--extend"),
        "{message}"
    );
    let message = refused(1, &["--extend"]);
    assert!(message.contains("planned for 2 epochs"), "{message}");

    let report = train(4, &["--extend"]).unwrap().report;
    let rates: Vec<f64> = report.epochs.iter().map(|e| e.learning_rate).collect();
    assert_eq!(report.epochs.last().unwrap().steps, 4 * BATCHES);
    // The end of the old plan, three quarters of the new one, and its end.
    assert!(rates[1] < 1e-12 && rates[3] < 1e-12, "{rates:?}");
    let cosine = 0.5 * 0.005 * (1.0 + (0.75 * std::f64::consts::PI).cos());
    assert!((rates[2] - cosine).abs() < 1e-12, "{rates:?}");
    let extension = Extension {
        step: 2 * BATCHES,
        planned: 2,
        epochs: 4,
    };
    assert_eq!(report.extensions, [extension]);
    // The same line again, as a chain of jobs says it: nothing is left to do, and nothing is forgotten.
    let again = train(4, &["--extend"]).unwrap().report;
    assert_eq!(
        (again.extensions, again.epochs.len()),
        (report.extensions, 4)
    );
    assert!(Options::try_parse_from(["samudra_train", "--extend", "--resume"]).is_err());
}

#[test]
fn ranks_come_from_options_or_the_batch_system() {
    let slurm = |vars: &[(&str, &str)]| {
        let vars: HashMap<String, String> = vars
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        move |name: &str| vars.get(name).cloned()
    };
    let job = [("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")];
    let rank = |rank, world| Rank { rank, world };
    let find = |r, w, vars| Rank::find(r, w, slurm(vars));
    assert_eq!(find(None, None, &[]).unwrap(), rank(0, 1));
    assert_eq!(find(None, None, &job).unwrap(), rank(2, 4));
    assert_eq!(find(Some(1), Some(3), &job).unwrap(), rank(1, 3));
    // A batch script of a job without a number of processes, and one with a single one.
    assert_eq!(
        find(None, None, &[("SLURM_PROCID", "0")]).unwrap(),
        rank(0, 1)
    );
    assert_eq!(
        find(None, None, &[("SLURM_NTASKS", "1")]).unwrap(),
        rank(0, 1)
    );
    let refused = |r, w, vars| find(r, w, vars).unwrap_err().to_string();
    let message = refused(None, None, &job[1..]);
    assert!(
        message.contains("SLURM_NTASKS is 4 and SLURM_PROCID is not set"),
        "{message}"
    );
    let message = refused(None, None, &job[..1]);
    assert!(
        message.contains("SLURM_PROCID is 2 and SLURM_NTASKS is not set"),
        "{message}"
    );
    let message = refused(Some(1), None, &job);
    assert!(
        message.contains("--rank is 1, --world is not given"),
        "{message}"
    );
    assert!(refused(Some(4), Some(4), &[]).contains("rank 4 of a world of 4"));
    let message = refused(None, None, &[("SLURM_PROCID", "x"), job[1]]);
    assert!(message.contains("SLURM_PROCID is `x`"), "{message}");
    // Did anybody start the others? `srun` says so.
    let alone = |vars: &[(&str, &str)]| rank(2, 4).alone(slurm(vars));
    assert!(alone(&job).unwrap().contains("rank 2 of 4"));
    assert_eq!(
        alone(&[job[0], job[1], ("SLURM_STEP_NUM_TASKS", "4")]),
        None
    );
    assert_eq!(rank(0, 1).alone(slurm(&job)), None);

    let dir = tempfile::tempdir().unwrap();
    let options = asked(dir.path(), "out", 3, &[])
        .of_rank(slurm(&job))
        .unwrap();
    assert!(options.out.ends_with("out/rank-2"));
    assert_eq!(options.warnings.len(), 1);
    let told = asked(dir.path(), "out", 3, &["--rank", "2", "--world", "4"]);
    assert!(told.of_rank(slurm(&[])).unwrap().warnings.is_empty());
    // Four ranks share the batches of an epoch: 9 batches make 3 rounds.
    write_store(dir.path());
    let loaders = crate::open(&options);
    assert_eq!(loaders.train.batches(), 3);
    assert_eq!(loaders.validation.schedule().options().world, 1);
}
