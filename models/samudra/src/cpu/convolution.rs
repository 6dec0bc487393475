//! Convolutions of the globe as matrix products.
//!
//! For every column of the kernel the input is copied once, its rows rolled by that column's reach,
//! with rows of zeros beyond the poles: a slab. In it the input of a kernel row is one matrix,
//! whose columns are cells in the very order of the output:
//!
//! ```text
//!  slab                      rows of the matrix: kernel column, then input channel
//!            kernel column 0  kernel column 1  kernel column 2
//!  y = -1    0 0 0 0          0 0 0 0          0 0 0 0          |
//!  y =  0    d a b c          a b c d          b c d a          | kernel row 0
//!  y =  1    h e f g          e f g h          f g h e          |            | kernel row 1
//!  y =  2    0 0 0 0          0 0 0 0          0 0 0 0                       |
//! ```
//!
//! So a 3 x 3 convolution is three products, each over three times the input channels, that add up
//! in place. The gradient of the input is the same with the kernel turned by half a turn and its
//! channels exchanged; that of the weight is the products of the output's gradient with each kernel
//! row's matrix. A 1 x 1 kernel needs no slab.
//!
//! Work is cut into tiles of whole rows. Where there are many tiles, each makes the slab of its own
//! rows, which stays in the cache; a small plane has one slab for all. How work is cut depends on
//! the sizes alone, never on the number of threads, and so do the results.

use std::ops::Range;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::matrix::{Block, Grid, Matrix, Onto, in_blocks, whole};
use super::memory::{Lease, lease};
use super::norm::sum;

/// The sizes of a convolution that both directions share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub batch: usize,
    pub channels_in: usize,
    pub channels_out: usize,
    pub ny: usize,
    pub nx: usize,
    pub kernel: usize,
    pub dilation: usize,
}

/// Cells of a tile, about: a block of an output's channels for them stays in the cache.
const TILE: usize = 1440;

/// Planes of so many tiles have a slab for each.
const MANY_TILES: usize = 16;

/// Output channels of a tile of a small plane, so that there is work for several threads.
const FEW_CHANNELS: usize = 64;

impl Shape {
    fn cells(self) -> usize {
        self.ny * self.nx
    }

    /// How far the kernel sees, in rows and columns.
    pub(super) fn reach(self) -> usize {
        self.dilation * (self.kernel / 2)
    }

    fn tile_rows(self) -> usize {
        // At least as many rows as are copied beyond them.
        let least = (2 * self.reach()).max(4);
        TILE.div_ceil(self.nx).max(least).min(self.ny)
    }

    fn tiles(self) -> usize {
        self.ny.div_ceil(self.tile_rows())
    }

    fn slab_per_tile(self) -> bool {
        self.kernel == 1 || self.tiles() >= MANY_TILES
    }

    /// The convolution that gives the gradient of the input.
    fn backward(self) -> Self {
        Self {
            channels_in: self.channels_out,
            channels_out: self.channels_in,
            ..self
        }
    }

    /// Multiplications of a matrix for one kernel row: kernel columns times input channels.
    fn depth(self) -> usize {
        self.kernel * self.channels_in
    }
}

/// The matrices of an input, of some rows of the plane.
struct Slab<'a> {
    shape: Shape,
    values: Values<'a>,
    /// Output rows that it serves.
    rows: Range<usize>,
}

enum Values<'a> {
    /// The input itself, all rows.
    Plane(&'a [f32]),
    Rolled(Lease),
}

impl<'a> Slab<'a> {
    /// For output rows `rows` of one sample, `(channel, y, x)`, on this thread.
    fn of_tile(sample: &'a [f32], shape: Shape, rows: Range<usize>) -> Self {
        Self::new(sample, shape, rows, |planes, size, roll| {
            planes.chunks_exact_mut(size).enumerate().for_each(roll);
        })
    }

    /// For all rows, in parallel.
    fn of_plane(sample: &'a [f32], shape: Shape) -> Self {
        Self::new(sample, shape, 0..shape.ny, |planes, size, roll| {
            planes.par_chunks_exact_mut(size).enumerate().for_each(roll);
        })
    }

