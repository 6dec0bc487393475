//! The network: its size, fitted to channels and grid.

use burn_om4::BatchContext;
use burn_om4::ocean::{Coordinate, Grid};
use clap::ValueEnum;
use samudra::{CoordinateChannels, SamudraConfig};
use serde::Serialize;

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// Tens of thousands of parameters; learns on a CPU.
    Tiny,
    /// Samudra: widths 200 to 400.
    V1,
    /// Samudra 2: widths 280 to 520.
    V2,
    /// Samudra 2 with instance norm, for quarter degree.
    V2Highres,
}

/// Levels of the published networks, and the most that the tiny one has.
const LEVELS: usize = 4;

/// The network for what the batches of a data set hold.
///
/// The published sizes keep all but their numbers of channels. The tiny network is fitted to the
/// grid: as many of its four levels as leave at least two columns, and dilations 1, 2, 4, 8 as long
/// as circular padding does not exceed a row. It is told where a cell lies (three coordinates on the
/// unit sphere, where the grid has latitudes and longitudes, and two learned channels): without
/// this a small network on little data is a good deal worse.
pub fn config(size: Size, context: &BatchContext) -> SamudraConfig {
    let (prognostic, boundary) = (context.prognostic().len(), context.boundary().len());
    let config = match size {
        Size::Tiny => tiny(prognostic, boundary, context.grid()),
        Size::V1 => SamudraConfig::v1(),
        Size::V2 => SamudraConfig::v2(),
        Size::V2Highres => SamudraConfig::v2_highres(),
    };
    SamudraConfig {
        prognostic_vars: prognostic,
        boundary_vars: boundary,
        ..config.with_history(context.window().history)
    }
}

fn tiny(prognostic: usize, boundary: usize, grid: &Grid) -> SamudraConfig {
    let fits = |level: &usize| grid.ny() >> level >= 1 && grid.nx() >> level >= 2;
    let levels = (2..=LEVELS).rev().find(fits).unwrap_or(2);
    // A level's dilation is also used one level further down.
    let dilations = (0..levels).map(|level| (1 << level).min(grid.nx() >> (level + 1)).max(1));
    let coordinates = match sphere(grid) {
        Some(_) => CoordinateChannels::UnitSphere,
        None => CoordinateChannels::None,
    };
    SamudraConfig::new(prognostic, boundary)
        .with_widths([8, 16, 20, 24][..levels].to_vec())
        .with_dilations(dilations.collect())
        .with_positional_channels(2)
        .with_coordinates(coordinates)
}

/// The grid as the network takes it, with coordinates where rows are parallels and columns
/// meridians.
pub fn grid(grid: &Grid) -> samudra::Grid {
    let plain = samudra::Grid::new(grid.ny(), grid.nx());
    let Some((lat, lon)) = sphere(grid) else {
        return plain;
    };
    let fits = "as many latitudes as rows and longitudes as columns";
    plain.with_coordinates(&lat, &lon).expect(fits)
}

/// Latitude of every row and longitude of every column.
fn sphere(grid: &Grid) -> Option<(Vec<f64>, Vec<f64>)> {
    let (ny, nx) = (grid.ny(), grid.nx());
    let same = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let lat = match grid.latitude()? {
        Coordinate::Line(lat) => lat.clone(),
        Coordinate::Plane(lat) => {
            let rows = || lat.chunks_exact(nx);
            let level = rows().all(|row| row.iter().all(|v| same(*v, row[0])));
            level.then(|| rows().map(|row| row[0]).collect())?
        }
    };
    let lon = match grid.longitude()? {
        Coordinate::Line(lon) => lon.clone(),
        Coordinate::Plane(lon) => {
            let level = lon.iter().enumerate().all(|(i, v)| same(*v, lon[i % nx]));
            level.then(|| lon[..nx].to_vec())?
        }
    };
    (lat.len() == ny && lon.len() == nx).then_some((lat, lon))
}
