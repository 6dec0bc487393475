//! Means and standard deviations by channel, from a pair of stores.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::options::Strictness;
use crate::store::array_names::{Levels, may_hold, resolve};
use crate::store::axes::LEVEL_NAMES;
use crate::store::depths;
use crate::store::opening::Opening;
use crate::store::options::OpenOptions;
use crate::zarr::group::ZarrGroup;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What normalises one channel: `(value - mean) / std`, in the channel's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelStats {
    /// Mean over wet cells and training times.
    pub mean: f32,
    /// Population standard deviation over the same.
    pub std: f32,
}

/// Means and standard deviations of a set of channels, found by name.
#[derive(Clone, Debug)]
pub struct Statistics {
    means: Table,
    stds: Table,
    strictness: Strictness,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Table {
    path: Option<PathBuf>,
    what: &'static str,
    values: BTreeMap<Channel, f32>,
}

impl Statistics {
    /// Opens a pair of stores such as `OM4_means.zarr` and `OM4_stds.zarr`.
    ///
    /// Each holds scalars (`thetao_4`, or the older `thetao_lev_65_0`) or values per level
    /// (`thetao (lev)`), `f32` or `f64`; an `f64` is rounded to `f32`. The two may differ in layout
    /// and format.
    ///
    /// # Errors
    /// No group, an array that cannot be read, levels that do not run from the surface down, or a
    /// channel that is there twice. With
    /// [`OpenOptions::channels`], also what [`Statistics::get`] says about one of them.
    pub fn open(
        means: impl AsRef<Path>,
        stds: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let mut warnings = Vec::new();
        let mut table = |path: &Path, what| {
            let group = ZarrGroup::open(path, options.limits)?;
            let mut opening = Opening::new(&group, options);
            let table = Table::read(&mut opening, what)?;
            warnings.append(&mut opening.warnings);
            Ok::<_, Error>(table)
        };
        let statistics = Self {
            means: table(means.as_ref(), "mean")?,
            stds: table(stds.as_ref(), "standard deviation")?,
            strictness: options.strictness,
            warnings,
        };
        if let Some(channels) = &options.channels {
            statistics.select(channels)?;
        }
        Ok(statistics)
    }

    /// Statistics that were computed rather than read.
    pub fn from_values(
        values: impl IntoIterator<Item = (Channel, ChannelStats)>,
        strictness: Strictness,
    ) -> Self {
        let table = |what| Table {
            path: None,
            what,
            values: BTreeMap::new(),
        };
        let (mut means, mut stds) = (table("mean"), table("standard deviation"));
        for (channel, stats) in values {
            means.values.insert(channel.clone(), stats.mean);
            stds.values.insert(channel, stats.std);
        }
        Self {
            means,
            stds,
            strictness,
            warnings: Vec::new(),
        }
    }

    /// The statistics of a channel.
    ///
    /// # Errors
    /// The channel is not there, or its standard deviation is negative or infinite. In strict mode
    /// also: a mean that is not finite, a standard deviation that is zero or NaN.
    pub fn get(&self, channel: &Channel) -> Result<ChannelStats> {
        let stats = ChannelStats {
            mean: self.means.get(channel)?,
            std: self.stds.get(channel)?,
        };
        let strict = self.strictness == Strictness::Strict;
        let bad_std = stats.std < 0.0 || stats.std.is_infinite();
        if bad_std || (strict && (stats.std.is_nan() || stats.std <= 0.0)) {
            return Err(self
                .stds
                .unusable(channel, "finite and above zero", stats.std));
        }
        if strict && !stats.mean.is_finite() {
            return Err(self.means.unusable(channel, "finite", stats.mean));
        }
        Ok(stats)
    }

    /// The statistics of several channels, in their order.
    ///
    /// # Errors
    /// As [`Statistics::get`], for the first channel that fails.
    pub fn select(&self, channels: &[Channel]) -> Result<Vec<ChannelStats>> {
        channels.iter().map(|channel| self.get(channel)).collect()
    }

