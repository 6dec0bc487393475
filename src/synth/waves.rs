//! The usual values: travelling waves and a little noise around noise-shaped continents.

use super::field::Field;
use crate::ocean::channel::Channel;
use crate::splitmix::{SplitMix64, mix};
use std::f64::consts::TAU;

impl SplitMix64 {
    /// The next number of [0, 1), evenly distributed.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next number of the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }
}

/// A deterministic ocean: every value is a function of (seed, channel, row, cell), so planes may
/// be asked for in any order and compared with what was read.
///
/// 30 % of the cells are land at the surface, more further down; at least one cell is ocean at
/// every level. No ocean value is NaN, no two channels or rows are equal.
#[derive(Clone, Debug)]
pub struct Waves {
    ny: usize,
    nx: usize,
    seed: u64,
    /// Number of wet levels of each cell.
    wet: Vec<usize>,
}

const LAND: f64 = 0.3;

impl Waves {
    /// The ocean of a seed on a grid of `ny` by `nx` cells with so many levels.
    pub fn new(ny: usize, nx: usize, levels: usize, seed: u64) -> Self {
        let mut floor = vec![0.0f64; ny * nx];
        let mut rng = SplitMix64::new(seed);
        for _ in 0..8 {
            let size = rng.normal();
            let wave = Wave::new(&mut rng, ny, nx, 0.0);
            for (i, z) in floor.iter_mut().enumerate() {
                *z += size * f64::from(wave.at(i / nx, i % nx));
            }
        }
        for z in &mut floor {
            *z += 0.1 * rng.normal();
        }
        let mut order: Vec<usize> = (0..floor.len()).collect();
        order.sort_by(|a, b| floor[*a].total_cmp(&floor[*b]));
        let mut wet = vec![0; floor.len()];
        for (rank, cell) in order.into_iter().enumerate() {
            let depth = ((rank + 1) as f64 / floor.len() as f64 - LAND) / (1.0 - LAND);
            if depth > 0.0 {
                // The deepest 40 % of the ocean have all levels.
                wet[cell] = ((depth / 0.6 * levels as f64).ceil() as usize).min(levels);
            }
        }
        Self { ny, nx, seed, wet }
    }
}

impl Field for Waves {
    fn is_ocean(&self, level: usize, y: usize, x: usize) -> bool {
        self.wet[y * self.nx + x] > level
    }

    fn plane(&mut self, channel: &Channel, row: usize, out: &mut [f32]) {
        let (mean, size) = match channel.variable() {
            "thetao" => (15.0 - 0.7 * channel.level().unwrap_or(0) as f32, 5.0),
            "so" => (35.0, 0.8),
            "uo" | "vo" => (0.0, 0.2),
            "zos" => (0.0, 0.5),
            "hfds" => (0.0, 100.0),
            "tauuo" | "tauvo" => (0.0, 0.1),
            _ => (0.0, 1.0),
        };
        // FNV-1a over the name: channels of different names get different waves.
        let key = channel.name().bytes().fold(self.seed, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut rng = SplitMix64::new(mix(key));
        let waves: Vec<Wave> = (0..4)
            .map(|_| Wave::new(&mut rng, self.ny, self.nx, row as f64))
            .collect();
        let noise = mix(key ^ mix(row as u64));
        for (i, value) in out.iter_mut().enumerate() {
            let (y, x) = (i / self.nx, i % self.nx);
            let smooth: f32 = waves.iter().map(|w| w.at(y, x)).sum();
            let bits = mix(noise.wrapping_add(i as u64)) >> 40;
            let rough = bits as f32 / (1u64 << 24) as f32 - 0.5;
            *value = mean + size * (0.7 * smooth + 0.05 * rough);
        }
    }
}

/// cos(a lat + p) cos(b lon + q), by rows and columns.
struct Wave {
    rows: Vec<f32>,
    columns: Vec<f32>,
}

impl Wave {
    fn new(rng: &mut SplitMix64, ny: usize, nx: usize, time: f64) -> Self {
        let mut whole = |n: f64| (rng.uniform() * n).floor();
        let (a, b) = (1.0 + whole(4.0), whole(5.0));
        let (p, q) = (TAU * rng.uniform(), TAU * rng.uniform());
        let travel = time * (rng.uniform() - 0.3);
        let rows = (0..ny).map(|y| (a * TAU / 2.0 * (y as f64 + 0.5) / ny as f64 + p).cos());
        let columns = (0..nx).map(|x| (b * TAU * (x as f64 + 0.5) / nx as f64 + q - travel).cos());
        Self {
            rows: rows.map(|v| v as f32).collect(),
            columns: columns.map(|v| v as f32).collect(),
        }
    }

    fn at(&self, y: usize, x: usize) -> f32 {
        self.rows[y] * self.columns[x]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_ocean_and_fewer_further_down() {
        for (ny, nx, levels) in [(1, 1, 1), (1, 2, 19), (4, 5, 19), (30, 60, 3)] {
            let waves = Waves::new(ny, nx, levels, 5);
            let ocean = |k| waves.wet.iter().filter(|w| **w > k).count();
            assert!(ocean(levels - 1) > 0, "{ny} x {nx} x {levels}");
            assert!((1..levels).all(|k| ocean(k) <= ocean(k - 1)));
        }
        let ocean = Waves::new(30, 60, 3, 5)
            .wet
            .iter()
            .filter(|w| **w > 0)
            .count();
        assert_eq!(ocean, 1260);
    }

    #[test]
    fn planes_do_not_depend_on_the_order_of_asking() {
        let plane = |waves: &mut Waves, name: &str, row| {
            let mut out = vec![0.0; 20];
            waves.plane(&name.parse().unwrap(), row, &mut out);
            out
        };
        let mut waves = Waves::new(4, 5, 2, 5);
        let first = plane(&mut waves, "thetao_1", 3);
        let other = plane(&mut waves, "thetao_0", 3);
        let later = plane(&mut waves, "thetao_1", 4);
        assert!(first != other && first != later);
        assert_eq!(first, plane(&mut waves, "thetao_1", 3));
    }
}
