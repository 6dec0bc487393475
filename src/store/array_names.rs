//! From array names to channels: `thetao_4`, the older `thetao_lev_65_0`, or `thetao` with levels.

use crate::error::{ErrorKind, Result};
use crate::ocean::channel::{Channel, DEPTHS};
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;

/// Whether an array holds one channel or one per level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Levels {
    Single,
    Levels(u64),
}

/// More levels than any ocean model has: a damaged shape must not decide how much to allocate.
pub(crate) const MOST_LEVELS: u64 = 10_000;

/// The channels an array holds, in the order of its levels.
///
/// # Errors
/// A name that no channel can have, a depth that is no OM4 level, or a name that already says a
/// level on an array that has levels.
pub(crate) fn resolve(group: &ZarrGroup, meta: &ArrayMeta, shape: Levels) -> Result<Vec<Channel>> {
    let error = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
    let plain: Channel = meta
        .name
        .parse()
        .map_err(|e: crate::Error| error("no channel can have this name").caused_by(e))?;
    let older = older_name(&meta.name);
    match shape {
        Levels::Levels(n) => {
            if plain.level().is_some() {
                return Err(error("an array with levels has a level in its name")
                    .expected("a name without digits at its end")
                    .found(&meta.name));
            }
            if n > MOST_LEVELS {
                return Err(error("an array has impossibly many levels")
                    .expected(format!("at most {MOST_LEVELS}"))
                    .found(n));
            }
            let levels = 0..n as usize;
            Ok(levels.map(|k| Channel::at_level(&meta.name, k)).collect())
        }
        Levels::Single => match older {
            None => Ok(vec![plain]),
            Some((variable, depth)) => {
                let level = DEPTHS.iter().position(|d| *d == depth).ok_or_else(|| {
                    error("the depth in the name is no OM4 level")
                        .expected(format!("one of {DEPTHS:?} m"))
                        .found(format!("{depth} m"))
                })?;
                Ok(vec![Channel::at_level(variable, level)])
            }
        },
    }
}

/// Whether an array of this name could hold a channel, in any layout.
pub(crate) fn may_hold(name: &str, channel: &Channel) -> bool {
    let older = name
        .strip_prefix(channel.variable())
        .is_some_and(|rest| rest.starts_with("_lev_"));
    older || name == channel.name() || name == channel.variable()
}

/// Variable and depth of an older name: `("thetao", 2.5)` for `thetao_lev_2_5`.
fn older_name(name: &str) -> Option<(&str, f64)> {
    let (variable, depth) = name.split_once("_lev_")?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = depth.split_once('_').unwrap_or((depth, "0"));
    if variable.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let depth = format!("{whole}.{fraction}").parse().ok()?;
    Some((variable, depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_names_carry_their_depth() {
        assert_eq!(older_name("thetao_lev_2_5"), Some(("thetao", 2.5)));
        assert_eq!(older_name("so_lev_1050_0"), Some(("so", 1050.0)));
        assert_eq!(older_name("so_lev_40"), Some(("so", 40.0)));
        assert_eq!(older_name("so_4"), None);
        assert_eq!(older_name("so_lev_"), None);
        assert_eq!(older_name("so_lev_a_b"), None);
    }
}
