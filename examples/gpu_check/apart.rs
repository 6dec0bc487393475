//! Each check in a process of its own. An error of CUDA's stays with the process that met it, a check
//! that hangs can be ended, and each finds memory as the first one would.

use crate::check::{Answer, Check, Verdict};
use crate::options::Options;
use crate::report::{Report, word};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// For a process to end after its own limit, and for one that was killed to be gone.
const GRACE: Duration = Duration::from_secs(3);
/// Takes what is left of the time.
const LAST: &str = "training";

/// What a process of a check leaves behind: the report of one check.
#[derive(Deserialize)]
struct Part {
    checks: Vec<Answer>,
}

/// This program once more, for one check, whose answer it writes to `part`.
///
/// # Errors
/// The system does not say which program this is.
pub(crate) fn again(
    options: &Options,
    check: &Check,
    part: &Path,
    limit: Duration,
) -> Result<Command> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command
        .args(["--child", "--device", &options.device])
        .args(["--only", check.name])
        .args(["--limit", &limit.as_secs().max(1).to_string()])
        .arg("--json")
        .arg(part);
    if options.quick {
        command.arg("--quick");
    }
    Ok(command)
}

/// Runs the checks one after the other, each in a process that `command` gives.
///
/// # Errors
/// No folder for their answers, or no `command`.
pub(crate) fn go_through(
    checks: &[Check],
    options: &Options,
    report: &mut Report,
    command: &dyn Fn(&Check, &Path, Duration) -> Result<Command>,
) -> Result<()> {
    let started = Instant::now();
    let folder = tempfile::tempdir().context("making a folder for answers")?;
    for (at, check) in checks.iter().enumerate() {
        eprintln!(
            "[{}/{}] {}: {}",
            at + 1,
            checks.len(),
            check.name,
            check.asks
        );
        let rest = Duration::from_secs(options.limit).saturating_sub(started.elapsed());
        let limit = match check.name == LAST {
            true => rest,
            false => rest.min(Duration::from_secs(options.each)),
        };
        let answer = if rest.is_zero() {
            let because = format!("the limit of {} s was over", options.limit);
            Answer::without(check, Verdict::NotRun, because)
        } else {
            let part = folder.path().join(format!("{at}.json"));
            answer(check, command(check, &part, limit)?, &part, limit)
        };
        eprintln!("      {} [{:.1} s]", word(answer.verdict), answer.seconds);
        report.add(answer);
        report.seconds = started.elapsed().as_secs_f64();
        report.keep(options.json.as_deref());
    }
    Ok(())
}

/// What is not answered has failed.
fn answer(check: &Check, command: Command, part: &Path, limit: Duration) -> Answer {
    let started = Instant::now();
    let because = match run(command, limit) {
        Err(error) => format!("error: {error:#}"),
        // An answer stands, even if its process would not end.
        Ok(ended) => match read(part) {
            Ok(answer) => return answer,
            Err(error) => match ended {
                None => format!("did not end within {} s, and was killed", limit.as_secs()),
                Some(status) => format!("its process left no answer: {status}: {error:#}"),
            },
        },
    };
    Answer {
        seconds: started.elapsed().as_secs_f64(),
        ..Answer::without(check, Verdict::Failed, because)
    }
}

fn read(part: &Path) -> Result<Answer> {
    let text = std::fs::read_to_string(part).context("reading its answer")?;
    let mut part: Part = serde_json::from_str(&text).context("understanding its answer")?;
    match part.checks.pop() {
        Some(answer) => Ok(answer),
        None => bail!("its report is empty"),
    }
}

/// How the process ended; `None` if it had to be killed. What it prints is in its answer; what it
/// complains of is shown.
fn run(mut command: Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("starting a process")?;
    let ended = wait(&mut child, limit + GRACE)?;
    if ended.is_none() {
        child.kill().context("ending a process")?;
        // One that hangs in the driver may outlive even this: it is left to the system.
        wait(&mut child, GRACE)?;
    }
    Ok(ended)
}

fn wait(child: &mut Child, time: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + time;
    loop {
        let ended = child.try_wait().context("waiting for a process")?;
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