    /// Channels that have both a mean and a standard deviation, usable or not, in name order.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        let both = |channel: &&Channel| self.stds.values.contains_key(*channel);
        self.means.values.keys().filter(both)
    }

    /// Warnings, such as stale consolidated metadata.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl Table {
    fn read(opening: &mut Opening<'_>, what: &'static str) -> Result<Self> {
        let group = opening.group;
        let mut values = BTreeMap::new();
        let mut by_level = false;
        for (name, why) in &group.unusable {
            let wanted = opening.options.channels.as_ref();
            let asked = |w: &Vec<Channel>| w.iter().any(|c| may_hold(name, c));
            if wanted.map_or(why.kind() == ErrorKind::Io, asked) {
                return Err(why.again());
            }
        }
        for meta in group.arrays.values() {
            let shape = match meta.shape[..] {
                [] => Levels::Single,
                [n] => Levels::Levels(n),
                _ => continue,
            };
            // Coordinates (`lev`) stand beside the statistics; they are not normalised.
            let of_itself = meta.dims.as_deref() == Some(std::slice::from_ref(&meta.name));
            let level = LEVEL_NAMES.contains(&meta.name.as_str());
            if of_itself || level || !meta.dtype_name().starts_with("float") {
                continue;
            }
            let channels = match resolve(group, meta, shape) {
                Ok(channels) => channels,
                Err(e) => {
                    opening.warnings.push(format!("ignored: {e}"));
                    continue;
                }
            };
            let wanted = opening.options.channels.as_ref();
            if wanted.is_some_and(|w| !channels.iter().any(|c| w.contains(c))) {
                continue;
            }
            by_level |= matches!(shape, Levels::Levels(_));
            let numbers = opening.read(meta)?;
            for (channel, value) in std::iter::zip(channels, numbers.into_f64()) {
                if values.insert(channel.clone(), value as f32).is_some() {
                    return Err(group
                        .error(
                            ErrorKind::Metadata,
                            &meta.name,
                            format!("a {what} is there twice"),
                        )
                        .found(channel));
                }
            }
        }
        depths::read(opening, by_level)?;
        Ok(Self {
            path: Some(group.storage.root().to_owned()),
            what,
            values,
        })
    }

    fn get(&self, channel: &Channel) -> Result<f32> {
        self.values.get(channel).copied().ok_or_else(|| {
            self.place(Error::new(
                ErrorKind::Metadata,
                format!("no {} for channel {channel}", self.what),
            ))
            .array(channel.name())
        })
    }

    fn unusable(&self, channel: &Channel, expected: &str, found: f32) -> Error {
        self.place(Error::new(
            ErrorKind::Values,
            format!("the {} of channel {channel} cannot normalise", self.what),
        ))
        .array(channel.name())
        .expected(expected)
        .found(found)
    }

    fn place(&self, e: Error) -> Error {
        match &self.path {
            Some(path) => e.store(path),
            None => e,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(mean: f32, std: f32, strictness: Strictness) -> Result<ChannelStats> {
        let zos: Channel = "zos".parse().unwrap();
        let stats = ChannelStats { mean, std };
        Statistics::from_values([(zos.clone(), stats)], strictness).get(&zos)
    }

    #[test]
    fn strict_mode_refuses_what_cannot_normalise() {
        for std in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let e = stats(0.0, std, Strictness::Strict).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Values);
            assert!(e.to_string().contains("zos"), "{e}");
        }
        assert!(stats(f32::NAN, 1.0, Strictness::Strict).is_err());
        assert_eq!(stats(2.0, 3.0, Strictness::Strict).unwrap().std, 3.0);
    }

    #[test]
    fn lenient_mode_allows_what_the_original_allows() {
        assert_eq!(stats(1.0, 0.0, Strictness::Lenient).unwrap().std, 0.0);
        assert!(stats(1.0, f32::NAN, Strictness::Lenient).is_ok());
        assert!(stats(1.0, -1.0, Strictness::Lenient).is_err());
    }
}
