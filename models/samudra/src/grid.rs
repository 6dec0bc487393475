//! The grid a network runs on.

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::error::{Error, Result};

/// Size of the grid, and its coordinates where the network wants them.
///
/// ```
/// use samudra::Grid;
///
/// let lat: Vec<f64> = (0..45).map(|j| -88.0 + 4.0 * j as f64).collect();
/// let lon: Vec<f64> = (0..90).map(|i| 4.0 * i as f64).collect();
/// let grid = Grid::new(45, 90).with_coordinates(&lat, &lon)?;
/// assert_eq!((grid.ny(), grid.nx()), (45, 90));
/// # Ok::<(), samudra::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    ny: usize,
    nx: usize,
    lat: Vec<f64>,
    lon: Vec<f64>,
}

impl Grid {
    /// A grid of `ny` rows (latitude) and `nx` columns (longitude).
    pub fn new(ny: usize, nx: usize) -> Self {
        Self {
            ny,
            nx,
            lat: Vec::new(),
            lon: Vec::new(),
        }
    }

    /// Adds the latitude of every row and the longitude of every column, in degrees.
    ///
    /// # Errors
    ///
    /// [`Error::Coordinates`] when there are not as many as rows and columns.
    pub fn with_coordinates(mut self, lat: &[f64], lon: &[f64]) -> Result<Self> {
        self.lat = lat.to_vec();
        self.lon = lon.to_vec();
        self.coordinates()?;
        Ok(self)
    }

    /// Rows.
    pub fn ny(&self) -> usize {
        self.ny
    }

    /// Columns.
    pub fn nx(&self) -> usize {
        self.nx
    }

    /// Latitudes and longitudes in degrees, of the right lengths.
    pub(crate) fn coordinates(&self) -> Result<(&[f64], &[f64])> {
        for (axis, expected, found) in [
            ("latitude", self.ny, self.lat.len()),
            ("longitude", self.nx, self.lon.len()),
        ] {
            if expected != found {
                return Err(Error::Coordinates {
                    axis,
                    expected,
                    found,
                });
            }
        }
        Ok((&self.lat, &self.lon))
    }

    /// `(1, 3, y, x)`: cos(lat) cos(lon), cos(lat) sin(lon), sin(lat), float32.
    pub(crate) fn unit_sphere(&self, device: &Device) -> Result<Tensor<4>> {
        let (lat, lon) = self.coordinates()?;
        let mut values = Vec::with_capacity(3 * self.ny * self.nx);
        let mut plane = |value: &dyn Fn(f64, f64) -> f64| {
            for lat in lat {
                for lon in lon {
                    values.push(value(lat.to_radians(), lon.to_radians()) as f32);
                }
            }
        };
        plane(&|lat, lon| lat.cos() * lon.cos());
        plane(&|lat, lon| lat.cos() * lon.sin());
        plane(&|lat, _| lat.sin());
        let data = TensorData::new(values, [1, 3, self.ny, self.nx]);
        Ok(Tensor::from_data(data, (device, DType::F32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_on_the_unit_sphere_in_the_right_places() {
        let grid = Grid::new(2, 3)
            .with_coordinates(&[0.0, 90.0], &[0.0, 90.0, 180.0])
            .unwrap();
        let values = grid.unit_sphere(&Device::flex()).unwrap().into_data();
        let values = values.as_slice::<f32>().unwrap();
        let expected = [
            [1.0, 0.0, -1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        ];
        for (found, expected) in values.iter().zip(expected.as_flattened()) {
            assert!((found - expected).abs() < 1e-6, "{values:?}");
        }
    }

    #[test]
    fn coordinates_have_to_fit() {
        let error = Grid::new(2, 3)
            .with_coordinates(&[0.0, 1.0], &[0.0])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "longitude needs 3 coordinate values, found 1"
        );
    }
}
