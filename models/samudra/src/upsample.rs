//! From a coarse level back to the finer one.

use burn::tensor::Tensor;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};

use crate::config::UpsampleKind;
use crate::pad::wrap_longitude;

/// Doubles rows and columns, `(batch, channel, y, x)` to `(batch, channel, 2 y, 2 x)`.
///
/// Values sit at cell centres (`align_corners = false`), so that an output cell lies a quarter of
/// a coarse cell from the nearest coarse centre. At the poles the outermost row is repeated. At
/// the date line `kind` decides.
pub(crate) fn upsample(x: Tensor<4>, kind: UpsampleKind) -> Tensor<4> {
    match kind {
        UpsampleKind::Bilinear => bilinear(x),
        UpsampleKind::ZonallyPeriodic => {
            let width = x.dims()[3];
            bilinear(wrap_longitude(x, 1)).narrow(3, 2, 2 * width)
        }
    }
}

fn bilinear(x: Tensor<4>) -> Tensor<4> {
    let [_, _, ny, nx] = x.dims();
    let options = InterpolateOptions::new(InterpolateMode::Bilinear)
        .with_align_corners(false)
        .with_output_size([2 * ny, 2 * nx]);
    interpolate(x, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn up(kind: UpsampleKind) -> Vec<f32> {
        let x = Tensor::<4>::from_data([[[[0.0, 4.0, 8.0]]]], &Device::flex());
        let y = upsample(x, kind);
        assert_eq!(y.dims(), [1, 1, 2, 6]);
        y.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn bilinear_stops_at_the_date_line() {
        let row = [0.0, 1.0, 3.0, 5.0, 7.0, 8.0];
        assert_eq!(up(UpsampleKind::Bilinear), [row, row].concat());
    }

    #[test]
    fn zonally_periodic_goes_on_around() {
        let row = [2.0, 1.0, 3.0, 5.0, 7.0, 6.0];
        assert_eq!(up(UpsampleKind::ZonallyPeriodic), [row, row].concat());
    }
}
