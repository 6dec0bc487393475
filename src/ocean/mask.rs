//! Which cells of a level are ocean.

use crate::error::{Error, Result};
use crate::ocean::plane::PlaneShape;

/// Ocean (`true`) and land (`false`) of one level, `(y, x)` in C order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WetMask {
    shape: PlaneShape,
    wet: Vec<bool>,
}

impl std::fmt::Debug for WetMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PlaneShape { ny, nx } = self.shape;
        write!(f, "WetMask({ny} x {nx}, {} wet)", self.wet_count())
    }
}

impl WetMask {
    /// A mask from its cells, `(y, x)` in C order.
    ///
    /// # Errors
    /// Another number of cells than `shape` has.
    pub fn new(shape: PlaneShape, wet: Vec<bool>) -> Result<Self> {
        if shape.ny.checked_mul(shape.nx) != Some(wet.len()) {
            return Err(
                Error::config("a mask has another number of cells than its plane")
                    .expected(format!("{} x {}", shape.ny, shape.nx))
                    .found(wet.len()),
            );
        }
        Ok(Self { shape, wet })
    }

    /// Extent of the plane.
    pub fn shape(&self) -> PlaneShape {
        self.shape
    }

    /// The cells, `(y, x)` in C order; `true` is ocean.
    pub fn as_slice(&self) -> &[bool] {
        &self.wet
    }

    /// Number of ocean cells.
    pub fn wet_count(&self) -> usize {
        self.wet.iter().filter(|w| **w).count()
    }
}
