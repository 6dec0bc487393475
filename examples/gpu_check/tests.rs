//! The GPU check's own code, on a software device: what it can ask there passes, what it cannot is not
//! called passed, and what goes wrong in one check stays there.

#[cfg(unix)]
use crate::apart;
use crate::bench::{Bench, Scale};
use crate::check::{self, Answer, Check, Finding, Verdict};
use crate::{checks, options, report, run};
use burn::tensor::Device;
use burn_om4::DeviceChoice;
use clap::Parser;
use std::time::{Duration, Instant};

fn on(device: Device) -> Bench {
    Bench {
        device,
        cuda: None,
        scale: Scale::Small,
        ends: Instant::now() + Duration::from_secs(3600),
    }
}

/// The first Vulkan device. Where there is none a test skips with a message, except in CI.
fn vulkan() -> Option<Device> {
    let found = DeviceChoice::Vulkan.open();
    if let Err(error) = &found {
        let ci = std::env::var_os("CI").is_some() && cfg!(feature = "vulkan");
        assert!(!ci, "no Vulkan device in CI: {error}");
        eprintln!("skipped: {error}");
    }
    found.ok()
}

fn ask(name: &str, bench: &Bench) -> Answer {
    let check = checks::all().into_iter().find(|check| check.name == name);
    run::answer(&check.unwrap(), bench)
}

#[test]
fn what_a_software_device_can_answer_passes() {
    let Some(device) = vulkan() else {
        return;
    };
    let bench = on(device);
    for name in ["equal_f32", "leases_home", "poison"] {
        let answer = ask(name, &bench);
        assert_eq!(answer.verdict, Verdict::Passed, "{answer:?}");
        assert!(!answer.numbers.is_empty(), "{answer:?}");
    }
    for name in ["equal_bf16", "equal_f16"] {
        let answer = ask(name, &bench);
        let lacks = answer.because.contains("lacks the type");
        assert!(answer.verdict == Verdict::Passed || lacks, "{answer:?}");
    }
}

#[test]
fn what_depends_on_a_gpu_is_never_passed_without_one() {
    let Some(device) = vulkan() else {
        return;
    };
    let bench = on(device);
    for name in ["overlap", "runner_stall", "kernel_rate"] {
        let answer = ask(name, &bench);
        assert_eq!(answer.verdict, Verdict::Measured, "{answer:?}");
    }
    for name in ["compiler", "upload_rate", "no_staging"] {
        let answer = ask(name, &bench);
        assert_eq!(answer.verdict, Verdict::NotRun, "{answer:?}");
        assert!(answer.because.contains("needs CUDA"), "{answer:?}");
    }
}

#[test]
fn a_cpu_trains_and_has_nothing_else_to_say() {
    let bench = on(Device::flex());
    for check in checks::all() {
        let answer = run::answer(&check, &bench);
        let expected = match check.name {
            "training" => Verdict::Measured,
            _ => Verdict::NotRun,
        };
        assert_eq!(answer.verdict, expected, "{answer:?}");
    }
}

fn check(name: &'static str, run: fn(&Bench) -> anyhow::Result<check::Outcome>) -> Check {
    let asks = "Is it so?";
    Check { name, asks, run }
}

fn go_through(checks: Vec<Check>, arguments: &[&str]) -> report::Report {
    let arguments = [&["gpu_check"], arguments].concat();
    let options = options::Options::parse_from(arguments);
    let mut report = report::Report::new("a device", "Small");
    run::go_through(&checks, on(Device::flex()), &options, &mut report).unwrap();
    report
}