    fn new(
        sample: &'a [f32],
        shape: Shape,
        rows: Range<usize>,
        for_each: impl FnOnce(&mut [f32], usize, &(dyn Fn((usize, &mut [f32])) + Sync)),
    ) -> Self {
        if shape.kernel == 1 {
            return Self {
                shape,
                values: Values::Plane(sample),
                rows: 0..shape.ny,
            };
        }
        let size = (rows.len() + 2 * shape.reach()) * shape.nx;
        let mut values = lease(shape.depth() * size);
        for_each(&mut values, size, &|(index, plane)| {
            let (column, channel) = (index / shape.channels_in, index % shape.channels_in);
            let source = &sample[channel * shape.cells()..][..shape.cells()];
            roll(source, shape, column, rows.start, plane);
        });
        Self {
            shape,
            values: Values::Rolled(values),
            rows,
        }
    }

    /// The matrix of a kernel row for output rows `rows`: `(kernel column and channel, cell)`.
    fn matrix(&self, kernel_row: usize, rows: &Range<usize>) -> Matrix<'_> {
        let shape = self.shape;
        let values = match &self.values {
            Values::Plane(values) => values,
            Values::Rolled(values) => &values[..],
        };
        let first = rows.start - self.rows.start + kernel_row * shape.dilation;
        let stride = (self.rows.len() + 2 * shape.reach()) * shape.nx;
        Matrix::new(
            &values[first * shape.nx..],
            shape.depth(),
            rows.len() * shape.nx,
            stride,
        )
    }
}

/// One plane of a slab, whose first output row is `first`.
fn roll(source: &[f32], shape: Shape, column: usize, first: usize, plane: &mut [f32]) {
    let nx = shape.nx;
    // The value at i comes from i + (column - middle) * dilation.
    let east = (nx + column * shape.dilation - shape.reach()) % nx;
    for (row, out) in plane.chunks_exact_mut(nx).enumerate() {
        let y = (first + row).wrapping_sub(shape.reach());
        if y >= shape.ny {
            out.fill(0.0);
            continue;
        }
        let source = &source[y * nx..][..nx];
        out[..nx - east].copy_from_slice(&source[east..]);
        out[nx - east..].copy_from_slice(&source[..east]);
    }
}

/// What the output begins with before products are added.
#[derive(Clone, Copy)]
enum Start<'a> {
    Nothing,
    /// One value per channel, and a tensor of the output's shape.
    Values(&'a [f32], Option<&'a [f32]>),
}

/// `x` `(batch, in, y, x)`, `weight` `(out, in, k, k)`, `bias` `(out)`; `onto` is added. All
/// contiguous. The output is `(batch, out, y, x)`.
pub(super) fn forward(
    x: &[f32],
    weight: &[f32],
    bias: &[f32],
    onto: Option<&[f32]>,
    shape: Shape,
) -> Lease {
    let kernel = repack(weight, shape, |out, input, row, column| {
        shape.index(out, input, row, column)
    });
    products(x, &kernel, Start::Values(bias, onto), shape)
}

/// The gradient of `x` for that of the output.
pub(super) fn input_gradient(gradient: &[f32], weight: &[f32], shape: Shape) -> Lease {
    let last = shape.kernel - 1;
    let kernel = repack(weight, shape.backward(), |out, input, row, column| {
        shape.index(input, out, last - row, last - column)
    });
    products(gradient, &kernel, Start::Nothing, shape.backward())
}

impl Shape {
    /// Where a weight lies in `(out, in, k, k)`.
    fn index(self, out: usize, input: usize, row: usize, column: usize) -> usize {
        ((out * self.channels_in + input) * self.kernel + row) * self.kernel + column
    }
}

