//! Statistics written as they are published: a store of means and one of standard deviations, Zarr v2,
//! consolidated, a scalar per channel.

use crate::error::{Error, ErrorKind, Result};
use crate::survey::compute::ComputedStatistics;
use crate::survey::moments::Moments;
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What to do with statistics that are there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave them, and refuse.
    #[default]
    Never,
    /// Replace them.
    Existing,
}

fn places(dir: &Path) -> [PathBuf; 2] {
    ["OM4_means.zarr", "OM4_stds.zarr"].map(|name| dir.join(name))
}

impl Overwrite {
    /// Sees whether statistics may be written into `dir`, before they are computed.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: some are there already, and are not to be replaced.
    pub fn check(self, dir: impl AsRef<Path>) -> Result<()> {
        let there = |place: &PathBuf| place.symlink_metadata().is_ok();
        match places(dir.as_ref()).into_iter().find(there) {
            Some(place) if self == Self::Never => {
                Err(Error::config("statistics are there already").store(place))
            }
            _ => Ok(()),
        }
    }
}

impl ComputedStatistics {
    /// Writes `OM4_means.zarr` and `OM4_stds.zarr` into `dir`: for each channel a scalar of `f32`, for each
    /// mask one of `f64`. Each store is written beside its place and renamed into it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: one is there already, and is not to be replaced. [`ErrorKind::Io`]: the
    /// system refuses.
    pub fn write(&self, dir: impl AsRef<Path>, overwrite: Overwrite) -> Result<()> {
        let dir = dir.as_ref();
        overwrite.check(dir)?;
        fs::create_dir_all(dir).map_err(|e| refused(dir, e))?;
        let [means, stds] = &places(dir);
        let mean = self.write_one(means, Moments::mean)?;
        let std = self.write_one(stds, Moments::std)?;
        for (written, place) in [(mean, means), (std, stds)] {
            if place.symlink_metadata().is_ok() {
                let old = beside(place, "old");
                fs::rename(place, &old).map_err(|e| refused(place, e))?;
                fs::rename(&written, place).map_err(|e| refused(place, e))?;
                fs::remove_dir_all(&old).map_err(|e| refused(&old, e))?;
            } else {
                fs::rename(&written, place).map_err(|e| refused(place, e))?;
            }
        }
        sync(dir)
    }

    /// Writes one of both beside its place.
    fn write_one(&self, place: &Path, of: fn(&Moments) -> f64) -> Result<PathBuf> {
        let root = beside(place, "new");
        match fs::remove_dir_all(&root) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(refused(&root, e)),
            _ => Ok(()),
        }?;
        let mut documents = Map::new();
        documents.insert(".zattrs".into(), json!({}));
        documents.insert(".zgroup".into(), json!({"zarr_format": 2}));
        for (channel, moments) in &self.channels {
            let bytes = (of(moments) as f32).to_le_bytes();
            scalar(&root, channel.name(), "<f4", &bytes, &mut documents)?;
        }
        for (level, moments) in &self.masks {
            let bytes = of(moments).to_le_bytes();
            scalar(
                &root,
                &format!("mask_{level}"),
                "<f8",
                &bytes,
                &mut documents,
            )?;
        }
        write_json(&root.join(".zattrs"), &documents[".zattrs"])?;
        let consolidated = json!({"metadata": documents, "zarr_consolidated_format": 1});
        write_json(&root.join(".zmetadata"), &consolidated)?;
        // Last: nothing opens as a group before.
        write_json(&root.join(".zgroup"), &json!({"zarr_format": 2}))?;
        sync(&root)?;
        Ok(root)
    }
}

/// Writes an array without dimensions.
fn scalar(
    root: &Path,
    name: &str,
    dtype: &str,
    bytes: &[u8],
    documents: &mut Map<String, Value>,
) -> Result<()> {
    let dir = root.join(name);
    fs::create_dir_all(&dir).map_err(|e| refused(&dir, e))?;
    let array = json!({
        "chunks": [], "compressor": null, "dtype": dtype, "fill_value": "NaN", "filters": null,
        "order": "C", "shape": [], "zarr_format": 2,
    });
    let attributes = json!({"_ARRAY_DIMENSIONS": []});
    for (file, document) in [(".zarray", array), (".zattrs", attributes)] {
        write_json(&dir.join(file), &document)?;
        documents.insert(format!("{name}/{file}"), document);
    }
    write(&dir.join("0"), bytes)
}

fn write_json(path: &Path, document: &Value) -> Result<()> {
    write(path, format!("{document:#}").as_bytes())
}

/// Writes a file, to the disk.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = || -> io::Result<()> {
        let mut file = fs::File::create(path)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    written().map_err(|e| refused(path, e))
}

/// What was created or renamed in a folder, to the disk; only some systems can.
fn sync(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        let opened = fs::File::open(dir).and_then(|dir| dir.sync_all());
        return opened.map_err(|e| refused(dir, e));
    }
    Ok(())
}

/// A name that nothing else has, in the same folder.
fn beside(place: &Path, what: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

fn refused(path: &Path, e: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write {}", path.display())).caused_by(e)
}
