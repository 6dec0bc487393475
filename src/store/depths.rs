//! The level coordinate: level 0 must be the one at the surface.

use crate::error::{ErrorKind, Result};
use crate::ocean::grid::check_depths;
use crate::options::Strictness;
use crate::store::array_names::MOST_LEVELS;
use crate::store::axes::LEVEL_NAMES;
use crate::store::opening::Opening;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::small_array::SmallArray;
use std::slice::from_ref;

/// Reads the level coordinates and sees that each runs from the surface down, whatever `positive` says;
/// the first of them.
///
/// Where no level is `wanted`, one that cannot be read is a warning.
///
/// # Errors
/// [`ErrorKind::Values`]: levels that do not run from the surface down.
pub(crate) fn read(opening: &mut Opening<'_>, wanted: bool) -> Result<Option<Vec<f64>>> {
    let group = opening.group;
    let mut first = None;
    for name in LEVEL_NAMES {
        match read_one(opening, name) {
            Ok(Some(depths)) => {
                check_depths(&depths).map_err(|e| e.store(group.storage.root()).array(name))?;
                first = first.or(Some(depths));
            }
            Ok(None) => {}
            Err(e) if !wanted => {
                opening.warnings.push(format!("levels are not known: {e}"));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(first)
}

fn read_one(opening: &mut Opening<'_>, name: &str) -> Result<Option<Vec<f64>>> {
    let group = opening.group;
    let Some(meta) = group.first_of(&[name])? else {
        return Ok(None);
    };
    if !is_coordinate(meta) {
        return Ok(None);
    }
    let found = meta.shape[0];
    if found > MOST_LEVELS {
        return Err(group
            .error(ErrorKind::Metadata, name, "impossibly many levels")
            .expected(format!("at most {MOST_LEVELS}"))
            .found(found));
    }
    // One that is not there is the fill value, as for every reader: a level at 0 is often not written.
    let read = SmallArray::read(group, meta, from_ref(&(0..found)), Strictness::Lenient)?;
    opening.warnings.extend(read.absent);
    Ok(Some(read.numbers.into_f64()))
}

/// Whether an array is a coordinate of levels, by its own dimension.
fn is_coordinate(meta: &ArrayMeta) -> bool {
    let dims = meta.dims.as_deref();
    let own = dims.is_none_or(|dims| dims.iter().all(|d| LEVEL_NAMES.contains(&d.as_str())));
    let number = ["int", "uint", "float"]
        .iter()
        .any(|kind| meta.dtype_name().starts_with(kind));
    meta.shape.len() == 1 && own && number
}
