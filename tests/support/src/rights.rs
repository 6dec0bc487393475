//! Tests of what a user may not read, also for users who may read everything.

use std::path::Path;
use std::process::Command;

/// Runs an ignored test of the running program in a process of its own, which may read only what modes
/// allow: from root, whom no mode stops, that right is taken by util-linux's `setpriv`.
///
/// # Panics
/// The test fails, there is no such test, or the right cannot be taken.
pub fn run_without_rights(test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut command = if may_read_everything() {
        let mut command = Command::new("setpriv");
        let rights = "-dac_override,-dac_read_search";
        command
            .args(["--bounding-set", rights, "--inh-caps", rights])
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    let run = command.args(["--exact", test, "--ignored", "--nocapture"]);
    let run = run.output();
    let run = run.unwrap_or_else(|e| panic!("setpriv (of util-linux) takes root's rights: {e}"));
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(run.status.success(), "{test}: {said}");
    assert!(said.contains("1 passed"), "{test}: {said}");
}

/// Whether this process reads what nobody may.
///
/// # Panics
/// No temporary file.
pub fn may_read_everything() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forbidden");
    std::fs::write(&path, "nobody's").unwrap();
    forbid(&path);
    std::fs::read(&path).is_ok()
}

/// Takes everybody's rights to a file.
///
/// # Panics
/// No such file.
pub fn forbid(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
}