#[test]
fn a_panic_and_an_error_fail_their_own_check() {
    let checks = vec![
        check("panics", |_| panic!("an injected panic")),
        check("errs", |_| anyhow::bail!("an injected error")),
        check("finds", |_| Finding::new("a rule").must(false).found()),
        check("passes", |_| {
            Finding::new("a rule").number("n", 1.0, "").found()
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let report = go_through(checks, &["--json", json.to_str().unwrap()]);
    let verdicts: Vec<Verdict> = report.checks.iter().map(|answer| answer.verdict).collect();
    let failed = Verdict::Failed;
    assert_eq!(verdicts, [failed, failed, failed, Verdict::Passed]);
    assert_eq!((report.failed, report.passed), (3, 1));
    assert!(report.checks[0].because.contains("an injected panic"));
    assert!(report.checks[1].because.contains("an injected error"));
    let table = report.table();
    assert!(table.contains("FAILED    panics") && table.contains("passed    passes"));
    let text = std::fs::read_to_string(json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["failed"], 3);
    assert_eq!(json["checks"][3]["numbers"][0]["value"], 1.0);
    assert_eq!(json["checks"][3]["verdict"], "passed");
}

#[test]
fn a_check_that_does_not_end_fails_and_the_rest_is_not_run() {
    let checks = vec![
        check("hangs", |_| {
            loop {
                std::thread::park();
            }
        }),
        check("waits", |_| Finding::new("a rule").found()),
    ];
    let report = go_through(checks, &["--limit", "0"]);
    let verdicts: Vec<Verdict> = report.checks.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::NotRun]);
}

/// In a process each: what the shell script `does` stands for a check, and `$part` for its answer.
#[cfg(unix)]
fn go_apart(does: &[(&'static str, &'static str)], arguments: &[&str]) -> report::Report {
    let arguments = [&["gpu_check"], arguments].concat();
    let options = options::Options::parse_from(arguments);
    let unasked = |&(name, _): &(&'static str, _)| check(name, |_| anyhow::bail!("not here"));
    let checks: Vec<Check> = does.iter().map(unasked).collect();
    let mut report = report::Report::new("a device", "Small");
    let command = |check: &Check, part: &std::path::Path, _| {
        let script = does.iter().find(|(name, _)| *name == check.name);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script.unwrap().1]).env("part", part);
        Ok(shell)
    };
    apart::go_through(&checks, &options, &mut report, &command).unwrap();
    report
}

#[cfg(unix)]
#[test]
fn a_process_that_dies_or_hangs_fails_its_own_check() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    let answers = r#"echo '{"checks": [{"name": "answers", "asks": "Is it so?", "verdict": "passed",
        "numbers": [{"name": "n", "value": null, "unit": "s"}], "because": "a rule",
        "seconds": 1.5}]}' > "$part""#;
    let report = go_apart(
        &[
            ("hangs", "exec sleep 1000"),
            ("dies", "kill -9 $$"),
            ("gives up", "exit 2"),
            ("garbles", "echo '{' > \"$part\""),
            ("answers", answers),
        ],
        &["--each", "1", "--json", json.to_str().unwrap()],
    );
    let failed = Verdict::Failed;
    let verdicts: Vec<Verdict> = report.checks.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [failed, failed, failed, failed, Verdict::Passed]);
    let because = |at: usize| report.checks[at].because.as_str();
    assert!(because(0).contains("did not end within 1 s"));
    assert!(because(1).contains("left no answer: signal: 9"));
    assert!(because(2).contains("left no answer: exit status: 2"));
    assert!(because(3).contains("understanding its answer"));
    let number = &report.checks[4].numbers[0];
    assert!(number.value.is_nan() && number.unit == "s");
    assert_eq!((report.checks[4].seconds, because(4)), (1.5, "a rule"));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((&json["failed"], &json["passed"]), (&4.into(), &1.into()));
}

#[cfg(unix)]
#[test]
fn nothing_is_started_when_the_time_is_over_and_no_file_ends_the_run() {
    let arguments = ["--limit", "0", "--json", "/dev/null/not a folder"];
    let report = go_apart(&[("late", "exit 0"), ("later", "exit 0")], &arguments);
    assert_eq!((report.not_run, report.checks.len()), (2, 2));
    assert!(
        report.checks[0]
            .because
            .contains("the limit of 0 s was over")
    );
}

#[test]
fn an_unknown_check_is_refused_and_a_missing_gpu_has_a_code_of_its_own() {
    let run = |arguments: &[&str]| {
        let arguments = [&["gpu_check"], arguments].concat();
        run::run(&options::Options::parse_from(arguments))
    };
    let error = run(&["--only", "nothing"]).unwrap_err();
    assert!(error.to_string().contains("there is no check `nothing`"));
    #[cfg(not(feature = "cuda"))]
    {
        let code = run(&["--device", "cuda"]).unwrap();
        assert_eq!(
            format!("{code:?}"),
            format!("{:?}", std::process::ExitCode::from(3))
        );
    }
}
