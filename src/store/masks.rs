//! Wet masks: which cells of each level are ocean.
//!
//! `mask_k (y, x)` masks level `k`; a store without `mask_0` may have `wetmask (level, y, x)`
//! instead. Any number type will do: 1 is wet and 0 is dry. A missing value (NaN, or what the mask's
//! metadata names) is no statement that a cell is wet, so it counts as dry. Other values are an error,
//! or in lenient mode wet. A mask with a time axis is taken at its first row.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::PlaneShape;
use crate::options::Strictness;
use crate::store::array_names::MOST_LEVELS;
use crate::store::axes::{Axis, axes_of};
use crate::store::grid::check_plane;
use crate::store::opening::Opening;
use crate::store::options::OpenOptions;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::small_array::Numbers;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The wet masks of a store, by level.
#[derive(Clone, Debug)]
pub struct WetMasks {
    path: PathBuf,
    levels: BTreeMap<usize, Arc<WetMask>>,
    warnings: Vec<String>,
}

impl WetMasks {
    /// Reads the masks of a store that need not have anything else: no time, no channels.
    ///
    /// # Errors
    /// No group, no mask, a mask that is not `(y, x)` or `(level, y, x)`, or of another extent than
    /// the others; in strict mode, one with other values than 0, 1 and missing ones.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let group = ZarrGroup::open(path.as_ref(), options.limits)?;
        let masks = Self::read(&group, None, options)?;
        if masks.levels.is_empty() {
            return Err(masks.absent(0));
        }
        Ok(masks)
    }

    /// Reads the masks of a group; none is no error here.
    pub(crate) fn read(
        group: &ZarrGroup,
        shape: Option<PlaneShape>,
        options: &OpenOptions,
    ) -> Result<Self> {
        // Those of the group itself are for whoever opened it.
        let mut opening = Opening {
            group,
            options,
            warnings: Vec::new(),
        };
        let mut levels = BTreeMap::new();
        let mut shape = shape;
        // Levels whose masks are asked for; of the others, what is wrong is a warning.
        let wanted = |level: usize| {
            let channels = options.channels.as_ref();
            channels.map(|w| level == 0 || w.iter().any(|c| c.mask_level() == level))
        };
        if group.first_of(&["mask_0"])?.is_some() {
            for (name, why) in &group.unusable {
                let level = flat_mask_level(name);
                if level.is_some_and(|l| wanted(l).unwrap_or(why.kind() == ErrorKind::Io)) {
                    return Err(why.again());
                }
            }
            for meta in group.arrays.values() {
                let Some(level) = flat_mask_level(&meta.name) else {
                    continue;
                };
                match read_flat(&mut opening, meta, &mut shape) {
                    Ok(mask) => drop(levels.insert(level, mask)),
                    Err(e) if wanted(level) == Some(false) => {
                        opening.warnings.push(format!("not used: {e}"));
                    }
                    Err(e) => return Err(e),
                }
            }
        } else if let Some(meta) = group.first_of(&["wetmask"])? {
            let planes = read_planes(&mut opening, meta, &mut shape)?;
            levels.extend(planes.into_iter().enumerate());
        }
        Ok(Self {
            path: group.storage.root().to_owned(),
            levels,
            warnings: opening.warnings,
        })
    }

    /// The mask of a level (counted from 0 at the surface).
    ///
    /// # Errors
    /// The store has no mask for this level.
    pub fn level(&self, level: usize) -> Result<Arc<WetMask>> {
        self.levels
            .get(&level)
            .cloned()
            .ok_or_else(|| self.absent(level))
    }

    /// The mask of a prognostic channel: its own level's, or the surface's.
    ///
    /// # Errors
    /// The store has no mask for that level.
    pub fn of(&self, channel: &Channel) -> Result<Arc<WetMask>> {
        self.level(channel.mask_level())
    }

    /// The mask of a channel's own level, or else that of the surface, if there is any.
    pub(crate) fn own_or_surface(&self, channel: &Channel) -> Option<&WetMask> {
        let own = self.levels.get(&channel.mask_level());
        own.or_else(|| self.levels.get(&0)).map(Arc::as_ref)
    }

    /// Levels that have a mask, ascending.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.levels.keys().copied()
    }

    /// Warnings, such as NaN cells taken as dry.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn absent(&self, level: usize) -> Error {
        let found = match (self.levels.keys().next(), self.levels.keys().next_back()) {
            (Some(first), Some(last)) => format!("masks of levels {first} to {last}"),
            _ => "no mask".to_owned(),
        };
        Error::new(ErrorKind::Metadata, "no wet mask for this level")
            .store(&self.path)
            .expected(format!("mask_{level}, or wetmask with that level"))
            .found(found)
    }
}

