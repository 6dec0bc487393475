//! Writes the three stores: asks the field for planes, cuts chunks, sums up the statistics.

use super::Field;
use super::axes::{GaussianGrid, Time, Values};
use super::encode::{Attributes, DType, GroupWriter, Spec, Writer};
use super::moments::Moments;
use super::options::{Chunking, Codec, Existing, Format, Land, Layout, MaskType, SynthOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::{Channel, DEPTHS, THICKNESSES};
use rayon::prelude::*;
use serde_json::json;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names that no variable may have.
pub(super) const COORDINATES: [&str; 12] = [
    "time",
    "x",
    "y",
    "lev",
    "dz",
    "lat",
    "lon",
    "areacello",
    "lat_b",
    "lon_b",
    "ocean_fraction",
    "wetmask",
];

const DATA: &str = "OM4.zarr";
const MEANS: &str = "OM4_means.zarr";
const STDS: &str = "OM4_stds.zarr";

pub(super) fn write(options: &SynthOptions, dir: &Path, field: &mut dyn Field) -> Result<()> {
    let there = || {
        [DATA, MEANS, STDS]
            .map(|s| dir.join(s))
            .into_iter()
            .find(|p| p.exists())
    };
    let refuse = |path: PathBuf| {
        let found = path.display();
        Err(Error::config("there is a store already").found(found))
    };
    if let (Existing::Refuse, Some(path)) = (options.existing, there()) {
        return refuse(path);
    }
    let staging = Staging::new(dir)?;
    let wet = wet(options, field);
    let mut group = options.group(staging.0.join(DATA));
    coordinates(options, &mut group, &wet)?;
    masks(options, &mut group, &wet)?;
    let moments = data(options, &mut group, &wet, field)?;
    group.finish(global_attributes(options))?;
    for (store, statistic) in [(MEANS, Statistic::Mean), (STDS, Statistic::Std)] {
        let group = options.group(staging.0.join(store));
        statistics(options, group, &wet, &moments, statistic)?;
    }

    if let Some(path) = there() {
        if options.existing == Existing::Refuse {
            return refuse(path);
        }
        let old = staging.0.join("old");
        make_dir(&old)?;
        // Data away first and back last: with it missing nobody takes the rest for a store.
        for store in [DATA, MEANS, STDS] {
            if dir.join(store).exists() {
                rename(&dir.join(store), &old.join(store))?;
            }
        }
    }
    for store in [MEANS, STDS, DATA] {
        rename(&staging.0.join(store), &dir.join(store))?;
    }
    Ok(())
}

/// A hidden directory beside the result, removed when dropped.
struct Staging(PathBuf);

impl Staging {
    fn new(dir: &Path) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".synth-{}-{count}", std::process::id()));
        make_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing to be done about a failure; what stays is hidden and no store.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| {
        Error::new(ErrorKind::Io, format!("cannot create {}", path.display())).caused_by(e)
    })
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| {
        Error::new(ErrorKind::Io, format!("cannot move to {}", to.display())).caused_by(e)
    })
}

impl SynthOptions {
    fn group(&self, root: PathBuf) -> GroupWriter {
        GroupWriter::new(root, self.format, self.separator, self.consolidation)
    }

    fn compact(&self) -> bool {
        matches!(self.layout, Layout::CompactLevTime | Layout::CompactTimeLev)
    }

    /// The name of a channel's array in the layouts with one array per channel.
    fn array_name(&self, channel: &Channel) -> String {
        match (self.layout, channel.level()) {
            (Layout::FlatDepthNames, Some(level)) => {
                let depth = format!("{:?}", DEPTHS[level]).replace('.', "_");
                format!("{}_lev_{depth}", channel.variable())
            }
            _ => channel.name().into(),
        }
    }
}

