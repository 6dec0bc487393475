//! What is wrong with a store.

use crate::output::{self, Verdict};
use crate::which::paths;
use anyhow::Result;
use burn_om4::store::OpenOptions;
use burn_om4::survey::{Depth, Examination, Examined, Severity};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Options {
    /// Folder with OM4.zarr, or that store itself. Its statistics lie beside it.
    dir: PathBuf,
    /// Read all planes instead of a sample, and compare the statistics with those of the data.
    #[arg(long)]
    full: bool,
    /// File that keeps what was seen so far: with it a stopped examination goes on.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Name of the time axis, where it is not `time`.
    #[arg(long, value_name = "NAME")]
    time_name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let bar = output::progress("examining", 0);
    let progress = |done: usize, of: usize| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    };
    let depth = if options.full {
        Depth::Full
    } else {
        Depth::Sample
    };
    let mut opening = OpenOptions::default();
    opening.time_name = options.time_name.clone();
    let mut examination = Examination::new(&paths(&options.dir))
        .with_options(opening)
        .with_depth(depth)
        .with_progress(&progress);
    if let Some(state) = &options.state {
        examination = examination.with_state(state);
    }
    let examined = examination.run();
    bar.finish_and_clear();
    let examined = examined?;
    match options.json {
        true => output::print_json(&examined)?,
        false => output::print(&text(&examined, depth))?,
    }
    Ok(match examined.findings.is_empty() {
        true => Verdict::Clean,
        false => Verdict::Findings,
    })
}

fn text(examined: &Examined, depth: Depth) -> String {
    let all = examined.findings.iter().chain(&examined.notes);
    let mut lines: Vec<String> = all.map(ToString::to_string).collect();
    let count = |severity, one: &str| {
        let found = examined.findings.iter().filter(|f| f.severity == severity);
        match found.count() {
            1 => format!("1 {one}"),
            n => format!("{n} {one}s"),
        }
    };
    let looked = match depth {
        Depth::Sample => "a sample: --full reads all",
        Depth::Full => "all",
    };
    lines.push(format!(
        "{}, {}; {} arrays, {} channels, {} planes read ({looked})",
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        examined.arrays,
        examined.channels,
        examined.planes,
    ));
    lines.join("\n")
}
