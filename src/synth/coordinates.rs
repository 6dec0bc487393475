//! The coordinates and the masks.

use super::axes::{GaussianGrid, Time, Values};
use super::describe::{DEPTH_COORDINATES, SURFACE_COORDINATES, attributes, bytes};
use super::encode::{Attributes, DType, GroupWriter, Spec};
use super::options::{Codec, Format, Layout, MaskType, SynthOptions};
use crate::error::Result;
use crate::ocean::channel::{DEPTHS, THICKNESSES};
use serde_json::json;
use std::iter::repeat_n;

/// Writes every coordinate; `wet` has the ocean cells of each level.
pub(super) fn coordinates(
    options: &SynthOptions,
    group: &mut GroupWriter,
    wet: &[Vec<bool>],
) -> Result<()> {
    let codec = match options.format {
        Format::V2 => Codec::BloscLz4,
        Format::V3 => Codec::Zstd,
    };
    let mut coordinates = Coordinates {
        options,
        group,
        codec,
    };
    let grid = GaussianGrid::new(options.ny, options.nx);
    coordinates.lines(&grid)?;
    coordinates.planes(&grid)?;
    let ocean = wet.iter().flatten();
    let fraction: Vec<f64> = ocean.map(|w| f64::from(u8::from(*w))).collect();
    let shape = [options.levels, options.ny, options.nx];
    coordinates.put("ocean_fraction", &["lev", "y", "x"], &shape, &fraction)?;
    coordinates.time()
}

/// Coordinates being written.
struct Coordinates<'a> {
    options: &'a SynthOptions,
    group: &'a mut GroupWriter,
    /// The format's usual one.
    codec: Codec,
}

impl Coordinates<'_> {
    fn lines(&mut self, grid: &GaussianGrid) -> Result<()> {
        let SynthOptions { ny, nx, levels, .. } = *self.options;
        let depths = attributes(&[("units", "m"), ("long_name", "depth of cell center")]);
        self.put("x", &["x"], &[nx], &grid.lon)?;
        self.put("y", &["y"], &[ny], &grid.lat)?;
        self.put_with("lev", &["lev"], &[levels], &DEPTHS[..levels], depths)?;
        self.put("dz", &["lev"], &[levels], &THICKNESSES[..levels])
    }

    fn planes(&mut self, grid: &GaussianGrid) -> Result<()> {
        let SynthOptions { ny, nx, .. } = *self.options;
        let by_row = |rows: &[f64], n| -> Vec<f64> {
            let repeated = rows.iter().map(|v| repeat_n(*v, n));
            repeated.flatten().collect()
        };
        let by_column = |columns: &[f64], n| columns.repeat(n);
        let (cells, shape) = (["y", "x"], [ny, nx]);
        self.put("lat", &cells, &shape, &by_row(&grid.lat, nx))?;
        self.put("lon", &cells, &shape, &by_column(&grid.lon, ny))?;
        self.put("areacello", &cells, &shape, &by_row(&grid.area, nx))?;
        let (edges, shape) = (["y_b", "x_b"], [ny + 1, nx + 1]);
        let lat_b = by_row(&grid.lat_edges, nx + 1);
        self.put("lat_b", &edges, &shape, &lat_b)?;
        let lon_b = by_column(&grid.lon_edges, ny + 1);
        self.put("lon_b", &edges, &shape, &lon_b)
    }

    fn time(&mut self) -> Result<()> {
        let options = self.options;
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
            codec: self.codec,
            attributes: attributes(&[
                ("units", &time.units),
                ("calendar", options.calendar.name()),
            ]),
        };
        self.group.array(spec)?.put_all(&values)
    }

    fn put(&mut self, name: &str, dims: &[&str], shape: &[usize], values: &[f64]) -> Result<()> {
        self.put_with(name, dims, shape, values, Attributes::new())
    }

    fn put_with(
        &mut self,
        name: &str,
        dims: &[&str],
        shape: &[usize],
        values: &[f64],
        attributes: Attributes,
    ) -> Result<()> {
        // The published 2-D coordinates keep the chunks of the one-degree grid.
        let limit = |dim: &str| match dim {
            "y" if dims.len() == 2 => 90,
            "x" if dims.len() == 2 => 360,
            "y_b" => 91,
            "x_b" => 361,
            _ => usize::MAX,
        };
        let chunks = std::iter::zip(dims, shape).map(|(d, n)| limit(d).min(*n));
        let chunks: Vec<usize> = chunks.collect();
        let spec = Spec {
            name,
            dims,
            shape,
            chunks: &chunks,
            inner: None,
            dtype: DType::F64,
            codec: self.codec,
            attributes,
        };
        let values = bytes(values, f64::to_ne_bytes);
        self.group.array(spec)?.put_all(&values)
    }
}

/// `mask_k (y, x)` or `wetmask (lev, y, x)`, by layout.
pub(super) fn masks(
    options: &SynthOptions,
    group: &mut GroupWriter,
    wet: &[Vec<bool>],
) -> Result<()> {
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
