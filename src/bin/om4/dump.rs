//! What a reader delivers, as NumPy files: values in the channel's own unit, NaN where there is none,
//! neither normalised nor masked.

use crate::output::{self, Verdict};
use crate::rows::Rows;
use crate::which::Which;
use anyhow::{Context, Result};
use burn_om4::host::HostPlanes;
use burn_om4::ocean::{Coordinate, PlaneRequest, PlaneSource};
use burn_om4::store::Store;
use burn_om4::{Channel, parse_channels};
use clap::Args;
use npyz::{AutoSerialize, NpyWriter, WriterBuilder};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Channels: a preset or names.
    #[arg(long)]
    channels: String,
    /// Rows A..B of the time axis, B not included; all when absent.
    #[arg(long, default_value = "..")]
    rows: Rows,
    /// Folder for CHANNEL.npy (time, y, x), mask_K.npy (y, x) and, last, meta.json.
    #[arg(long)]
    out: PathBuf,
    /// Print meta.json too, instead of a summary.
    #[arg(long)]
    pub json: bool,
}

/// Bytes of planes that are read at once.
const BLOCK_BYTES: usize = 64 << 20;

type Npy<T> = NpyWriter<T, BufWriter<File>>;

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let channels = parse_channels(&options.channels)?;
    let store = options.which.open(Some(channels.clone()))?;
    let rows = options.rows.of(store.rows())?;
    fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let meta_path = options.out.join("meta.json");
    // A folder with it is complete.
    match fs::remove_file(&meta_path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(e).context(meta_path.display().to_string())
        }
        _ => Ok(()),
    }?;
    let mut warnings = store.warnings().to_vec();
    let levels = write_masks(&store, &channels, &options.out, &mut warnings)?;
    write_planes(&store, &channels, rows.clone(), &options.out)?;
    warnings.extend(store.missing_chunks());
    output::warn(&warnings);
    let meta = meta(&store, &channels, &levels, rows.clone(), &warnings);
    fs::write(&meta_path, serde_json::to_string_pretty(&meta)?)
        .with_context(|| meta_path.display().to_string())?;
    if options.json {
        output::print_json(&meta)?;
    } else {
        let (planes, masks) = (channels.len(), levels.len());
        output::print(&format!(
            "{}: {planes} channels, {} rows, {masks} masks",
            options.out.display(),
            rows.len()
        ))?;
    }
    Ok(Verdict::Clean)
}

/// The masks of the channels' levels, as far as the store has them.
fn write_masks(
    store: &Store,
    channels: &[Channel],
    out: &Path,
    warnings: &mut Vec<String>,
) -> Result<BTreeSet<usize>> {
    let there: BTreeSet<usize> = store.masks().levels().collect();
    let mut levels = BTreeSet::new();
    for channel in channels {
        let level = channel.mask_level();
        if there.contains(&level) {
            levels.insert(level);
            continue;
        }
        let surface = there.contains(&0).then_some(0);
        levels.extend(surface);
        let instead = surface.map_or("none", |_| "that of the surface");
        warnings.push(format!(
            "no mask of level {level} for channel {channel}: {instead} is written"
        ));
    }
    let shape = store.shape();
    for level in &levels {
        let mask = store.wet_mask(*level)?;
        let path = out.join(format!("mask_{level}.npy"));
        let mut npy = npy::<bool>(&path, &[shape.ny, shape.nx])?;
        npy.extend(mask.as_slice().iter().copied())
            .and_then(|()| npy.finish())
            .with_context(|| path.display().to_string())?;
    }
    Ok(levels)
}

/// The planes of every channel, a block of rows after the other.
fn write_planes(store: &Store, channels: &[Channel], rows: Range<usize>, out: &Path) -> Result<()> {
    let shape = store.shape();
    let cells = shape.cells();
    let mut files: Vec<(PathBuf, Npy<f32>)> = Vec::new();
    for channel in channels {
        let path = out.join(format!("{channel}.npy"));
        let npy = npy(&path, &[rows.len(), shape.ny, shape.nx])?;
        files.push((path, npy));
    }
    let positions = store.positions(channels)?;
    let row_bytes = cells * channels.len() * size_of::<f32>();
    let block = (BLOCK_BYTES / row_bytes).clamp(1, rows.len());
    let mut memory = vec![0f32; block * channels.len() * cells];
    let bar = output::progress("rows", rows.len() as u64);
    for first in rows.clone().step_by(block) {
        let block: Vec<usize> = (first..rows.end.min(first + block)).collect();
        let request = PlaneRequest {
            rows: &block,
            channels: &positions,
        };
        let values = &mut memory[..request.planes() * cells];
        store.read(&request, &HostPlanes::new(values, cells))?;
        for row in values.chunks_exact(channels.len() * cells) {
            for ((path, npy), plane) in files.iter_mut().zip(row.chunks_exact(cells)) {
                npy.extend(plane.iter().copied())
                    .with_context(|| path.display().to_string())?;
            }
        }
        bar.inc(block.len() as u64);
    }
    bar.finish_and_clear();
    for (path, npy) in files {
        npy.finish().with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// A NumPy file of this shape, to be filled in C order.
fn npy<T: AutoSerialize>(path: &Path, shape: &[usize]) -> Result<Npy<T>> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
    Ok(options.writer(BufWriter::new(file)).begin_nd()?)
}

fn meta(
    store: &Store,
    channels: &[Channel],
    levels: &BTreeSet<usize>,
    rows: Range<usize>,
    warnings: &[String],
) -> Value {
    let time = store.time();
    // To the minute; seconds are beside them.
    let minute = |row: usize| {
        let at = time.datetime(row);
        format!("{}T{:02}:{:02}", at.date, at.hour, at.minute)
    };
    let times: Vec<String> = rows.clone().map(minute).collect();
    let seconds: Vec<f64> = rows.clone().map(|row| time.seconds(row)).collect();
    let names: Vec<&str> = channels.iter().map(Channel::name).collect();
    let units: Vec<Option<&str>> = channels.iter().map(|c| store.unit(c)).collect();
    let nx = store.shape().nx;
    let latitude = match store.grid().latitude() {
        None => Value::Null,
        Some(Coordinate::Line(values)) => json!(values),
        Some(Coordinate::Plane(values)) => json!(values.chunks_exact(nx).collect::<Vec<_>>()),
    };
    json!({
        "store": store.path(),
        "channels": names,
        "units": units,
        "masks": levels,
        "rows": [rows.start, rows.end],
        "times": times,
        "seconds_since_first_row": seconds,
        "calendar": time.calendar().to_string(),
        "latitude": latitude,
        "warnings": warnings,
    })
}