/// The plane of a mask of one level.
fn read_flat(
    opening: &mut Opening<'_>,
    meta: &ArrayMeta,
    shape: &mut Option<PlaneShape>,
) -> Result<Arc<WetMask>> {
    match <[_; 1]>::try_from(read_planes(opening, meta, shape)?) {
        Ok([mask]) => Ok(mask),
        Err(_) => Err(opening
            .group
            .error(ErrorKind::Metadata, &meta.name, "a flat mask has levels")
            .expected("(y, x)")
            .found(format!("{:?}", meta.shape))),
    }
}

/// The planes of one mask array, one per level (or one).
fn read_planes(
    opening: &mut Opening<'_>,
    meta: &ArrayMeta,
    shape: &mut Option<PlaneShape>,
) -> Result<Vec<Arc<WetMask>>> {
    let axes = mask_axes(opening, meta)?;
    let plane = check_plane(opening.group, meta, shape)?;
    let part: Vec<Range<u64>> = std::iter::zip(&axes, &meta.shape)
        .map(|(axis, extent)| 0..if *axis == Axis::Time { 1 } else { *extent })
        .collect();
    let values = opening.read_part(meta, &part)?;
    let wet = to_wet(values, opening, meta)?;
    wet.chunks_exact(plane.ny * plane.nx)
        .map(|cells| WetMask::new(plane, cells.to_vec()).map(Arc::new))
        .collect()
}

/// No field of the ocean, in any unit it is stored in, comes near it.
const EXTREME: f32 = 1e15;

/// How a plane's values agree with its wet mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MaskReport {
    /// Wet cells whose value is NaN: the model would see the mean there.
    pub nan_in_ocean: usize,
    /// Dry cells whose value is finite: the mask alone hides them.
    pub finite_on_land: usize,
    /// Cells, wet or dry, whose value is infinite.
    pub infinite: usize,
    /// Wet cells whose finite value is beyond any measurement (1e15 or more), as missing values are
    /// that nothing names.
    pub extreme_in_ocean: usize,
    /// Wet cells.
    pub wet: usize,
}

impl MaskReport {
    /// Whether every wet cell has a plausible value and every dry one none.
    pub fn is_clean(&self) -> bool {
        let Self {
            nan_in_ocean,
            finite_on_land,
            infinite,
            extreme_in_ocean,
            wet: _,
        } = *self;
        nan_in_ocean + finite_on_land + infinite + extreme_in_ocean == 0
    }

    pub(crate) fn of(values: &[f32], mask: &WetMask) -> Self {
        let mut report = Self::default();
        for (value, wet) in std::iter::zip(values, mask.as_slice()) {
            report.wet += usize::from(*wet);
            report.nan_in_ocean += usize::from(*wet && value.is_nan());
            report.finite_on_land += usize::from(!wet && value.is_finite());
            report.infinite += usize::from(value.is_infinite());
            let extreme = value.is_finite() && value.abs() >= EXTREME;
            report.extreme_in_ocean += usize::from(*wet && extreme);
        }
        report
    }
}

