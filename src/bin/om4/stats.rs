//! Means and standard deviations of a store, as they are published beside it.

use crate::output::{self, Verdict};
use crate::which::Which;
use anyhow::{Context, Result};
use burn_om4::ocean::PlaneSource;
use burn_om4::survey::{ComputedStatistics, Moments, Overwrite, compute_statistics};
use burn_om4::{Channel, DateRange, parse_channels};
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Folder for OM4_means.zarr and OM4_stds.zarr; that of the store when absent.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Days A..B, both included; all when absent.
    #[arg(long)]
    time: Option<DateRange>,
    /// Channels: a preset or names; all that the store has when absent.
    #[arg(long)]
    channels: Option<String>,
    /// Replace statistics that are there.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let channels = options
        .channels
        .as_deref()
        .map(parse_channels)
        .transpose()?;
    let store = options.which.open(channels.clone())?;
    let channels = channels.unwrap_or_else(|| store.channels().to_vec());
    let rows = match &options.time {
        Some(days) => store.time().select(days)?,
        None => 0..store.rows(),
    };
    let beside = options.which.paths().means;
    let beside = beside.parent().context("the store lies in no folder")?;
    let out = options.out.as_deref().unwrap_or(beside);
    let overwrite = if options.force {
        Overwrite::Existing
    } else {
        Overwrite::Never
    };
    overwrite.check(out)?;
    let bar = output::progress("rows", rows.len() as u64);
    let start = Instant::now();
    let computed = compute_statistics(&store, &channels, rows.clone(), &|rows| {
        bar.inc(rows as u64)
    });
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let computed = computed?;
    computed.write(out, overwrite)?;
    let warnings = [
        store.warnings(),
        &store.missing_chunks(),
        &computed.warnings,
    ]
    .concat();
    output::warn(&warnings);
    let planes = rows.len() * channels.len();
    let bytes = (planes * store.shape().cells() * size_of::<f32>()) as f64;
    let (first, last) = (
        store.time().label(rows.start),
        store.time().label(rows.end - 1),
    );
    if options.json {
        output::print_json(&json!({
            "out": out,
            "rows": [rows.start, rows.end],
            "times": [first, last],
            "channels": by_name(&computed),
            "seconds": seconds,
            "warnings": warnings,
        }))?;
    } else {
        let (channels, rows) = (channels.len(), rows.len());
        let rate = output::bytes(bytes / seconds);
        output::print(&lines(&computed))?;
        output::print(&format!(
            "{}: {channels} channels, {rows} rows from {first} to {last}; {planes} planes in \
             {seconds:.1} s, {rate}/s",
            out.display(),
        ))?;
    }
    Ok(match computed.can_normalise() {
        true => Verdict::Clean,
        false => Verdict::Findings,
    })
}

fn by_name(computed: &ComputedStatistics) -> Map<String, Value> {
    let of = |(channel, moments): &(Channel, Moments)| {
        let (mean, std) = (moments.mean(), moments.std());
        let stats = json!({"mean": mean, "std": std, "values": moments.count()});
        (channel.name().to_owned(), stats)
    };
    computed.channels.iter().map(of).collect()
}

fn lines(computed: &ComputedStatistics) -> String {
    let line = |(channel, moments): &(Channel, Moments)| {
        let (mean, std) = (moments.mean(), moments.std());
        format!("{:16} mean {mean:15.7e}  std {std:14.7e}", channel.name())
    };
    let lines: Vec<String> = computed.channels.iter().map(line).collect();
    lines.join("\n")
}
