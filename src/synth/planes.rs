//! The data variables: asks the field for planes, cuts chunks, and sums up the moments.

use super::describe::{DEPTH_COORDINATES, SURFACE_COORDINATES, attributes, bytes, describe};
use super::encode::{DType, GroupWriter, Spec, Writer};
use super::field::Field;
use super::moments::Moments;
use super::options::{Chunking, Land, Layout, SynthOptions};
use crate::error::Result;
use crate::ocean::channel::Channel;
use rayon::prelude::*;
use std::ops::Range;

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
pub(super) fn data(
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