/// The ocean cells of each level, `(y, x)`.
fn wet(options: &SynthOptions, field: &dyn Field) -> Vec<Vec<bool>> {
    let (ny, nx) = (options.ny, options.nx);
    let level = |k| {
        let cells = (0..ny).flat_map(|y| (0..nx).map(move |x| (y, x)));
        cells.map(|(y, x)| field.is_ocean(k, y, x)).collect()
    };
    (0..options.levels).map(level).collect()
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(k, v)| ((*k).into(), json!(v))).collect()
}

fn bytes<const N: usize, T: Copy>(values: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut out = Vec::with_capacity(N * values.len());
    values.iter().for_each(|v| out.extend_from_slice(&of(*v)));
    out
}

/// What xarray says of a variable: its long name and units.
fn describe(variable: &str) -> (&str, &str) {
    match variable {
        "thetao" => ("Sea Water Potential Temperature", "degC"),
        "so" => ("Sea Water Salinity", "psu"),
        "uo" => ("Sea Water X Velocity", "m s-1"),
        "vo" => ("Sea Water Y Velocity", "m s-1"),
        "zos" => ("Sea surface height above geoid", "m"),
        "hfds" => (
            "Surface ocean heat flux from SW+LW+latent+sensible+masstransfer+frazil+seaice_melt_heat",
            "W m-2",
        ),
        "tauuo" => ("Surface Downward X Stress", "N m-2"),
        "tauvo" => ("Surface Downward Y Stress", "N m-2"),
        other => (other, "1"),
    }
}

fn global_attributes(options: &SynthOptions) -> Attributes {
    let mut attributes = attributes(&[
        ("coordinates", "dz lat_b lon_b ocean_fraction"),
        ("grid_type", "gaussian"),
        ("regrid_method", "conservative"),
        ("m2lines/ocean_emulators_git_hash", "synthetic"),
        ("m2lines/cli_args", "burn-om4 synth"),
    ]);
    for variable in &options.depth_variables {
        let (_, units) = describe(variable);
        let value = json!({"cell_measures": "area: areacello", "units": units});
        attributes.insert(variable.clone(), value);
    }
    attributes
}

fn coordinates(options: &SynthOptions, group: &mut GroupWriter, wet: &[Vec<bool>]) -> Result<()> {
    let (ny, nx, levels) = (options.ny, options.nx, options.levels);
    let codec = match options.format {
        Format::V2 => Codec::BloscLz4,
        Format::V3 => Codec::Zstd,
    };
    let mut put = |name: &str, dims: &[&str], shape: &[usize], values: &[f64], about| {
        // The published 2-D coordinates keep the chunks of the one-degree grid.
        let limit = |dim: &str| match dim {
            "y" if dims.len() == 2 => 90,
            "x" if dims.len() == 2 => 360,
            "y_b" => 91,
            "x_b" => 361,
            _ => usize::MAX,
        };
        let chunks: Vec<usize> = dims
            .iter()
            .zip(shape)
            .map(|(d, n)| limit(d).min(*n))
            .collect();
        let spec = Spec {
            name,
            dims,
            shape,
            chunks: &chunks,
            inner: None,
            dtype: DType::F64,
            codec,
            attributes: about,
        };
        group.array(spec)?.put_all(&bytes(values, f64::to_ne_bytes))
    };
    let grid = GaussianGrid::new(ny, nx);
    let by_row = |rows: &[f64], n| -> Vec<f64> {
        rows.iter()
            .flat_map(|v| std::iter::repeat_n(*v, n))
            .collect()
    };
    let by_column = |columns: &[f64], n| columns.repeat(n);
    let none = Attributes::new;
    let lev = attributes(&[("units", "m"), ("long_name", "depth of cell center")]);
    put("x", &["x"], &[nx], &grid.lon, none())?;
    put("y", &["y"], &[ny], &grid.lat, none())?;
    put("lev", &["lev"], &[levels], &DEPTHS[..levels], lev)?;
    put("dz", &["lev"], &[levels], &THICKNESSES[..levels], none())?;
    put(
        "lat",
        &["y", "x"],
        &[ny, nx],
        &by_row(&grid.lat, nx),
        none(),
    )?;
    put(
        "lon",
        &["y", "x"],
        &[ny, nx],
        &by_column(&grid.lon, ny),
        none(),
    )?;
    put(
        "areacello",
        &["y", "x"],
        &[ny, nx],
        &by_row(&grid.area, nx),
        none(),
    )?;
    let (edges, shape) = (["y_b", "x_b"], [ny + 1, nx + 1]);
    put(
        "lat_b",
        &edges,
        &shape,
        &by_row(&grid.lat_edges, nx + 1),
        none(),
    )?;
    put(
        "lon_b",
        &edges,
        &shape,
        &by_column(&grid.lon_edges, ny + 1),
        none(),
    )?;
    let fraction: Vec<f64> = wet
        .iter()
        .flatten()
        .map(|w| f64::from(u8::from(*w)))
        .collect();
    put(
        "ocean_fraction",
        &["lev", "y", "x"],
        &[levels, ny, nx],
        &fraction,
        none(),
    )?;

    let time = Time::new(options)?;
    let (dtype, values) = match &time.values {
        Values::Int(days) => (DType::I64, bytes(days, i64::to_ne_bytes)),
        Values::Float(days) => (DType::F64, bytes(days, f64::to_ne_bytes)),
    };
    let spec = Spec {
        name: "time",
        dims: &["time"],
        shape: &[options.rows],
        chunks: &[options.rows],
        inner: None,
        dtype,
        codec,
        attributes: attributes(&[
            ("units", &time.units),
            ("calendar", options.calendar.name()),
        ]),
    };
    group.array(spec)?.put_all(&values)
}

