//! The program as a process: what it prints, what it returns, and readers that go away.

use crate::write_store;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn program(dir: &Path, more: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_samudra_train"));
    program
        .arg("--data")
        .arg(dir)
        .arg("--out")
        .arg(dir.join("out"))
        .args(["--prognostic", "thetao_0,zos", "--boundary", "hfds"])
        .args(["--device", "cpu", "--epochs", "2"])
        .args(more);
    for variable in ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"] {
        program.env_remove(variable);
    }
    program
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn it_says_what_it_does_and_warns_before_the_first_epoch() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")];
    let output = program(dir.path(), &[]).envs(slurm).output().unwrap();
    let (out, err) = text(&output);
    assert!(output.status.success(), "{err}");
    for line in ["store      ", "rank       0 of 2: 1 part in 2", "wrote "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let at = |what: &str| err.find(what).unwrap_or_else(|| panic!("no {what}: {err}"));
    assert!(
        at("warning: rank 0 of 2 by SLURM_PROCID") < at("epoch   1 of 2"),
        "{err}"
    );
    assert_eq!(err.matches("warning: rank").count(), 1, "{err}");
    assert!(dir.path().join("out/rank-0/samudra.safetensors").is_file());

    let output = program(dir.path(), &[])
        .env("SLURM_NTASKS", "2")
        .output()
        .unwrap();
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err.contains("SLURM_NTASKS is 2 and SLURM_PROCID is not set"),
        "{err}"
    );
}

/// As `samudra_train 2>&1 | head -0` leaves it.
#[test]
fn readers_that_go_away_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path());
    let mut child = program(dir.path(), &["--save-every", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for file in [
        "samudra.safetensors",
        "report.json",
        "maps.png",
        "checkpoints",
    ] {
        assert!(dir.path().join("out").join(file).exists(), "{file}");
    }
}
