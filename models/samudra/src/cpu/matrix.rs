//! Matrices in slices: products, and work on disjoint blocks in parallel.

use std::marker::PhantomData;
use std::ops::Range;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// A matrix to read, rows `stride` values apart.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    pub(super) fn new(values: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows > 0 && columns > 0 && (rows - 1) * stride + columns <= values.len());
        Self {
            values,
            rows,
            columns,
            row_stride: stride,
            column_stride: 1,
        }
    }

    pub(super) fn some_rows(self, rows: Range<usize>) -> Self {
        assert!(rows.start < rows.end && rows.end <= self.rows);
        Self {
            values: &self.values[rows.start * self.row_stride..],
            rows: rows.len(),
            ..self
        }
    }

    pub(super) fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// A block of a matrix to write to: whole pieces of rows, `stride` values apart.
pub(super) struct Block<'a> {
    pointer: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    owner: PhantomData<&'a mut [f32]>,
}

/// What a product does with the values that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    Nothing,
    Values,
}

impl Block<'_> {
    pub(super) fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        // SAFETY: the row lies in the block, which is this one's alone and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(row * self.stride), self.columns) }
    }

    /// Writes or adds `left * right`, on this thread.
    pub(super) fn product(&mut self, onto: Onto, left: Matrix<'_>, right: Matrix<'_>) {
        assert_eq!(
            (left.rows, left.columns, right.columns),
            (self.rows, right.rows, self.columns)
        );
        // SAFETY: the matrices lie in their slices, the block in its own memory, with these sizes
        // and strides; nobody else writes to any of them.
        unsafe {
            gemm::gemm(
                self.rows,
                self.columns,
                left.columns,
                self.pointer,
                1,
                self.stride as isize,
                onto == Onto::Values,
                left.values.as_ptr(),
                left.column_stride as isize,
                left.row_stride as isize,
                right.values.as_ptr(),
                right.column_stride as isize,
                right.row_stride as isize,
                1.0_f32,
                1.0_f32,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// How a matrix is cut into blocks; the last ones may be smaller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub rows: usize,
    pub columns: usize,
    pub block_rows: usize,
    pub block_columns: usize,
}

/// Runs `work` on every block of a matrix that fills `values`, in parallel. It is told which rows
/// and columns the block has. Results are in the order of the blocks, row by row.
pub(super) fn in_blocks<R: Send>(
    values: &mut [f32],
    grid: Grid,
    work: impl Fn(Range<usize>, Range<usize>, Block<'_>) -> R + Sync,
) -> Vec<R> {
    assert_eq!(values.len(), grid.rows * grid.columns);
    if values.is_empty() {
        return Vec::new();
    }
    let (down, across) = (
        grid.rows.div_ceil(grid.block_rows),
        grid.columns.div_ceil(grid.block_columns),
    );
    let base = Base(values.as_mut_ptr());
    (0..down * across)
        .into_par_iter()
        .map(|index| {
            let part =
                |index: usize, size: usize, all: usize| index * size..((index + 1) * size).min(all);
            let rows = part(index / across, grid.block_rows, grid.rows);
            let columns = part(index % across, grid.block_columns, grid.columns);
            let block = Block {
                // SAFETY: the position lies in `values`.
                pointer: unsafe { base.at(rows.start * grid.columns + columns.start) },
                rows: rows.len(),
                columns: columns.len(),
                stride: grid.columns,
                owner: PhantomData,
            };
            work(rows, columns, block)
        })
        .collect()
}

struct Base(*mut f32);

// SAFETY: blocks made from it do not overlap, and it is only used while `values` is borrowed.
unsafe impl Sync for Base {}

impl Base {
    /// # Safety
    /// `offset` lies in the slice that this is the begin of.
    unsafe fn at(&self, offset: usize) -> *mut f32 {
        // SAFETY: as the caller promises.
        unsafe { self.0.add(offset) }
    }
}

/// All of `values` as one block.
pub(super) fn whole(values: &mut [f32], rows: usize, columns: usize) -> Block<'_> {
    assert_eq!(values.len(), rows * columns);
    Block {
        pointer: values.as_mut_ptr(),
        rows,
        columns,
        stride: columns,
        owner: PhantomData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_matrix_once() {
        let mut values = vec![0.0; 5 * 7];
        let grid = Grid {
            rows: 5,
            columns: 7,
            block_rows: 2,
            block_columns: 3,
        };
        let places = in_blocks(&mut values, grid, |rows, columns, mut block| {
            for row in 0..rows.len() {
                for value in block.row(row) {
                    *value += 1.0;
                }
            }
            (rows.start, columns.start)
        });
        assert_eq!(values, [1.0; 35]);
        assert_eq!(places.len(), 9);
        assert_eq!(places[..4], [(0, 0), (0, 3), (0, 6), (2, 0)]);
    }

    #[test]
    fn a_product_of_views_is_added() {
        let left: Vec<f32> = (0..6).map(|v| v as f32).collect();
        let right: Vec<f32> = (0..8).map(|v| v as f32 * 0.5).collect();
        let mut out = vec![1.0; 4];
        // | 0 1 |   | 0.0 1.0 |     rows of the first lie three apart; the second is a transpose.
        // | 3 4 |   | 0.5 1.5 |
        let a = Matrix::new(&left, 2, 2, 3);
        let b = Matrix::new(&right, 2, 2, 2).transposed();
        whole(&mut out, 2, 2).product(Onto::Values, a, b);
        assert_eq!(out, [1.5, 2.5, 3.0, 10.0]);
        whole(&mut out, 2, 2).product(Onto::Nothing, a, b);
        assert_eq!(out, [0.5, 1.5, 2.0, 9.0]);
    }
}
