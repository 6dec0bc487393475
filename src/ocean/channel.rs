//! Channels: what the fields of an OM4 store are called, in every layout, and the usual sets of them.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Depth of the centre of each OM4 level, metres.
pub const DEPTHS: [f64; 19] = [
    2.5, 10.0, 22.5, 40.0, 65.0, 105.0, 165.0, 250.0, 375.0, 550.0, 775.0, 1050.0, 1400.0, 1850.0,
    2400.0, 3100.0, 4000.0, 5000.0, 6000.0,
];

/// Thickness of each OM4 level, metres.
pub const THICKNESSES: [f64; 19] = [
    5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0, 150.0, 200.0, 250.0, 300.0, 400.0, 500.0,
    600.0, 800.0, 1000.0, 1000.0, 1000.0,
];

/// One 2-D field per time, by its canonical name: `thetao_4` is level 4 of `thetao`, `zos` has no
/// level. The name is the same whichever layout the store has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Channel {
    name: String,
}

impl Channel {
    /// Level `level` (counted from 0 at the surface) of a variable with depth.
    pub fn at_level(variable: &str, level: usize) -> Self {
        Self {
            name: format!("{variable}_{level}"),
        }
    }

    /// The canonical name, such as `thetao_4` or `zos`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name without its level: `thetao` for `thetao_4`, `zos` for `zos`.
    pub fn variable(&self) -> &str {
        match self.split() {
            Some((variable, _)) => variable,
            None => &self.name,
        }
    }

    /// The level, where the name has one.
    pub fn level(&self) -> Option<usize> {
        self.split().map(|(_, level)| level)
    }

    /// The level whose wet mask applies to this channel as a prognostic one: its own, or 0.
    pub fn mask_level(&self) -> usize {
        self.level().unwrap_or(0)
    }

    fn split(&self) -> Option<(&str, usize)> {
        let (variable, digits) = self.name.rsplit_once('_')?;
        let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        match digits.parse() {
            Ok(level) if all_digits && !variable.is_empty() => Some((variable, level)),
            _ => None,
        }
    }
}

impl From<Channel> for String {
    fn from(channel: Channel) -> Self {
        channel.name
    }
}

impl TryFrom<String> for Channel {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Channel {
    type Err = Error;

    /// Reads a canonical name (`thetao_4`, `zos`, `insolation`).
    ///
    /// # Errors
    /// An empty name, or one with characters that no Zarr array name of these stores has.
    fn from_str(name: &str) -> Result<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(Error::config("not a channel name")
                .expected("letters, digits, `_` or `-`")
                .found(format!("`{name}`")));
        }
        Ok(Self { name: name.into() })
    }
}

/// The sets of channels that the original training runs use, by name.
///
/// Prognostic: `thetao_1`, `thermo_dynamic_5`, `thermo_dynamic_all`, `thermo_all`.
/// Boundary: `hfds`, `tau_hfds`, `tau_hfds_hfds_anom`.
pub const PRESETS: [&str; 7] = [
    "thetao_1",
    "thermo_dynamic_5",
    "thermo_dynamic_all",
    "thermo_all",
    "hfds",
    "tau_hfds",
    "tau_hfds_hfds_anom",
];

/// The channels of a preset, in its order; `None` when no preset has that name.
///
/// ```
/// let all = burn_om4::preset("thermo_dynamic_all").unwrap();
/// assert_eq!(all.len(), 77);
/// assert_eq!((all[0].name(), all[76].name()), ("uo_0", "zos"));
/// ```
pub fn preset(name: &str) -> Option<Vec<Channel>> {
    let levels = |variables: &[&str], n: usize, surface: &[&str]| {
        let deep = variables
            .iter()
            .flat_map(|v| (0..n).map(|k| Channel::at_level(v, k)));
        deep.chain(surface.iter().map(|v| Channel { name: (*v).into() }))
            .collect()
    };
    Some(match name {
        "thetao_1" => levels(&["thetao"], 1, &[]),
        "thermo_dynamic_5" => levels(&["uo", "vo", "thetao", "so"], 5, &["zos"]),
        "thermo_dynamic_all" => levels(&["uo", "vo", "thetao", "so"], 19, &["zos"]),
        "thermo_all" => levels(&["thetao", "so"], 19, &["zos"]),
        "hfds" => levels(&[], 0, &["hfds"]),
        "tau_hfds" => levels(&[], 0, &["tauuo", "tauvo", "hfds"]),
        "tau_hfds_hfds_anom" => levels(&[], 0, &["tauuo", "tauvo", "hfds", "hfds_anomalies"]),
        _ => return None,
    })
}

/// Reads a preset's name or a comma-separated list of channels; the order is kept.
///
/// `thetao_1` alone names the preset (the surface temperature, `thetao_0`), as in the original.
/// Write `thetao_1,` with a comma for level 1 alone.
///
/// # Errors
/// No channel, a malformed name, or the same channel twice.
pub fn parse_channels(text: &str) -> Result<Vec<Channel>> {
    if let Some(channels) = preset(text.trim()) {
        return Ok(channels);
    }
    let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
    let channels: Vec<Channel> = names.map(Channel::from_str).collect::<Result<_>>()?;
    check_channels(&channels)?;
    Ok(channels)
}

/// Refuses an empty list and duplicates.
pub(crate) fn check_channels(channels: &[Channel]) -> Result<()> {
    if channels.is_empty() {
        return Err(Error::config("the list of channels is empty"));
    }
    for (i, channel) in channels.iter().enumerate() {
        if channels[..i].contains(channel) {
            return Err(Error::config("a channel is named twice").found(channel));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_from_trailing_digits_only() {
        let c: Channel = "thetao_12".parse().unwrap();
        assert_eq!(
            (c.variable(), c.level(), c.mask_level()),
            ("thetao", Some(12), 12)
        );
        let c: Channel = "hfds_anomalies".parse().unwrap();
        assert_eq!(
            (c.variable(), c.level(), c.mask_level()),
            ("hfds_anomalies", None, 0)
        );
        let c: Channel = "_3".parse().unwrap();
        assert_eq!(c.level(), None);
    }

    #[test]
    fn lists_keep_their_order_and_refuse_duplicates() {
        let names = |t: &str| -> Vec<String> {
            parse_channels(t)
                .unwrap()
                .iter()
                .map(|c| c.to_string())
                .collect()
        };
        assert_eq!(names("zos, so_3"), ["zos", "so_3"]);
        assert_eq!(names("thetao_1"), ["thetao_0"]);
        assert_eq!(names("thetao_1,"), ["thetao_1"]);
        assert!(
            parse_channels("zos,so_3,zos")
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
        assert!(parse_channels(" , ").is_err());
        assert!(parse_channels("a/b").is_err());
    }

    #[test]
    fn presets_have_the_published_sizes() {
        let sizes = PRESETS.map(|p| preset(p).unwrap().len());
        assert_eq!(sizes, [1, 21, 77, 39, 1, 3, 4]);
        for p in PRESETS {
            check_channels(&preset(p).unwrap()).unwrap();
        }
        assert!(preset("nope").is_none());
    }
}
