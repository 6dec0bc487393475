//! What the arrays are called, what their attributes say, and how numbers become bytes.

use super::encode::Attributes;
use super::options::{Layout, SynthOptions};
use crate::ocean::channel::{Channel, DEPTHS};
use serde_json::json;

/// The coordinates of a variable without depth.
pub(super) const SURFACE_COORDINATES: &str = "areacello lat lon";
/// The coordinates of a variable with depth, whose levels are one array.
pub(super) const DEPTH_COORDINATES: &str = "areacello dz lat lon ocean_fraction";

impl SynthOptions {
    /// Whether a variable with depth is one array.
    pub(super) fn compact(&self) -> bool {
        matches!(self.layout, Layout::CompactLevTime | Layout::CompactTimeLev)
    }

    /// The name of a channel's array in the layouts with one array per channel.
    pub(super) fn array_name(&self, channel: &Channel) -> String {
        match (self.layout, channel.level()) {
            (Layout::FlatDepthNames, Some(level)) => {
                let depth = format!("{:?}", DEPTHS[level]).replace('.', "_");
                format!("{}_lev_{depth}", channel.variable())
            }
            _ => channel.name().into(),
        }
    }
}

pub(super) fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(k, v)| ((*k).into(), json!(v))).collect()
}

pub(super) fn bytes<const N: usize, T: Copy>(values: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut out = Vec::with_capacity(N * values.len());
    values.iter().for_each(|v| out.extend_from_slice(&of(*v)));
    out
}

/// What xarray says of a variable: its long name and units.
pub(super) fn describe(variable: &str) -> (&str, &str) {
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
