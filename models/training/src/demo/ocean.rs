//! The physics of the small ocean, a toy's: one constant Coriolis parameter, a planet of a third of the
//! circumference, so that five days of flow cross about half a cell.

use super::coastlines::{CELLS, EARTH, GRID};
use super::stencil::{Plane, advect, around, cells, diffuse, slope_x, slope_y};
use burn_om4::synth::SplitMix64;
use std::f64::consts::TAU;

/// 73 rows to a year.
pub(super) const YEAR: usize = 73;

/// Seconds from row to row, and the metres of a cell.
const STEP: f32 = 5.0 * 86400.0;
const CELL: f32 = 210e3;
/// Parts of a step: a particle crosses a fraction of a cell in each.
const PARTS: usize = 4;

/// Kelvin per step and W m-2: 15 m of sea water.
const WARMING: f32 = STEP / (4.1e6 * 15.0);
/// W m-2 that each kelvin above the climate gives off.
const FEEDBACK: f32 = 30.0;

/// The state of the ocean, its forcing and its weather.
pub(super) struct Ocean {
    /// Cells with water, at both levels.
    pub(super) wet: [Vec<bool>; 2],
    /// °C at both levels.
    theta: [Plane; 2],
    /// m/s at both levels.
    u: [Plane; 2],
    v: [Plane; 2],
    /// m
    zos: Plane,
    /// W m-2
    hfds: Plane,
    /// N m-2
    taux: Plane,
    tauy: Plane,
    storms: Vec<Storm>,
    rng: SplitMix64,
    time: usize,
}

/// A weather system: a vortex of wind and a patch of heating or cooling.
struct Storm {
    y: f32,
    x: f32,
    eastward: f32,
    northward: f32,
    radius: f32,
    wind: f32,
    heat: f32,
    age: f32,
    life: f32,
}

impl Storm {
    fn new(rng: &mut SplitMix64) -> Self {
        let mut between = |low: f32, high: f32| low + (high - low) * rng.uniform() as f32;
        let (y, x) = (between(0.0, GRID.0 as f32), between(0.0, GRID.1 as f32));
        let (eastward, northward) = (between(0.4, 2.0), between(-0.4, 0.4));
        let (radius, life) = (between(2.2, 4.0), between(3.0, 8.0));
        Self {
            y,
            x,
            eastward,
            northward,
            radius,
            wind: rng.normal() as f32,
            heat: rng.normal() as f32,
            age: 0.0,
            life,
        }
    }

    /// Strength now: it grows and fades.
    fn envelope(&self) -> f32 {
        (self.age / self.life * std::f32::consts::PI).sin()
    }
}

impl Ocean {
    /// The ocean after two years of spinning up.
    pub(super) fn new(seed: u64) -> Self {
        let surface: Vec<bool> = EARTH
            .iter()
            .rev()
            .flat_map(|row| row.bytes().map(|b| b == b'.'))
            .collect();
        // Cells nearly enclosed by land are shallow: they have no second level.
        let deep = |i: usize| {
            let neighbours = around(i).into_iter().filter(|n| surface[*n]).count();
            surface[i] && neighbours >= 4
        };
        let deep = (0..CELLS).map(deep).collect();
        let plane = || vec![0.0; CELLS];
        let climate: Plane = (0..CELLS).map(|i| climate(i / GRID.1, 0)).collect();
        let mut ocean = Self {
            wet: [surface, deep],
            theta: [climate.clone(), climate],
            u: [plane(), plane()],
            v: [plane(), plane()],
            zos: plane(),
            hfds: plane(),
            taux: plane(),
            tauy: plane(),
            storms: Vec::new(),
            rng: SplitMix64::new(seed),
            time: 0,
        };
        ocean.force();
        for _ in 0..2 * YEAR {
            ocean.step();
        }
        ocean
    }

    /// The present values of a channel.
    pub(super) fn plane(&self, name: &str) -> &[f32] {
        match name {
            "thetao_0" => &self.theta[0],
            "thetao_1" => &self.theta[1],
            "uo_0" => &self.u[0],
            "uo_1" => &self.u[1],
            "vo_0" => &self.v[0],
            "vo_1" => &self.v[1],
            "zos" => &self.zos,
            "hfds" => &self.hfds,
            "tauuo" => &self.taux,
            _ => &self.tauy,
        }
    }

    /// Five days under the present forcing, then the forcing of the new time.
    pub(super) fn step(&mut self) {
        for _ in 0..PARTS {
            self.move_on();
        }
        self.time += 1;
        self.force();
    }

