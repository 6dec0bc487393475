//! Synthetic stores.

use crate::output::{self, Verdict};
use anyhow::Result;
use burn_om4::Date;
use burn_om4::synth::{self, Chunking, Existing, SynthOptions};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;

#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// thetao_4 (time, y, x).
    Flat,
    /// thetao_lev_65_0 (time, y, x), the older names.
    DepthNames,
    /// thetao (lev, time, y, x).
    Compact,
    /// thetao (time, lev, y, x).
    CompactTimeFirst,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    V2,
    V3,
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    None,
    BloscLz4,
    BloscZstd,
    Zstd,
    Lz4,
    Gzip,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Folder for OM4.zarr, OM4_means.zarr and OM4_stds.zarr.
    out: PathBuf,
    /// Rows of a plane.
    #[arg(long, default_value_t = 180)]
    ny: usize,
    /// Columns of a plane.
    #[arg(long, default_value_t = 360)]
    nx: usize,
    /// Levels.
    #[arg(long, default_value_t = 19)]
    levels: usize,
    /// Rows of the time axis.
    #[arg(long, default_value_t = 20)]
    rows: usize,
    #[arg(long, value_enum, default_value_t = Layout::Flat)]
    layout: Layout,
    #[arg(long, value_enum, default_value_t = Format::V2)]
    format: Format,
    #[arg(long, value_enum, default_value_t = Codec::None)]
    codec: Codec,
    /// Time rows in a chunk.
    #[arg(long, default_value_t = 1)]
    chunk_rows: usize,
    /// Time rows in a shard, whose inner chunks are planes; Zarr v3 only.
    #[arg(long, conflicts_with = "chunk_rows")]
    shard_rows: Option<usize>,
    /// Day of the first row.
    #[arg(long)]
    start: Option<Date>,
    /// Of the values.
    #[arg(long)]
    seed: Option<u64>,
    /// Replace stores that are there.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let chunking = match (options.shard_rows, options.chunk_rows) {
        (Some(rows), _) => Chunking::Shards(rows),
        (None, 1) => Chunking::OneRow,
        (None, rows) => Chunking::Rows(rows),
    };
    let mut synth = SynthOptions::new(options.ny, options.nx)
        .with_levels(options.levels)
        .with_rows(options.rows)
        .with_layout(match options.layout {
            Layout::Flat => synth::Layout::Flat,
            Layout::DepthNames => synth::Layout::FlatDepthNames,
            Layout::Compact => synth::Layout::CompactLevTime,
            Layout::CompactTimeFirst => synth::Layout::CompactTimeLev,
        })
        .with_format(match options.format {
            Format::V2 => synth::Format::V2,
            Format::V3 => synth::Format::V3,
        })
        .with_codec(match options.codec {
            Codec::None => synth::Codec::None,
            Codec::BloscLz4 => synth::Codec::BloscLz4,
            Codec::BloscZstd => synth::Codec::BloscZstd,
            Codec::Zstd => synth::Codec::Zstd,
            Codec::Lz4 => synth::Codec::Lz4,
            Codec::Gzip => synth::Codec::Gzip,
        })
        .with_chunking(chunking)
        .with_existing(match options.force {
            true => Existing::Replace,
            false => Existing::Refuse,
        });
    if let Some(start) = options.start {
        synth = synth.with_start(start);
    }
    if let Some(seed) = options.seed {
        synth = synth.with_seed(seed);
    }
    synth.write(&options.out)?;
    let channels = synth.channels().len();
    match options.json {
        true => output::print_json(&json!({
            "out": options.out, "channels": channels, "rows": options.rows,
        }))?,
        false => output::print(&format!(
            "{}: {channels} channels, {} rows",
            options.out.display(),
            options.rows
        ))?,
    }
    Ok(Verdict::Clean)
}
