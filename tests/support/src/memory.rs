//! For tests of what comes after reading: a data set in memory.

use burn_om4::dataset::{Ocean, OceanPair};
use burn_om4::ocean::{PlaneShape, PlaneSource, TimeAxis, TimeValues, WetMask};
use burn_om4::prepare::ChannelConstants;
use burn_om4::testing::{MemorySource, ocean_on};
use burn_om4::{DatasetOptions, OceanDataset, WindowOptions};
use std::sync::Arc;

/// A source of `rows` rows, two prognostic channels and one boundary channel, 2 x 3 cells, whose
/// values are `row * 100 + channel * 10 + cell`.
pub fn memory_source(rows: usize) -> MemorySource {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let shape = PlaneShape { ny: 2, nx: 3 };
    MemorySource::new(channels.into(), rows, shape, |row, channel, cell| {
        (row * 100 + channel * 10 + cell) as f32
    })
}

/// An ocean on a source: means 0, deviations 1, all cells wet, one row at each of these days.
pub fn memory_ocean(source: impl PlaneSource + 'static, days: Vec<i64>) -> burn_om4::Result<Ocean> {
    let shape = source.shape();
    let constants = ChannelConstants {
        mean: 0.0,
        std: 1.0,
        wet: Arc::new(WetMask::new(shape, vec![true; shape.cells()])?),
    };
    let constants = vec![constants; source.channels().len()];
    Ok(Ocean {
        time: TimeAxis::decode(&TimeValues::Int(days), "days since 2000-01-01", "julian")?,
        ..ocean_on(source, constants)?
    })
}

/// The channels of [`memory_source`], history 1 and this many steps.
pub fn memory_options(steps: usize) -> DatasetOptions {
    let names = |list: &[&str]| list.iter().map(|n| n.parse().unwrap()).collect();
    DatasetOptions::new(names(&["thetao_0", "zos"]), names(&["hfds"]))
        .with_window(WindowOptions::default().with_steps(steps))
}

/// A data set over one source with daily times.
pub fn try_memory_dataset(
    source: impl PlaneSource + 'static,
    steps: usize,
) -> burn_om4::Result<OceanDataset> {
    let days = (0..source.rows() as i64).collect();
    let pair = OceanPair {
        input: memory_ocean(source, days)?,
        label: None,
    };
    OceanDataset::from_oceans(vec![pair], &memory_options(steps))
}

/// As [`try_memory_dataset`], which must succeed.
pub fn memory_dataset(source: impl PlaneSource + 'static, steps: usize) -> OceanDataset {
    try_memory_dataset(source, steps).unwrap()
}
