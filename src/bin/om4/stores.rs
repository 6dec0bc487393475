//! The stores of the bench: real geometry, one of each form, written once.

use crate::output;
use anyhow::{Context, Result, bail};
use burn_om4::synth::{Chunking, Codec, Format, Layout, SynthOptions};
use serde::Serialize;
use std::path::{Path, PathBuf};

pub(crate) const NY: usize = 180;
pub(crate) const NX: usize = 360;
pub(crate) const LEVELS: usize = 19;
pub(crate) const PLANE_BYTES: usize = NY * NX * 4;
/// Rows in a shard.
pub(crate) const SHARD: usize = 4;

/// Variables with depth and without, as the store orders its channels: by name.
pub(crate) const DEEP: [&str; 4] = ["so", "thetao", "uo", "vo"];
pub(crate) const SURFACE: [&str; 4] = ["hfds", "tauuo", "tauvo", "zos"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    Flat,
    Compact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Compression {
    None,
    Blosc,
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Container {
    V2,
    V3,
    Sharded,
}

/// One form of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub form: Form,
    pub compression: Compression,
    pub container: Container,
    pub rows: usize,
}

impl Case {
    /// Reads `flat-blosc-v2` and the like.
    pub(crate) fn parse(name: &str, rows: usize) -> Result<Self> {
        let parts: Vec<&str> = name.split('-').collect();
        let [form, compression, container] = parts[..] else {
            bail!("`{name}` is not form-compression-container");
        };
        Ok(Self {
            form: match form {
                "flat" => Form::Flat,
                "compact" => Form::Compact,
                _ => bail!("`{form}` is neither flat nor compact"),
            },
            compression: match compression {
                "none" => Compression::None,
                "blosc" => Compression::Blosc,
                "zstd" => Compression::Zstd,
                _ => bail!("`{compression}` is not none, blosc or zstd"),
            },
            container: match container {
                "v2" => Container::V2,
                "v3" => Container::V3,
                "sharded" => Container::Sharded,
                _ => bail!("`{container}` is not v2, v3 or sharded"),
            },
            rows,
        })
    }

    /// Writes the store unless it is there, and says where.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> Result<PathBuf> {
        let dir = dir.join(format!("{name}-{}", self.rows));
        if dir.join("OM4.zarr").is_dir() {
            return Ok(dir);
        }
        output::say(&format!("writing {}", dir.display()));
        let options = SynthOptions::new(NY, NX)
            .with_levels(LEVELS)
            .with_rows(self.rows)
            .with_layout(match self.form {
                Form::Flat => Layout::Flat,
                Form::Compact => Layout::CompactLevTime,
            })
            .with_format(match self.container {
                Container::V2 => Format::V2,
                Container::V3 | Container::Sharded => Format::V3,
            })
            .with_codec(match self.compression {
                Compression::None => Codec::None,
                Compression::Blosc => Codec::BloscLz4,
                Compression::Zstd => Codec::Zstd,
            })
            .with_chunking(match self.container {
                Container::Sharded => Chunking::Shards(SHARD),
                _ => Chunking::OneRow,
            });
        options.write(&dir).context("cannot write a store")?;
        Ok(dir)
    }

    /// Every array with the number of its planes in a row.
    pub(crate) fn arrays(&self) -> Vec<(String, usize)> {
        let mut arrays = Vec::new();
        for name in DEEP {
            match self.form {
                Form::Flat => arrays.extend((0..LEVELS).map(|k| (format!("{name}_{k}"), 1))),
                Form::Compact => arrays.push((name.to_owned(), LEVELS)),
            }
        }
        arrays.extend(SURFACE.map(|name| (name.to_owned(), 1)));
        arrays
    }

    /// The chunk files that hold `rows` (a whole number of shards, where there are shards).
    pub(crate) fn files(&self, store: &Path, rows: std::ops::Range<usize>) -> Vec<ChunkFile> {
        let sharded = self.container == Container::Sharded;
        let step = if sharded { SHARD } else { 1 };
        let arrays = self.arrays();
        let mut files = Vec::new();
        for row in rows.step_by(step) {
            for (name, levels) in &arrays {
                let time = row / step;
                let indices = match (self.form, *levels) {
                    (Form::Compact, n) if n > 1 => format!("0/{time}/0/0"),
                    _ => format!("{time}/0/0"),
                };
                let key = match self.container {
                    Container::V2 => format!("{name}/{}", indices.replace('/', ".")),
                    Container::V3 | Container::Sharded => format!("{name}/c/{indices}"),
                };
                let planes = levels * step;
                files.push(ChunkFile {
                    path: store.join("OM4.zarr").join(key),
                    planes,
                    sharded,
                });
            }
        }
        files
    }
}

/// One file and the planes in it.
#[derive(Clone, Debug)]
pub(crate) struct ChunkFile {
    pub path: PathBuf,
    pub planes: usize,
    /// Whether the planes are inner chunks of a shard, with an index at the end.
    pub sharded: bool,
}
