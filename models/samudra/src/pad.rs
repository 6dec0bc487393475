//! Padding on a globe: rows close on themselves, columns end at the poles.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;

/// Repeats `columns` columns of each row beyond its other end.
///
/// ```text
///  | c d |  a b c d  | a b |      columns = 2
/// ```
///
/// `(batch, channel, y, x)` to `(batch, channel, y, x + 2 columns)`.
///
/// # Panics
///
/// If the row has fewer than `columns` columns.
pub(crate) fn wrap_longitude(x: Tensor<4>, columns: usize) -> Tensor<4> {
    if columns == 0 {
        return x;
    }
    let width = x.dims()[3];
    assert!(
        columns <= width,
        "circular padding by {columns} columns on a row of {width}"
    );
    let west = x.clone().narrow(3, width - columns, columns);
    let east = x.clone().narrow(3, 0, columns);
    Tensor::cat(vec![west, x, east], 3)
}

/// Centres `x` in a grid of `ny` rows and `nx` columns, with zeros around it.
///
/// An odd remainder goes to the bottom and to the right.
///
/// # Panics
///
/// If `x` is larger than the grid.
pub(crate) fn centre(x: Tensor<4>, ny: usize, nx: usize) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    assert!(
        height <= ny && width <= nx,
        "{height} x {width} does not fit into {ny} x {nx}"
    );
    let (rows, columns) = (ny - height, nx - width);
    if rows == 0 && columns == 0 {
        return x;
    }
    let (top, left) = (rows / 2, columns / 2);
    x.pad(
        [(top, rows - top), (left, columns - left)],
        PadMode::Constant(0.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    fn row(values: &[f32]) -> Tensor<4> {
        let data = TensorData::new(values.to_vec(), [1, 1, 1, values.len()]);
        Tensor::from_data(data, &Device::flex())
    }

    fn values(x: Tensor<4>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn rows_close_on_themselves() {
        let x = row(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            values(wrap_longitude(x.clone(), 2)),
            [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]
        );
        assert_eq!(values(wrap_longitude(x.clone(), 4)).len(), 12);
        assert_eq!(values(wrap_longitude(x.clone(), 0)), values(x));
    }

    #[test]
    #[should_panic(expected = "circular padding by 3 columns on a row of 2")]
    fn a_row_is_repeated_once_at_most() {
        wrap_longitude(row(&[1.0, 2.0]), 3);
    }

    #[test]
    fn the_odd_row_and_column_go_last() {
        let x = centre(row(&[1.0, 2.0]), 2, 5);
        assert_eq!(x.dims(), [1, 1, 2, 5]);
        assert_eq!(
            values(x),
            [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
    }
}
