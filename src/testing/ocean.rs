//! An ocean around any source.

use crate::dataset::ocean::{Ocean, OceanChannel};
use crate::error::{Error, Result};
use crate::ocean::grid::Grid;
use crate::ocean::plane::PlaneSource;
use crate::ocean::time::{TimeAxis, TimeValues};
use crate::prepare::arithmetic::ChannelConstants;
use std::sync::Arc;

/// An ocean on a source: a row a day from 2000-01-01 (`julian`), a grid without coordinates,
/// channels without units with these constants in their order, and the first channel's wet mask as
/// that of the surface. Its fields are there to be changed.
///
/// # Errors
/// Another number of constants than channels, or none.
pub fn ocean_on(
    source: impl PlaneSource + 'static,
    constants: Vec<ChannelConstants>,
) -> Result<Ocean> {
    let surface = match constants.first() {
        Some(first) if constants.len() == source.channels().len() => first.wet.clone(),
        _ => {
            return Err(Error::config("every channel needs constants")
                .expected(format!("{} of them", source.channels().len().max(1)))
                .found(constants.len()));
        }
    };
    let days = TimeValues::Int((0..source.rows() as i64).collect());
    let channels = source.channels().iter().cloned().zip(constants);
    let described = channels.map(|(channel, constants)| {
        let unit = None;
        (channel, OceanChannel { constants, unit })
    });
    Ok(Ocean {
        time: TimeAxis::decode(&days, "days since 2000-01-01", "julian")?,
        grid: Arc::new(Grid::of_shape(source.shape())),
        surface,
        warnings: Vec::new(),
        channels: described.collect(),
        planes: Arc::new(source),
    })
}