/// The level of `mask_3`.
fn flat_mask_level(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("mask_")?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Whether an array of this name is a mask.
pub(crate) fn is_mask(name: &str) -> bool {
    name == "wetmask" || flat_mask_level(name).is_some()
}

fn mask_axes(opening: &Opening<'_>, meta: &ArrayMeta) -> Result<Vec<Axis>> {
    use Axis::{Level, Time, X, Y};
    let group = opening.group;
    let axes = match (&meta.dims, meta.shape.len()) {
        (Some(_), _) => axes_of(meta, opening.options.time()),
        (None, 2) => Some(vec![Y, X]),
        (None, 3) => Some(vec![Level, Y, X]),
        (None, _) => None,
    };
    let known: [&[Axis]; 5] = [
        &[Y, X],
        &[Level, Y, X],
        &[Time, Y, X],
        &[Time, Level, Y, X],
        &[Level, Time, Y, X],
    ];
    let axes = axes.filter(|a| known.contains(&a.as_slice()));
    let axes = axes.ok_or_else(|| {
        group
            .error(
                ErrorKind::Metadata,
                &meta.name,
                "not the dimensions of a mask",
            )
            .expected("(y, x) or (level, y, x), by known names")
            .found(format!("{:?} {:?}", meta.dims, meta.shape))
    })?;
    if meta.shape.contains(&0) {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "a mask is empty")
            .found(format!("{:?}", meta.shape)));
    }
    let level = axes.iter().position(|a| *a == Axis::Level);
    if let Some(levels) = level.map(|axis| meta.shape[axis])
        && levels > MOST_LEVELS
    {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "impossibly many levels")
            .expected(format!("at most {MOST_LEVELS}"))
            .found(levels));
    }
    Ok(axes)
}

/// 1 is wet, 0 and NaN are dry.
///
/// # Errors
/// Other values, in strict mode; a lenient opening has a warning of them, and they are wet.
fn to_wet(values: Numbers, opening: &mut Opening<'_>, meta: &ArrayMeta) -> Result<Vec<bool>> {
    let values = match values {
        Numbers::Bool(wet) => return Ok(wet),
        other => other.into_f64(),
    };
    let name = &meta.name;
    let missing = values.iter().filter(|x| x.is_nan()).count();
    if missing > 0 {
        let line = format!("mask {name}: {missing} missing cells (NaN) count as dry");
        opening.warnings.push(line);
    }
    let mut others: Vec<f64> = Vec::new();
    for value in &values {
        let known = *value == 0.0 || *value == 1.0 || value.is_nan() || others.contains(value);
        if !known && others.len() < NAMED_VALUES {
            others.push(*value);
        }
    }
    if !others.is_empty() {
        let error = opening
            .group
            .error(ErrorKind::Values, name, "a mask holds more than wet and dry")
            .expected("1 where wet, 0 where dry, and missing values that _FillValue or missing_value names")
            .found(format!("{others:?} as well"));
        match opening.options.strictness {
            Strictness::Strict => return Err(error),
            Strictness::Lenient => opening.warnings.push(format!("{error}: taken as wet")),
        }
    }
    Ok(values.iter().map(|x| *x != 0.0 && !x.is_nan()).collect())
}

/// How many wrong values of a mask are listed.
const NAMED_VALUES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_make_a_mask_of_a_level() {
        assert_eq!(flat_mask_level("mask_12"), Some(12));
        assert!(!is_mask("mask_") && !is_mask("mask_a") && !is_mask("mask"));
        assert!(is_mask("wetmask"));
    }

    #[test]
    fn a_report_tells_ocean_from_land() {
        let shape = PlaneShape { ny: 1, nx: 6 };
        let mask = WetMask::new(shape, vec![true, true, true, false, false, true]).unwrap();
        let values = [1.0, f32::NAN, f32::INFINITY, 7.0, f32::NAN, 1e20];
        let report = MaskReport::of(&values, &mask);
        assert_eq!(
            report,
            MaskReport {
                nan_in_ocean: 1,
                finite_on_land: 1,
                infinite: 1,
                extreme_in_ocean: 1,
                wet: 4
            }
        );
        assert!(!report.is_clean());
        let mask = WetMask::new(shape, vec![true, false, true, true, false, true]).unwrap();
        assert!(MaskReport::of(&[1.0, f32::NAN, 0.0, 7.0, f32::NAN, -1.0], &mask).is_clean());
    }
}