/// `mask_k (y, x)` or `wetmask (lev, y, x)`, by layout.
fn masks(options: &SynthOptions, group: &mut GroupWriter, wet: &[Vec<bool>]) -> Result<()> {
    let (ny, nx, levels) = (options.ny, options.nx, options.levels);
    let mut put =
        |name: &str, dims: &[&str], shape: &[usize], cells: Vec<u8>, about: &str, coordinates| {
            let mut attributes = attributes(&[
                ("coordinates", coordinates),
                ("long_name", about),
                ("units", "0 if land, 1 if ocean"),
            ]);
            let dtype = match options.masks {
                MaskType::Int8 => {
                    attributes.insert("dtype".into(), json!("bool"));
                    DType::I8
                }
                MaskType::Bool => DType::Bool,
            };
            let spec = Spec {
                name,
                dims,
                shape,
                chunks: shape,
                inner: None,
                dtype,
                codec: options.codec,
                attributes,
            };
            let index = vec![0; shape.len()];
            group.array(spec)?.put(&index, cells)
        };
    let ones = |cells: &[bool]| -> Vec<u8> { cells.iter().map(|w| u8::from(*w)).collect() };
    if options.layout == Layout::Flat {
        for (k, cells) in wet.iter().enumerate() {
            let (name, about) = (format!("mask_{k}"), format!("ocean mask level-{k}"));
            put(
                &name,
                &["y", "x"],
                &[ny, nx],
                ones(cells),
                &about,
                SURFACE_COORDINATES,
            )?;
        }
        return Ok(());
    }
    let (dims, shape) = (["lev", "y", "x"], [levels, ny, nx]);
    put(
        "wetmask",
        &dims,
        &shape,
        ones(&wet.concat()),
        "ocean mask",
        DEPTH_COORDINATES,
    )
}

const SURFACE_COORDINATES: &str = "areacello lat lon";
const DEPTH_COORDINATES: &str = "areacello dz lat lon ocean_fraction";

/// One array of data, and which channels it holds.
struct Data {
    writer: Writer,
    channels: Range<usize>,
    layout: LevelAxis,
}

#[derive(Clone, Copy)]
enum LevelAxis {
    None,
    BeforeTime,
    AfterTime,
}

