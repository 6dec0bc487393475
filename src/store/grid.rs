//! The horizontal grid of a store: where its cells are, and how large.

use crate::error::{ErrorKind, Result};
use crate::ocean::grid::{Coordinate, Grid};
use crate::ocean::plane::PlaneShape;
use crate::store::axes::{X_NAMES, Y_NAMES};
use crate::store::options::OpenOptions;
use crate::zarr::metadata::{ArrayMeta, Group};
use crate::zarr::small_array::read_numbers;

/// Checks that the last two dimensions of an array are the store's plane (or sets it), none empty.
pub(crate) fn check_plane(
    group: &Group,
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
    if ny == 0 || nx == 0 || ny.checked_mul(nx).and_then(|n| n.checked_mul(4)).is_none() {
        return Err(wrong(
            "a plane that is not empty and fits in memory".to_owned(),
        ));
    }
    let found = PlaneShape { ny, nx };
    let expected = *shape.get_or_insert(found);
    if found != expected {
        return Err(wrong(format!("{} x {}", expected.ny, expected.nx)));
    }
    Ok(found)
}

fn coordinate(
    group: &Group,
    meta: &ArrayMeta,
    shape: PlaneShape,
    extent: usize,
    limit: f64,
    options: &OpenOptions,
    warnings: &mut Vec<String>,
) -> Result<Coordinate> {
    let plane = [shape.ny as u64, shape.nx as u64];
    let flat = meta.shape == [extent as u64];
    if !flat && meta.shape != plane {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "not on the store's grid")
            .expected(format!("[{extent}] or {plane:?}"))
            .found(format!("{:?}", meta.shape)));
    }
    let values = read_numbers(group, meta, options.strictness, warnings)?.into_f64();
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

fn cell_area(
    group: &Group,
    meta: &ArrayMeta,
    shape: PlaneShape,
    options: &OpenOptions,
    warnings: &mut Vec<String>,
) -> Result<Vec<f64>> {
    let plane = [shape.ny as u64, shape.nx as u64];
    if meta.shape != plane {
        return Err(group
            .error(ErrorKind::Metadata, &meta.name, "not on the store's grid")
            .expected(format!("{plane:?}"))
            .found(format!("{:?}", meta.shape)));
    }
    let area = read_numbers(group, meta, options.strictness, warnings)?.into_f64();
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
    pub(crate) fn read(
        group: &Group,
        shape: PlaneShape,
        options: &OpenOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let mut find = |named: &[&str], dims: &[&str], extent, limit: f64| -> Result<_> {
            if let Some(meta) = group.first_of(named) {
                return coordinate(group, meta, shape, extent, limit, options, warnings).map(Some);
            }
            // `y` and `x` may be counters; they are coordinates only where they say or show it.
            let Some(meta) = group.first_of(dims) else {
                return Ok(None);
            };
            let degrees = meta.text("units").is_some_and(|u| u.contains("degree"));
            let usable = meta.shape.len() == 1 && meta.shape[0] == extent as u64;
            if !usable || !meta.dtype_name().starts_with("float") {
                return Ok(None);
            }
            let found = coordinate(group, meta, shape, extent, f64::INFINITY, options, warnings)?;
            let Coordinate::Line(values) = &found else {
                return Ok(None);
            };
            let shown = values.iter().any(|v| *v < 0.0) || values.iter().any(|v| v.fract() != 0.0);
            let inside = values.iter().all(|v| v.abs() <= limit);
            Ok((inside && (degrees || shown)).then_some(found))
        };
        let latitude = find(&["lat", "latitude", "geolat"], &Y_NAMES, shape.ny, 90.0)?;
        let longitude = find(&["lon", "longitude", "geolon"], &X_NAMES, shape.nx, 720.0)?;
        let cell_area = match group.arrays.get("areacello") {
            Some(meta) => Some(cell_area(group, meta, shape, options, warnings)?),
            None => None,
        };
        Ok(Self {
            shape,
            latitude,
            longitude,
            cell_area,
        })
    }
}
