//! Operations on a cell and its neighbours, on a globe with land.

use super::coastlines::{CELLS, GRID};

/// Values of all cells, row after row from the south.
pub(super) type Plane = Vec<f32>;

pub(super) fn cells(wet: &[bool]) -> impl Iterator<Item = usize> {
    (0..CELLS).filter(|i| wet[*i])
}

/// Neighbours in the west, east, south and north: round the globe, but not over a pole.
pub(super) fn beside(i: usize) -> [usize; 4] {
    let (y, x) = (i / GRID.1, i % GRID.1);
    let row = y * GRID.1;
    [
        row + (x + GRID.1 - 1) % GRID.1,
        row + (x + 1) % GRID.1,
        if y > 0 { i - GRID.1 } else { i },
        if y + 1 < GRID.0 { i + GRID.1 } else { i },
    ]
}

/// The eight cells around.
pub(super) fn around(i: usize) -> Vec<usize> {
    let [west, east, south, north] = beside(i);
    let corners = [west, east].map(|side| [beside(side)[2], beside(side)[3]]);
    let mut all = vec![west, east, south, north];
    all.extend(corners.concat());
    all
}

pub(super) fn slope(field: &[f32], i: usize, low: usize, high: usize, wet: &[bool]) -> f32 {
    let at = |n: usize| if wet[n] { field[n] } else { field[i] };
    (at(high) - at(low)) / 2.0
}

pub(super) fn slope_x(field: &[f32], i: usize, wet: &[bool]) -> f32 {
    let [west, east, ..] = beside(i);
    slope(field, i, west, east, wet)
}

pub(super) fn slope_y(field: &[f32], i: usize, wet: &[bool]) -> f32 {
    let [_, _, south, north] = beside(i);
    slope(field, i, south, north, wet)
}

pub(super) fn diffuse(field: &[f32], rate: f32, wet: &[bool]) -> Plane {
    let mut out = field.to_vec();
    for i in cells(wet) {
        let wet_beside = beside(i).into_iter().filter(|n| wet[*n]);
        out[i] += rate * wet_beside.map(|n| field[n] - field[i]).sum::<f32>();
    }
    out
}

/// Semi-Lagrangian: each cell takes the value from where its water came, `shift` (cells east,
/// cells north) before; water does not come from land.
pub(super) fn advect(field: &[f32], shift: impl Fn(usize) -> (f32, f32), wet: &[bool]) -> Plane {
    let mut out = field.to_vec();
    for i in cells(wet) {
        let (east, north) = shift(i);
        let y = ((i / GRID.1) as f32 - north).clamp(0.0, (GRID.0 - 1) as f32);
        let x = ((i % GRID.1) as f32 - east).rem_euclid(GRID.1 as f32);
        let (y0, x0) = (y.floor(), x.floor());
        let (fy, fx) = (y - y0, x - x0);
        let (mut sum, mut weight) = (0.0, 0.0);
        for (dy, wy) in [(0, 1.0 - fy), (1, fy)] {
            for (dx, wx) in [(0, 1.0 - fx), (1, fx)] {
                let row = (y0 as usize + dy).min(GRID.0 - 1);
                let from = row * GRID.1 + (x0 as usize + dx) % GRID.1;
                if wet[from] {
                    sum += wy * wx * field[from];
                    weight += wy * wx;
                }
            }
        }
        if weight > 1e-3 {
            out[i] = sum / weight;
        }
    }
    out
}