fn data_arrays(
    options: &SynthOptions,
    channels: &[Channel],
    group: &mut GroupWriter,
) -> Result<Vec<Data>> {
    let (ny, nx, rows) = (options.ny, options.nx, options.rows);
    let chunk_rows = chunk_rows(options);
    let mut arrays = Vec::new();
    let mut at = 0;
    while at < channels.len() {
        let channel = &channels[at];
        let stacked = options.compact() && channel.level().is_some();
        let n = if stacked { options.levels } else { 1 };
        let (layout, dims, shape, chunks, inner): (_, &[&str], Vec<_>, Vec<_>, Vec<_>) =
            match options.layout {
                Layout::CompactLevTime if stacked => (
                    LevelAxis::BeforeTime,
                    &["lev", "time", "y", "x"],
                    vec![n, rows, ny, nx],
                    vec![n, chunk_rows, ny, nx],
                    vec![1, 1, ny, nx],
                ),
                Layout::CompactTimeLev if stacked => (
                    LevelAxis::AfterTime,
                    &["time", "lev", "y", "x"],
                    vec![rows, n, ny, nx],
                    vec![chunk_rows, n, ny, nx],
                    vec![1, 1, ny, nx],
                ),
                _ => (
                    LevelAxis::None,
                    &["time", "y", "x"],
                    vec![rows, ny, nx],
                    vec![chunk_rows, ny, nx],
                    vec![1, ny, nx],
                ),
            };
        let (long_name, units) = describe(channel.variable());
        let (name, long_name, coordinates) = match (stacked, channel.level()) {
            (true, _) => (
                channel.variable().into(),
                long_name.into(),
                DEPTH_COORDINATES,
            ),
            (false, Some(level)) => (
                options.array_name(channel),
                format!("{long_name} level-{level}"),
                SURFACE_COORDINATES,
            ),
            (false, None) => (channel.name().into(), long_name.into(), SURFACE_COORDINATES),
        };
        let spec = Spec {
            name: &name,
            dims,
            shape: &shape,
            chunks: &chunks,
            inner: matches!(options.chunking, Chunking::Shards(_)).then_some(&inner),
            dtype: DType::F32,
            codec: options.codec,
            attributes: attributes(&[
                ("coordinates", coordinates),
                ("long_name", &long_name),
                ("units", units),
            ]),
        };
        arrays.push(Data {
            writer: group.array(spec)?,
            channels: at..at + n,
            layout,
        });
        at += n;
    }
    Ok(arrays)
}

fn chunk_rows(options: &SynthOptions) -> usize {
    match options.chunking {
        Chunking::OneRow => 1,
        Chunking::Rows(n) | Chunking::Shards(n) => n,
    }
}