/// Weights as `(kernel row, out, kernel column, in)`: one matrix per kernel row.
fn repack(
    weight: &[f32],
    shape: Shape,
    index: impl Fn(usize, usize, usize, usize) -> usize + Sync,
) -> Lease {
    let mut packed = lease(weight.len());
    let rows = packed.par_chunks_exact_mut(shape.depth());
    rows.enumerate().for_each(|(i, packed)| {
        let (row, out) = (i / shape.channels_out, i % shape.channels_out);
        for (column, packed) in packed.chunks_exact_mut(shape.channels_in).enumerate() {
            for (input, packed) in packed.iter_mut().enumerate() {
                *packed = weight[index(out, input, row, column)];
            }
        }
    });
    packed
}

fn products(x: &[f32], kernel: &[f32], start: Start<'_>, shape: Shape) -> Lease {
    let (sample_in, sample_out) = (
        shape.channels_in * shape.cells(),
        shape.channels_out * shape.cells(),
    );
    let mut out = lease(shape.batch * sample_out);
    for (b, out) in out.chunks_exact_mut(sample_out).enumerate() {
        let x = &x[b * sample_in..][..sample_in];
        let start = match start {
            Start::Values(bias, Some(onto)) => {
                Start::Values(bias, Some(&onto[b * sample_out..][..sample_out]))
            }
            start => start,
        };
        sample_products(x, kernel, start, shape, out);
    }
    out
}

fn sample_products(x: &[f32], kernel: &[f32], start: Start<'_>, shape: Shape, out: &mut [f32]) {
    let shared = (!shape.slab_per_tile()).then(|| Slab::of_plane(x, shape));
    let few = match shape.tiles() >= MANY_TILES {
        true => shape.channels_out,
        false => FEW_CHANNELS.min(shape.channels_out),
    };
    let grid = Grid {
        rows: shape.channels_out,
        columns: shape.cells(),
        block_rows: few,
        block_columns: shape.tile_rows() * shape.nx,
    };
    in_blocks(out, grid, |channels, cells, mut block| {
        let rows = cells.start / shape.nx..cells.end / shape.nx;
        let own;
        let slab = match &shared {
            Some(slab) => slab,
            None => {
                own = Slab::of_tile(x, shape, rows.clone());
                &own
            }
        };
        let mut onto = begin(start, shape, &channels, &cells, &mut block);
        for row in 0..shape.kernel {
            let first = (row * shape.channels_out + channels.start) * shape.depth();
            let depth = shape.depth();
            let kernel = Matrix::new(&kernel[first..], channels.len(), depth, depth);
            block.product(onto, kernel, slab.matrix(row, &rows));
            onto = Onto::Values;
        }
    });
}

/// Fills a block with what its products are added to.
fn begin(
    start: Start<'_>,
    shape: Shape,
    channels: &Range<usize>,
    cells: &Range<usize>,
    block: &mut Block<'_>,
) -> Onto {
    let Start::Values(bias, onto) = start else {
        return Onto::Nothing;
    };
    for (row, channel) in channels.clone().enumerate() {
        let (out, bias) = (block.row(row), bias[channel]);
        match onto {
            None => out.fill(bias),
            Some(onto) => {
                let onto = &onto[channel * shape.cells()..][cells.clone()];
                for (out, onto) in out.iter_mut().zip(onto) {
                    *out = onto + bias;
                }
            }
        }
    }
    Onto::Values
}

/// Shares of the weight's gradient that are summed by themselves, at most: work for so many threads.
const SHARES: usize = 16;

/// The gradient of the weight, `(out, in, k, k)`, for that of the output.
pub(super) fn weight_gradient(x: &[f32], gradient: &[f32], shape: Shape) -> Lease {
    let tiles = shape.tiles();
    let shares = match tiles >= MANY_TILES {
        true => tiles.min(SHARES),
        false => 1,
    };
    let row = shape.channels_out * shape.depth();
    let mut sums = lease(shares * shape.kernel * row);
    let (sample_in, sample_out) = (
        shape.channels_in * shape.cells(),
        shape.channels_out * shape.cells(),
    );
    for b in 0..shape.batch {
        let onto = if b == 0 { Onto::Nothing } else { Onto::Values };
        let x = &x[b * sample_in..][..sample_in];
        let gradient = &gradient[b * sample_out..][..sample_out];
        if shares == 1 {
            small_plane(x, gradient, shape, onto, &mut sums);
            continue;
        }
        let parts = sums.par_chunks_exact_mut(shape.kernel * row).enumerate();
        parts.for_each(|(share, sums)| {
            let tiles = share * tiles / shares..(share + 1) * tiles / shares;
            share_of_plane(x, gradient, shape, tiles, onto, sums);
        });
    }
    gather(&sums, shares, shape)
}

