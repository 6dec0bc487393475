//! The small ocean as OM4 stores on disk.

use super::coastlines::GRID;
use super::ocean::{Ocean, YEAR};
use anyhow::Context;
use burn_om4::synth::{Existing, Field, SynthOptions};
use burn_om4::{Channel, Date};
use std::path::Path;

/// Channels to predict.
pub const PROGNOSTIC: &str = "uo_0,vo_0,thetao_0,thetao_1,zos";
/// Channels that force them.
pub const BOUNDARY: &str = "tauuo,tauvo,hfds";
/// Rows to train on: three years.
pub const TRAIN: &str = "2001-01-01..2003-12-31";
/// Rows to validate on: the fourth year.
pub const VALIDATION: &str = "2004-01-01..2004-12-31";

/// Raise this when the values change: older stores are then written anew.
const VERSION: &str = "demo ocean 1\n";
const VERSION_FILE: &str = "DEMO_OCEAN";

const ROWS: usize = 4 * YEAR;

/// Writes the demo's `OM4.zarr`, `OM4_means.zarr` and `OM4_stds.zarr` into `dir`, unless they are
/// there already. `progress` hears the fraction done.
pub fn write_demo(dir: &Path, mut progress: impl FnMut(f32)) -> anyhow::Result<()> {
    let marker = dir.join(VERSION_FILE);
    let complete = || {
        std::fs::read_to_string(&marker).is_ok_and(|v| v == VERSION)
            && dir.join("OM4.zarr").is_dir()
    };
    if complete() {
        progress(1.0);
        return Ok(());
    }
    let (ny, nx) = GRID;
    let start = Date {
        year: 2001,
        month: 1,
        day: 3,
    };
    // Only what carries the marker is ours to replace.
    let existing = match marker.exists() {
        true => Existing::Replace,
        false => Existing::Refuse,
    };
    let options = SynthOptions::new(ny, nx)
        .with_levels(2)
        .with_rows(ROWS)
        .with_start(start)
        .with_variables(&["thetao", "uo", "vo"], &["zos", "hfds", "tauuo", "tauvo"])
        .with_existing(existing);
    let mut run = Run {
        ocean: Ocean::new(2001),
        row: 0,
        progress: &mut progress,
    };
    let written = options.write_field(dir, &mut run);
    // Another process may have written the same meanwhile: just as good.
    if written.is_err() && complete() {
        return Ok(());
    }
    written.context("writing the demo ocean")?;
    std::fs::write(&marker, VERSION).with_context(|| format!("writing {}", marker.display()))?;
    Ok(())
}

/// An [`Ocean`] that steps along as the writer asks for rows.
struct Run<'a> {
    ocean: Ocean,
    row: usize,
    progress: &'a mut dyn FnMut(f32),
}

impl Field for Run<'_> {
    fn is_ocean(&self, level: usize, y: usize, x: usize) -> bool {
        self.ocean.wet[level][y * GRID.1 + x]
    }

    fn plane(&mut self, channel: &Channel, row: usize, out: &mut [f32]) {
        while self.row < row {
            self.ocean.step();
            self.row += 1;
            (self.progress)(self.row as f32 / ROWS as f32);
        }
        out.copy_from_slice(self.ocean.plane(channel.name()));
    }
}
