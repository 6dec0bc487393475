//! The horizontal grid of a store: where its cells are, and how large.

use crate::error::{ErrorKind, Result};
use crate::ocean::grid::{Coordinate, Grid};
use crate::ocean::plane::PlaneShape;
use crate::store::axes::{X_NAMES, Y_NAMES};
use crate::store::opening::Opening;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::ArrayMeta;

/// Checks that the last two dimensions of an array are the store's plane (or sets it), none empty.
pub(crate) fn check_plane(
    group: &ZarrGroup,
    meta: &ArrayMeta,
    shape: &mut Option<PlaneShape>,
) -> Result<PlaneShape> {
    let wrong = |expected: String| {
        group
            .error(ErrorKind::Metadata, &meta.name, "not on the store's grid")
            .expected(expected)
            .found(format!("shape {:?}", meta.shape))
    };
    let [.., ny, nx] = meta.shape[..] else {
        return Err(wrong("two horizontal dimensions".to_owned()));
    };
    let (Ok(ny), Ok(nx)) = (usize::try_from(ny), usize::try_from(nx)) else {
        return Err(wrong("extents that fit in memory".to_owned()));
    };
    if ny == 0 || nx == 0 {
        return Err(wrong("a plane that is not empty".to_owned()));
    }
    limits::check_chunk(group, meta, &[ny as u64, nx as u64], 4)?;
    let found = PlaneShape { ny, nx };
    let expected = *shape.get_or_insert(found);
    if found != expected {
        return Err(wrong(format!("{} x {}", expected.ny, expected.nx)));
    }
    Ok(found)
}

/// Where the cells lie along one axis: a line of `extent` values or a whole plane, none beyond
/// `limit` degrees.
struct Wanted {
    extent: usize,
    limit: f64,
}

fn coordinate(
    opening: &mut Opening<'_>,
    meta: &ArrayMeta,
    shape: PlaneShape,
    wanted: Wanted,
) -> Result<Coordinate> {
    let group = opening.group;
    let Wanted { extent, limit } = wanted;
    let plane = [shape.ny as u64, shape.nx as u64];
    let flat = meta.shape == [extent as u64];
    if !flat && meta.shape != plane {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "not on the store's grid")
            .expected(format!("[{extent}] or {plane:?}"))
            .found(format!("{:?}", meta.shape)));
    }
    let values = opening.read(meta)?.into_f64();
    if let Some(at) = values
        .iter()
        .position(|v| !v.is_finite() || v.abs() > limit)
    {
        return Err(group
            .error(
                ErrorKind::Values,
                &meta.name,
                format!("value {at} is no coordinate"),
            )
            .expected(format!("within -{limit} to {limit} degrees"))
            .found(values[at]));
    }
    Ok(if flat {
        Coordinate::Line(values)
    } else {
        Coordinate::Plane(values)
    })
}

fn cell_area(opening: &mut Opening<'_>, meta: &ArrayMeta, shape: PlaneShape) -> Result<Vec<f64>> {
    let group = opening.group;
    let plane = [shape.ny as u64, shape.nx as u64];
    if meta.shape != plane {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "not on the store's grid")
            .expected(format!("{plane:?}"))
            .found(format!("{:?}", meta.shape)));
    }
    let area = opening.read(meta)?.into_f64();
    if let Some(at) = area.iter().position(|a| *a < 0.0 || a.is_infinite()) {
        return Err(group
            .error(
                ErrorKind::Values,
                &meta.name,
                format!("value {at} is no area"),
            )
            .expected("finite, not negative (or NaN)")
            .found(area[at]));
    }
    Ok(area)
}

impl Grid {
    /// Reads the coordinates and cell areas, as far as the store has them.
    pub(crate) fn read(opening: &mut Opening<'_>, shape: PlaneShape) -> Result<Self> {
        let group = opening.group;
        let mut find = |named: &[&str], dims: &[&str], extent, limit: f64| -> Result<_> {
            if let Some(meta) = group.first_of(named)? {
                return coordinate(opening, meta, shape, Wanted { extent, limit }).map(Some);
            }
            // `y` and `x` may be counters; they are coordinates only where they say or show it.
            let Some(meta) = group.first_of(dims)? else {
                return Ok(None);
            };
            let degrees = meta.text("units").is_some_and(|u| u.contains("degree"));
            let usable = meta.shape.len() == 1 && meta.shape[0] == extent as u64;
            if !usable || !meta.dtype_name().starts_with("float") {
                return Ok(None);
            }
            let anywhere = Wanted {
                extent,
                limit: f64::INFINITY,
            };
            let found = coordinate(opening, meta, shape, anywhere)?;
            let Coordinate::Line(values) = &found else {
                return Ok(None);
            };
            let shown = values.iter().any(|v| *v < 0.0) || values.iter().any(|v| v.fract() != 0.0);
            let inside = values.iter().all(|v| v.abs() <= limit);
            Ok((inside && (degrees || shown)).then_some(found))
        };
        let latitude = find(&["lat", "latitude", "geolat"], &Y_NAMES, shape.ny, 90.0)?;
        let longitude = find(&["lon", "longitude", "geolon"], &X_NAMES, shape.nx, 720.0)?;
        let cell_area = match group.first_of(&["areacello"])? {
            Some(meta) => Some(cell_area(opening, meta, shape)?),
            None => None,
        };
        Ok(Self {
            shape,
            latitude,
            longitude,
            cell_area,
            depths: None,
        })
    }
}