    /// Heat flux and wind of the present time.
    fn force(&mut self) {
        for storm in &mut self.storms {
            storm.age += 1.0;
            storm.x += storm.eastward;
            storm.y += storm.northward;
        }
        self.storms.retain(|s| s.age < s.life);
        // About 36 at a time.
        for _ in 0..7 {
            self.storms.push(Storm::new(&mut self.rng));
        }
        for i in 0..CELLS {
            let (y, x) = (i / GRID.1, i % GRID.1);
            let lat = latitude(y);
            // Trade winds and westerlies, which follow the sun.
            let sun = 0.12 * season(self.time);
            let (mut taux, mut tauy) = (-0.06 * (3.0 * (lat - sun)).cos() * lat.cos(), 0.0);
            let mut heat = -FEEDBACK * (self.theta[0][i] - climate(y, self.time));
            for storm in &self.storms {
                let dy = (y as f32 - storm.y) / storm.radius;
                let width = GRID.1 as f32;
                let apart = (x as f32 - storm.x).rem_euclid(width);
                let dx = if apart > width / 2.0 {
                    apart - width
                } else {
                    apart
                } / storm.radius;
                let near = storm.envelope() * (-0.5 * (dx * dx + dy * dy)).exp();
                taux += 0.14 * storm.wind * dy * near;
                tauy -= 0.14 * storm.wind * dx * near;
                heat += 220.0 * storm.heat * near;
            }
            self.taux[i] = taux;
            self.tauy[i] = tauy;
            self.hfds[i] = heat;
        }
    }

    /// A part of a step.
    fn move_on(&mut self) {
        let part = 1.0 / PARTS as f32;
        let wet = &self.wet[0];

        // Sea level: raised by the wind's curl and by warming, carried west, damped.
        let carried = advect(&self.zos, |_| (-0.5 * part, 0.0), wet);
        let mut zos = diffuse(&carried, 0.03, wet);
        for i in cells(wet) {
            let curl = slope_x(&self.tauy, i, wet) - slope_y(&self.taux, i, wet);
            let change = 1.6 * curl + 3.0e-4 * self.hfds[i] - 0.15 * zos[i];
            zos[i] += part * change;
        }

        // Currents: on their way to balance with sea level and wind.
        let nearer = 1.0 - 0.45f32.powf(part);
        for i in cells(wet) {
            let (taux, tauy) = (self.taux[i], self.tauy[i]);
            let u = -2.2 * slope_y(&zos, i, wet) + 1.5 * (taux + tauy);
            let v = 2.2 * slope_x(&zos, i, wet) + 1.5 * (tauy - taux);
            self.u[0][i] += nearer * (u - self.u[0][i]);
            self.v[0][i] += nearer * (v - self.v[0][i]);
        }
        for i in 0..CELLS {
            self.u[1][i] = 0.7 * self.u[0][i];
            self.v[1][i] = 0.7 * self.v[0][i];
        }

        // Warmth: carried by the currents, mixed, heated from above, exchanged between levels.
        let mut theta: Vec<Plane> = Vec::new();
        for level in 0..2 {
            let (u, v, wet) = (&self.u[level], &self.v[level], &self.wet[level]);
            let cells_per_part = part * STEP / CELL;
            let carried = advect(
                &self.theta[level],
                |i| (u[i] * cells_per_part, v[i] * cells_per_part),
                wet,
            );
            theta.push(diffuse(&carried, 0.02, wet));
        }
        for i in cells(wet) {
            theta[0][i] += part * WARMING * self.hfds[i];
        }
        for i in cells(&self.wet[1]) {
            let apart = theta[0][i] - theta[1][i];
            theta[0][i] -= part * 0.1 * apart;
            theta[1][i] += part * 0.7 * apart;
        }
        self.zos = zos;
        let [upper, lower] = &mut self.theta;
        (*lower, *upper) = (
            theta.pop().unwrap_or_default(),
            theta.pop().unwrap_or_default(),
        );
    }
}

fn latitude(y: usize) -> f32 {
    ((y as f32 + 0.5) / GRID.0 as f32 - 0.5) * std::f32::consts::PI
}

/// 1 in the northern midsummer, -1 in midwinter.
fn season(time: usize) -> f32 {
    (TAU * (time as f64 / YEAR as f64 - 0.55)).cos() as f32
}

/// The temperature that heating alone would lead to, °C.
fn climate(y: usize, time: usize) -> f32 {
    let lat = latitude(y);
    15.0 + 2.6 * (2.0 * lat).cos() + 2.2 * lat.sin() * season(time)
}
