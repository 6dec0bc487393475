//! The grid: where its cells are, and how large.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::plane::PlaneShape;

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

/// The grid of a store: horizontal, and the depths of its levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub(crate) shape: PlaneShape,
    pub(crate) latitude: Option<Coordinate>,
    pub(crate) longitude: Option<Coordinate>,
    pub(crate) cell_area: Option<Vec<f64>>,
    pub(crate) depths: Option<Vec<f64>>,
}

impl Grid {
    /// A grid of which nothing but the extent is known.
    pub fn of_shape(shape: PlaneShape) -> Self {
        Self {
            shape,
            latitude: None,
            longitude: None,
            cell_area: None,
            depths: None,
        }
    }

    /// The same grid with depths of its levels, the surface first.
    ///
    /// # Errors
    /// Depths that do not run from the surface down.
    pub fn with_depths(mut self, depths: Vec<f64>) -> Result<Self> {
        check_depths(&depths)?;
        self.depths = Some(depths);
        Ok(self)
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

    /// The level coordinate `(level)` as the store has it (`lev`, `z_l`, `depth`, ...), most often
    /// metres; `None` when it has none. Its first value is the one nearest the surface.
    pub fn depths(&self) -> Option<&[f64]> {
        self.depths.as_deref()
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
}

/// Sees that levels run from the surface down: each is further from zero than the one before, above or
/// below it.
///
/// # Errors
/// [`ErrorKind::Values`], with the level that is not.
pub(crate) fn check_depths(depths: &[f64]) -> Result<()> {
    if depths.len() < 2 {
        return Ok(());
    }
    let deeper = |at: usize| at == 0 || depths[at].abs() > depths[at - 1].abs();
    let bad = (0..depths.len()).find(|&at| !depths[at].is_finite() || !deeper(at));
    let Some(at) = bad else {
        return Ok(());
    };
    let first: Vec<String> = depths.iter().take(5).map(f64::to_string).collect();
    let more = if depths.len() > 5 { ", ..." } else { "" };
    let message = "levels do not run from the surface down: level 0 would not be the surface";
    Err(Error::new(ErrorKind::Values, message)
        .expected("values that move away from zero")
        .found(format!(
            "{} at level {at} of [{}{more}]",
            depths[at],
            first.join(", ")
        )))
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
            depths: None,
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
