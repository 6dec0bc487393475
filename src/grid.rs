//! The horizontal grid of a store: where its cells are, and how large.

use crate::dims::{X_NAMES, Y_NAMES};
use crate::error::{Error, ErrorKind, Result};
use crate::group::{ArrayMeta, Group};
use crate::numbers::read_numbers;
use crate::options::OpenOptions;
use crate::read::PlaneShape;

/// A horizontal coordinate as the store has it, degrees.
#[derive(Clone, Debug, PartialEq)]
pub enum Coordinate {
    /// One value per row `(y)`, or per column `(x)`.
    Line(Vec<f64>),
    /// One value per cell `(y, x)`, C order.
    Plane(Vec<f64>),
}

/// Where cell-area weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AreaSource {
    /// The store's `areacello`.
    CellArea,
    /// The cosine of latitude: right up to a constant on a regular longitude-latitude grid.
    CosLatitude,
}

/// Relative area of each cell, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct CellAreaWeights {
    /// `(y, x)` in C order, never negative: square metres, or the cosine of latitude.
    pub weights: Vec<f64>,
    /// Which of the two.
    pub source: AreaSource,
}

/// The horizontal grid of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    shape: PlaneShape,
    latitude: Option<Coordinate>,
    longitude: Option<Coordinate>,
    cell_area: Option<Vec<f64>>,
}

impl Grid {
    /// A grid of which nothing but the extent is known.
    pub fn of_shape(shape: PlaneShape) -> Self {
        Self {
            shape,
            latitude: None,
            longitude: None,
            cell_area: None,
        }
    }

    /// Extent of a plane.
    pub fn shape(&self) -> PlaneShape {
        self.shape
    }

    /// Rows, the first axis of a plane.
    pub fn ny(&self) -> usize {
        self.shape.ny
    }

    /// Columns, the second axis of a plane.
    pub fn nx(&self) -> usize {
        self.shape.nx
    }

    /// Latitude in degrees north, one- or two-dimensional as found (`lat`, `latitude`, or `y` where
    /// its values are latitudes); `None` when the store has none.
    pub fn latitude(&self) -> Option<&Coordinate> {
        self.latitude.as_ref()
    }

    /// Longitude in degrees east, one- or two-dimensional as found; `None` when the store has none.
    pub fn longitude(&self) -> Option<&Coordinate> {
        self.longitude.as_ref()
    }

    /// `areacello`: area of each cell, square metres, `(y, x)` in C order. NaN stays NaN.
    pub fn cell_area(&self) -> Option<&[f64]> {
        self.cell_area.as_deref()
    }

    /// Weights for means over the sphere: the store's cell areas (a NaN area weighs nothing), else
    /// the cosine of latitude; the result says which.
    ///
    /// # Errors
    /// The store has neither.
    pub fn cell_area_weights(&self) -> Result<CellAreaWeights> {
        if let Some(area) = &self.cell_area {
            let weights = area.iter().map(|a| if a.is_nan() { 0.0 } else { *a });
            return Ok(CellAreaWeights {
                weights: weights.collect(),
                source: AreaSource::CellArea,
            });
        }
        let cos = |degrees: &f64| degrees.to_radians().cos().max(0.0);
        let weights = match &self.latitude {
            Some(Coordinate::Plane(lat)) => lat.iter().map(cos).collect(),
            Some(Coordinate::Line(lat)) => lat
                .iter()
                .flat_map(|lat| std::iter::repeat_n(cos(lat), self.shape.nx))
                .collect(),
            None => {
                return Err(Error::new(ErrorKind::Metadata, "no weights for cell areas")
                    .expected("areacello, lat or latitude")
                    .found("none of them"));
            }
        };
        Ok(CellAreaWeights {
            weights,
            source: AreaSource::CosLatitude,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(latitude: Option<Coordinate>, cell_area: Option<Vec<f64>>) -> Grid {
        Grid {
            shape: PlaneShape { ny: 2, nx: 2 },
            latitude,
            longitude: None,
            cell_area,
        }
    }

    #[test]
    fn weights_say_where_they_come_from() {
        let lat = Some(Coordinate::Line(vec![0.0, 60.0]));
        let w = grid(lat.clone(), None).cell_area_weights().unwrap();
        assert_eq!(w.source, AreaSource::CosLatitude);
        assert_eq!(w.weights[..2], [1.0, 1.0]);
        assert!((w.weights[2] - 0.5).abs() < 1e-12 && w.weights[2] == w.weights[3]);
        let area = vec![1.0, f64::NAN, 3.0, 4.0];
        let w = grid(lat, Some(area)).cell_area_weights().unwrap();
        assert_eq!(w.source, AreaSource::CellArea);
        assert_eq!(w.weights, [1.0, 0.0, 3.0, 4.0]);
        assert!(grid(None, None).cell_area_weights().is_err());
    }

    #[test]
    fn the_poles_weigh_nothing_rather_than_less() {
        let lat = Some(Coordinate::Plane(vec![-90.0, 90.0, 0.0, 0.0]));
        let w = grid(lat, None).cell_area_weights().unwrap();
        assert!(w.weights.iter().all(|w| *w >= 0.0) && w.weights[0] < 1e-12);
    }
}
