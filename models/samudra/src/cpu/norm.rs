//! Batch norm and the capped GELU after it, as one pass there and one back.
//!
//! A task is one channel: its planes of the whole batch, read twice (three times backward) while
//! they are in the cache. Every sum runs over one channel in one order, whatever the number of
//! threads.

use std::ops::Range;

use multiversion::multiversion;

use super::gelu;
use super::matrix::{Block, Grid, in_blocks};

/// Batch, channels, and cells of a plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub batch: usize,
    pub channels: usize,
    pub cells: usize,
}

impl Planes {
    /// One column of blocks per channel.
    fn grid(self) -> Grid {
        Grid {
            rows: self.batch,
            columns: self.channels * self.cells,
            block_rows: self.batch.max(1),
            block_columns: self.cells.max(1),
        }
    }

    fn count(self) -> f64 {
        (self.batch * self.cells) as f64
    }

    /// The planes of a channel, whose columns are `columns` of all.
    fn of<'a>(
        self,
        values: &'a [f32],
        columns: &Range<usize>,
    ) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let columns = columns.clone();
        let samples = values.chunks_exact((self.channels * self.cells).max(1));
        samples.map(move |sample| &sample[columns.clone()])
    }
}

/// What is learned for every channel, and how the norm is made of it.
#[derive(Clone, Copy)]
pub(super) struct Affine<'a> {
    pub gamma: &'a [f32],
    pub beta: &'a [f32],
    pub epsilon: f64,
    /// Where the GELU ends.
    pub cap: f32,
}

/// Mean and biased variance of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub mean: f32,
    pub variance: f32,
}

/// The norm of one channel: `(x - mean) * scale + shift`.
#[derive(Clone, Copy)]
struct Line {
    mean: f32,
    /// 1 / sqrt(variance + epsilon).
    inverse: f32,
    scale: f32,
    shift: f32,
    cap: f32,
}

impl Affine<'_> {
    fn line(self, channel: usize, moments: Moments) -> Line {
        let inverse = 1.0 / (moments.variance + self.epsilon as f32).sqrt();
        Line {
            mean: moments.mean,
            inverse,
            scale: self.gamma[channel] * inverse,
            shift: self.beta[channel],
            cap: self.cap,
        }
    }
}

/// Normalises with the statistics of `x` itself and returns them.
pub(super) fn train(
    x: &[f32],
    planes: Planes,
    affine: Affine<'_>,
    out: &mut [f32],
) -> Vec<Moments> {
    in_blocks(out, planes.grid(), |_, columns, block| {
        let n = planes.count();
        let mean = (planes.of(x, &columns).map(sum).sum::<f64>() / n) as f32;
        let squares = planes.of(x, &columns).map(|x| squared_distances(x, mean));
        let moments = Moments {
            mean,
            variance: (squares.sum::<f64>() / n) as f32,
        };
        let line = affine.line(columns.start / planes.cells, moments);
        write(planes.of(x, &columns), line, block);
        moments
    })
}

/// Normalises with given statistics.
pub(super) fn evaluate(
    x: &[f32],
    planes: Planes,
    affine: Affine<'_>,
    moments: &[Moments],
    out: &mut [f32],
) {
    in_blocks(out, planes.grid(), |_, columns, block| {
        let channel = columns.start / planes.cells;
        let line = affine.line(channel, moments[channel]);
        write(planes.of(x, &columns), line, block);
    });
}

fn write<'a>(x: impl Iterator<Item = &'a [f32]>, line: Line, mut block: Block<'_>) {
    for (sample, x) in x.enumerate() {
        activate(x, line, block.row(sample));
    }
}

/// Gradients of a channel's own two parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelGradients {
    pub gamma: f32,
    pub beta: f32,
}

/// `gradient` is that of the output and becomes that of `x`, which was normalised by `train`.
pub(super) fn backward(
    x: &[f32],
    planes: Planes,
    affine: Affine<'_>,
    moments: &[Moments],
    gradient: &mut [f32],
) -> Vec<ChannelGradients> {
    in_blocks(gradient, planes.grid(), |_, columns, mut block| {
        let channel = columns.start / planes.cells;
        let line = affine.line(channel, moments[channel]);
        let [mut plain, mut with_x] = [0.0_f64; 2];
        for (sample, x) in planes.of(x, &columns).enumerate() {
            let sums = through_activation(x, line, block.row(sample));
            plain += sums.0;
            with_x += sums.1;
        }
        let n = planes.count();
        let means = ((plain / n) as f32, (with_x / n) as f32);
        for (sample, x) in planes.of(x, &columns).enumerate() {
            through_norm(x, line, means, block.row(sample));
        }
        ChannelGradients {
            gamma: with_x as f32,
            beta: plain as f32,
        }
    })
}

/// Values of a block are summed in single precision, blocks in double.
const BLOCK: usize = 2048;

/// Sums that run side by side; vectors of any processor are a part of it.
const LANES: usize = 32;

/// Sums `term` of every pair, always in the same order.
#[inline(always)]
fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f64 {
    let mut total = 0.0;
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        let mut lanes = [0.0_f32; LANES];
        let (whole_a, rest_a) = a.as_chunks::<LANES>();
        let (whole_b, rest_b) = b.as_chunks::<LANES>();
        for (a, b) in whole_a.iter().zip(whole_b) {
            for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
                *lane += term(*a, *b);
            }
        }
        for (lane, (a, b)) in lanes.iter_mut().zip(rest_a.iter().zip(rest_b)) {
            *lane += term(*a, *b);
        }
        total += lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>();
    }
    total
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
pub(super) fn sum(x: &[f32]) -> f64 {
    sum_of(x, x, |x, _| x)
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn squared_distances(x: &[f32], mean: f32) -> f64 {
    sum_of(x, x, |x, _| (x - mean) * (x - mean))
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn activate(x: &[f32], line: Line, out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = gelu::value((x - line.mean) * line.scale + line.shift, line.cap);
    }
}

/// Multiplies with the slope of the activation. Returns the sums of the products, and of the
/// products times the normalised value.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn through_activation(x: &[f32], line: Line, gradient: &mut [f32]) -> (f64, f64) {
    let (mut plain, mut with_x) = (0.0, 0.0);
    for (gradient, x) in gradient.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
        for (g, x) in gradient.iter_mut().zip(x) {
            *g *= gelu::slope((x - line.mean) * line.scale + line.shift, line.cap);
        }
        plain += sum_of(gradient, x, |g, _| g);
        with_x += sum_of(gradient, x, |g, x| g * ((x - line.mean) * line.inverse));
    }
    (plain, with_x)
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+avx",
    "x86_64+avx2+avx",
    "aarch64+neon",
))]
fn through_norm(x: &[f32], line: Line, means: (f32, f32), gradient: &mut [f32]) {
    for (g, x) in gradient.iter_mut().zip(x) {
        let normal = (x - line.mean) * line.inverse;
        *g = line.scale * (*g - means.0 - normal * means.1);
    }
}