/// Writes all data variables; returns the moments of each channel.
fn data(
    options: &SynthOptions,
    group: &mut GroupWriter,
    wet: &[Vec<bool>],
    field: &mut dyn Field,
) -> Result<Vec<Moments>> {
    let channels = options.channels();
    let arrays = data_arrays(options, &channels, group)?;
    let plane = options.ny * options.nx;
    let chunk_rows = chunk_rows(options);
    let mut moments = vec![Moments::default(); channels.len()];
    // One chunk of every channel: rows past the end stay NaN.
    let mut block = vec![vec![f32::NAN; chunk_rows * plane]; channels.len()];
    for (index, first) in (0..options.rows).step_by(chunk_rows).enumerate() {
        let rows = first..options.rows.min(first + chunk_rows);
        for row in rows.clone() {
            let cells = (row - first) * plane..(row - first + 1) * plane;
            for (channel, out) in channels.iter().zip(&mut block) {
                field.plane(channel, row, &mut out[cells.clone()]);
            }
        }
        let block_moments = block.par_iter_mut().zip(&channels).zip(&mut moments);
        block_moments.for_each(|((planes, channel), moments)| {
            let (valid, rest) = planes.split_at_mut(rows.len() * plane);
            let ocean = &wet[channel.mask_level()];
            for values in valid.chunks_exact_mut(plane) {
                moments.add(values, ocean);
                if options.land == Land::Nan {
                    let land = values.iter_mut().zip(ocean).filter(|(_, wet)| !**wet);
                    land.for_each(|(value, _)| *value = f32::NAN);
                }
            }
            rest.fill(f32::NAN);
        });
        let put = |array: &Data| {
            let levels = &block[array.channels.clone()];
            let index = index as u64;
            let plane_of = |level: &'_ Vec<f32>, row: usize| {
                bytes(&level[row * plane..(row + 1) * plane], f32::to_ne_bytes)
            };
            let mut values = Vec::with_capacity(levels.len() * chunk_rows * plane * 4);
            let index = match array.layout {
                LevelAxis::None => vec![index, 0, 0],
                LevelAxis::BeforeTime => vec![0, index, 0, 0],
                LevelAxis::AfterTime => vec![index, 0, 0, 0],
            };
            match array.layout {
                LevelAxis::None | LevelAxis::BeforeTime => levels.iter().for_each(|level| {
                    (0..chunk_rows).for_each(|row| values.extend(plane_of(level, row)));
                }),
                LevelAxis::AfterTime => (0..chunk_rows).for_each(|row| {
                    levels
                        .iter()
                        .for_each(|level| values.extend(plane_of(level, row)));
                }),
            }
            array.writer.put(&index, values)
        };
        arrays.par_iter().try_for_each(put)?;
    }
    Ok(moments)
}

#[derive(Clone, Copy)]
enum Statistic {
    Mean,
    Std,
}

fn statistics(
    options: &SynthOptions,
    mut group: GroupWriter,
    wet: &[Vec<bool>],
    moments: &[Moments],
    statistic: Statistic,
) -> Result<()> {
    let of = |m: &Moments| match statistic {
        Statistic::Mean => m.mean(),
        Statistic::Std => m.std(),
    };
    let channels = options.channels();
    let mut put = |name: &str, levels: Option<usize>, dtype, values: Vec<u8>| {
        let (dims, shape): (&[&str], &[usize]) = match &levels {
            Some(n) => (&["lev"], std::slice::from_ref(n)),
            None => (&[], &[]),
        };
        let spec = Spec {
            name,
            dims,
            shape,
            chunks: shape,
            inner: None,
            dtype,
            codec: options.codec,
            attributes: Attributes::new(),
        };
        let index = vec![0; shape.len()];
        group.array(spec)?.put(&index, values)
    };
    let mut at = 0;
    while at < channels.len() {
        let channel = &channels[at];
        let stacked = options.compact() && channel.level().is_some();
        let n = if stacked { options.levels } else { 1 };
        let values: Vec<f32> = moments[at..at + n].iter().map(|m| of(m) as f32).collect();
        let values = bytes(&values, f32::to_ne_bytes);
        match stacked {
            true => put(channel.variable(), Some(n), DType::F32, values)?,
            false => put(&options.array_name(channel), None, DType::F32, values)?,
        }
        at += n;
    }
    match options.layout {
        Layout::Flat => {
            for (k, cells) in wet.iter().enumerate() {
                let mut m = Moments::default();
                let ones: Vec<f32> = cells.iter().map(|w| f32::from(u8::from(*w))).collect();
                m.add(&ones, &vec![true; ones.len()]);
                let value = of(&m).to_ne_bytes().to_vec();
                put(&format!("mask_{k}"), None, DType::F64, value)?;
            }
        }
        Layout::FlatDepthNames => {}
        Layout::CompactLevTime | Layout::CompactTimeLev => {
            let depths = bytes(&DEPTHS[..options.levels], f64::to_ne_bytes);
            put("lev", Some(options.levels), DType::F64, depths)?;
        }
    }
    group.finish(Attributes::new())
}