/// All cells at once; the work is cut by kernel rows and columns, and output channels.
fn small_plane(x: &[f32], gradient: &[f32], shape: Shape, onto: Onto, sums: &mut [f32]) {
    let slab = Slab::of_plane(x, shape);
    let size = shape.channels_out * shape.depth();
    let rows: Vec<_> = sums.chunks_exact_mut(size).enumerate().collect();
    let grid = Grid {
        rows: shape.channels_out,
        columns: shape.depth(),
        block_rows: FEW_CHANNELS,
        block_columns: shape.channels_in,
    };
    rayon::scope(|scope| {
        for (row, sums) in rows {
            let slab = &slab;
            scope.spawn(move |_| {
                let matrix = slab.matrix(row, &(0..shape.ny));
                in_blocks(sums, grid, |out, depth, mut block| {
                    let gradient = &gradient[out.start * shape.cells()..];
                    let cells = shape.cells();
                    let gradient = Matrix::new(gradient, out.len(), cells, cells);
                    block.product(onto, gradient, matrix.some_rows(depth).transposed());
                });
            });
        }
    });
}

/// Some tiles, one after the other, on this thread.
fn share_of_plane(
    x: &[f32],
    gradient: &[f32],
    shape: Shape,
    tiles: Range<usize>,
    mut onto: Onto,
    sums: &mut [f32],
) {
    let size = shape.tile_rows();
    for tile in tiles {
        let rows = tile * size..((tile + 1) * size).min(shape.ny);
        let slab = Slab::of_tile(x, shape, rows.clone());
        let cells = rows.len() * shape.nx;
        let gradient = &gradient[rows.start * shape.nx..];
        let gradient = Matrix::new(gradient, shape.channels_out, cells, shape.cells());
        let parts = sums.chunks_exact_mut(shape.channels_out * shape.depth());
        for (row, sums) in parts.enumerate() {
            let matrix = slab.matrix(row, &rows).transposed();
            whole(sums, shape.channels_out, shape.depth()).product(onto, gradient, matrix);
        }
        onto = Onto::Values;
    }
}

/// Adds up the shares, in their order, and puts every weight in its place.
fn gather(sums: &[f32], shares: usize, shape: Shape) -> Lease {
    let mut out = lease(sums.len() / shares);
    let (size, channels) = (sums.len() / shares, shape.channels_in);
    let filters = channels * shape.kernel * shape.kernel;
    let filters = out.par_chunks_exact_mut(filters).enumerate();
    filters.for_each(|(filter, out)| {
        for row in 0..shape.kernel {
            for column in 0..shape.kernel {
                let first = (row * shape.channels_out + filter) * shape.depth() + column * channels;
                for input in 0..channels {
                    let share = |share: usize| sums[share * size + first + input];
                    let total = (1..shares).fold(share(0), |sum, s| sum + share(s));
                    out[shape.index(0, input, row, column)] = total;
                }
            }
        }
    });
    out
}

/// The gradient of the bias, `(out)`.
pub(super) fn bias_gradient(gradient: &[f32], shape: Shape) -> Vec<f32> {
    let channels: Vec<usize> = (0..shape.channels_out).collect();
    let of = |channel: &usize| {
        let planes = gradient.chunks_exact(shape.cells());
        let planes = planes.skip(*channel).step_by(shape.channels_out);
        planes.map(sum).sum::<f64>() as f32
    };
    channels.par_iter().map(of).collect()
}
