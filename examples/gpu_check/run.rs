//! From options to an exit code.

use crate::apart;
use crate::bench::{Bench, Scale};
use crate::check::{Answer, Check, Outcome, Verdict};
use crate::checks;
use crate::cuda::{self, Cuda};
use crate::options::Options;
use crate::report::{Report, word};
use anyhow::{Context, Result, ensure};
use burn_om4::DeviceChoice;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Something that was run failed.
const FAILED: u8 = 1;
/// There is nothing to check on.
const NO_GPU: u8 = 3;

/// # Errors
/// Options that make no sense, or a driver that does not work.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.list {
        for check in checks::all() {
            println!("{:<13} {}", check.name, check.asks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if options.compiler {
        println!("{}", cuda::compile()?);
        return Ok(ExitCode::SUCCESS);
    }
    let checks = chosen(&options.only)?;
    let Some(bench) = open(options)? else {
        eprintln!(
            "no NVIDIA GPU was found: {}. Nothing was checked.",
            if cfg!(feature = "cuda") {
                "the driver library libcuda is not installed, or it lists no device"
            } else {
                "this build has no CUDA (it needs the feature `cuda`)"
            }
        );
        return Ok(ExitCode::from(NO_GPU));
    };
    let device = match &bench.cuda {
        Some(cuda) => cuda.describe()?,
        None => format!("{:?}", bench.device),
    };
    let mut report = Report::new(&device, &format!("{:?}", bench.scale));
    if !options.child {
        eprintln!("{device}: {} checks", checks.len());
    }
    if !options.child && (bench.cuda.is_some() || options.apart) {
        drop(bench);
        let again = |check: &Check, part: &Path, limit| apart::again(options, check, part, limit);
        apart::go_through(&checks, options, &mut report, &again)?;
    } else {
        go_through(&checks, bench, options, &mut report)?;
    }
    print!("{}", report.table());
    // A thread that hangs is not waited for.
    std::io::stdout().flush().context("writing the table")?;
    Ok(match report.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

fn chosen(only: &[String]) -> Result<Vec<Check>> {
    let mut all = checks::all();
    let names: Vec<&str> = all.iter().map(|check| check.name).collect();
    for name in only {
        ensure!(
            names.contains(&name.as_str()),
            "there is no check `{name}`; there are {}",
            names.join(", ")
        );
    }
    all.retain(|check| only.is_empty() || only.iter().any(|name| name == check.name));
    Ok(all)
}

/// The device; `None` where the one that was asked for is not there.
fn open(options: &Options) -> Result<Option<Bench>> {
    let choice = match options.device.as_str() {
        "auto" => DeviceChoice::Cuda(0),
        name => name.parse()?,
    };
    if let DeviceChoice::Cuda(_) = choice {
        cuda::ask_driver()?;
    }
    let device = match (choice.open(), choice) {
        (Ok(device), _) => device,
        (Err(error), DeviceChoice::Cuda(_)) => {
            eprintln!("{error}");
            return Ok(None);
        }
        (Err(error), _) => return Err(error.into()),
    };
    let cuda = match choice {
        DeviceChoice::Cuda(index) => Some(Cuda::open(index)?),
        _ => None,
    };
    let scale = match (&cuda, options.quick) {
        (None, _) => Scale::Small,
        (Some(_), true) => Scale::Quick,
        (Some(_), false) => Scale::Full,
    };
    Ok(Some(Bench {
        device,
        cuda,
        scale,
        ends: Instant::now() + Duration::from_secs(options.limit),
    }))
}

/// Runs the checks on one thread, whose stream they share, and watches the clock from this one.
pub(crate) fn go_through(
    checks: &[Check],
    bench: Bench,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let started = Instant::now();
    let bar = match options.child {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(checks.len() as u64),
    };
    let say = |text: String| {
        if !options.child {
            bar.suspend(|| eprintln!("{text}"));
        }
    };
    bar.set_style(ProgressStyle::with_template(
        "{bar:30} {pos}/{len} {msg} {elapsed}",
    )?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let asked = checks.to_vec();
    let (sender, answers) = channel();
    std::thread::Builder::new()
        .name("gpu-check".into())
        .spawn(move || answer_all(&asked, &bench, &sender))
        .context("starting a thread")?;
    for (at, check) in checks.iter().enumerate() {
        let Check { name, asks, .. } = check;
        bar.set_message(*name);
        say(format!("[{}/{}] {name}: {asks}", at + 1, checks.len()));
        let rest = Duration::from_secs(options.limit).saturating_sub(started.elapsed());
        let answer = answers.recv_timeout(rest);
        let late = answer.is_err();
        match answer {
            Ok(answer) => {
                let verdict = word(answer.verdict);
                say(format!("      {verdict} [{:.1} s]", answer.seconds));
                report.add(answer);
            }
            Err(why) => {
                let because = match why {
                    RecvTimeoutError::Timeout => {
                        format!("did not end within the limit of {} s", options.limit)
                    }
                    RecvTimeoutError::Disconnected => "the checking thread is gone".into(),
                };
                report.add(Answer::without(check, Verdict::Failed, because));
                for check in &checks[at + 1..] {
                    let because = "an earlier check did not end".to_owned();
                    report.add(Answer::without(check, Verdict::NotRun, because));
                }
            }
        }
        bar.inc(1);
        report.seconds = started.elapsed().as_secs_f64();
        report.keep(options.json.as_deref());
        if late {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn answer_all(checks: &[Check], bench: &Bench, answers: &Sender<Answer>) {
    for check in checks {
        if answers.send(answer(check, bench)).is_err() {
            return;
        }
    }
}

/// A panic is that check's failure.
pub(crate) fn answer(check: &Check, bench: &Bench) -> Answer {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (check.run)(bench)));
    let (verdict, numbers, because) = match outcome {
        Ok(Ok(Outcome::Found(finding))) => (finding.verdict, finding.numbers, finding.rule),
        Ok(Ok(Outcome::NotRun(why))) => (Verdict::NotRun, Vec::new(), why),
        Ok(Err(error)) => (Verdict::Failed, Vec::new(), format!("error: {error:#}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            let because = format!("panic: {}", text.unwrap_or("without a message"));
            (Verdict::Failed, Vec::new(), because)
        }
    };
    Answer {
        numbers,
        seconds: started.elapsed().as_secs_f64(),
        ..Answer::without(check, verdict, because)
    }
}
