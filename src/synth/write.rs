//! Writes the three stores: beside the result first, and then into its place.

use super::coordinates::{coordinates, masks};
use super::describe::{attributes, describe};
use super::encode::{Attributes, GroupWriter};
use super::field::Field;
use super::options::{Existing, SynthOptions};
use super::planes::data;
use super::statistics::{Statistic, statistics};
use crate::error::{Error, ErrorKind, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const DATA: &str = "OM4.zarr";
const MEANS: &str = "OM4_means.zarr";
const STDS: &str = "OM4_stds.zarr";

fn write(options: &SynthOptions, dir: &Path, field: &mut dyn Field) -> Result<()> {
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
    /// Writes `OM4.zarr`, `OM4_means.zarr` and `OM4_stds.zarr` into `dir`, which is created, with
    /// the values of [`waves`](Self::waves).
    ///
    /// # Errors
    /// As [`write_field`](Self::write_field).
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<()> {
        // Before the waves are made: they take memory in proportion to the grid.
        self.check()?;
        self.write_field(dir, &mut self.waves())
    }

    /// Writes the three stores with the values of `field`.
    ///
    /// Everything is written into a hidden directory inside `dir` and moved into place at the end,
    /// `OM4.zarr` last: a writer that dies never leaves something that looks like a store.
    ///
    /// The statistics are those of the original: for each channel the mean and the population
    /// standard deviation over all rows and ocean cells of its level (level 0 for those without),
    /// NaN skipped, computed in float64, stored in float32. Those of `mask_4` are over all cells,
    /// in float64.
    ///
    /// # Errors
    /// * [`Config`](crate::ErrorKind::Config): an option out of range, options that do not go
    ///   together, or a store that is already there.
    /// * [`Io`](crate::ErrorKind::Io): the directory cannot be written.
    pub fn write_field(&self, dir: impl AsRef<Path>, field: &mut dyn Field) -> Result<()> {
        self.check()?;
        write(self, dir.as_ref(), field).map_err(|e| e.store(dir.as_ref()))
    }

    fn group(&self, root: PathBuf) -> GroupWriter {
        GroupWriter::new(root, self.format, self.separator, self.consolidation)
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
