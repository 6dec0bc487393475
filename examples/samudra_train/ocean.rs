//! A small ocean to learn from, when there is no OM4 store at hand.
//!
//! Earth's coastlines on 32 by 64 cells, four years of 5-day rows. Weather systems travel over the
//! sea: their wind stirs it, their heat flux warms and cools it, the currents carry the warmth
//! along, and the second level follows the first. The physics is that of a toy: one constant
//! Coriolis parameter, a planet of a third of the circumference, so that five days of flow cross
//! about half a cell.
//! What matters is that each row follows from the row before and its forcing alone, and that it
//! differs from it by a good part of the field's spread: an emulator has something to learn, and
//! "tomorrow as today" is a poor forecast of every channel.

use anyhow::Context;
use burn_om4::synth::{Existing, Field, SplitMix64, SynthOptions};
use burn_om4::{Channel, Date};
use std::f64::consts::TAU;
use std::path::Path;

/// Cells from south to north, and from west to east.
pub const GRID: (usize, usize) = (32, 64);
/// Channels to predict.
pub const PROGNOSTIC: &str = "uo_0,vo_0,thetao_0,thetao_1,zos";
/// Channels that force them.
pub const BOUNDARY: &str = "tauuo,tauvo,hfds";
/// Rows to train on: three years.
pub const TRAIN: &str = "2001-01-01..2003-12-31";
/// Rows to validate on: the fourth year.
pub const VALIDATION: &str = "2004-01-01..2004-12-31";

/// Raise this when the values change: older stores are then written anew.
const VERSION: &str = "demo ocean 1\n";
const VERSION_FILE: &str = "DEMO_OCEAN";

/// 73 rows to a year.
const YEAR: usize = 73;
const ROWS: usize = 4 * YEAR;

/// Writes the demo's `OM4.zarr`, `OM4_means.zarr` and `OM4_stds.zarr` into `dir`, unless they are
/// there already. `progress` hears the fraction done.
pub fn write_demo(dir: &Path, mut progress: impl FnMut(f32)) -> anyhow::Result<()> {
    let marker = dir.join(VERSION_FILE);
    let complete = || {
        std::fs::read_to_string(&marker).is_ok_and(|v| v == VERSION)
            && dir.join("OM4.zarr").is_dir()
    };
    if complete() {
        progress(1.0);
        return Ok(());
    }
    let (ny, nx) = GRID;
    let start = Date {
        year: 2001,
        month: 1,
        day: 3,
    };
    // Only what carries the marker is ours to replace.
    let existing = match marker.exists() {
        true => Existing::Replace,
        false => Existing::Refuse,
    };
    let options = SynthOptions::new(ny, nx)
        .with_levels(2)
        .with_rows(ROWS)
        .with_start(start)
        .with_variables(&["thetao", "uo", "vo"], &["zos", "hfds", "tauuo", "tauvo"])
        .with_existing(existing);
    let mut run = Run {
        ocean: Ocean::new(2001),
        row: 0,
        progress: &mut progress,
    };
    let written = options.write_field(dir, &mut run);
    // Another process may have written the same meanwhile: just as good.
    if written.is_err() && complete() {
        return Ok(());
    }
    written.context("writing the demo ocean")?;
    std::fs::write(&marker, VERSION).with_context(|| format!("writing {}", marker.display()))?;
    Ok(())
}

/// An [`Ocean`] that steps along as the writer asks for rows.
struct Run<'a> {
    ocean: Ocean,
    row: usize,
    progress: &'a mut dyn FnMut(f32),
}

impl Field for Run<'_> {
    fn is_ocean(&self, level: usize, y: usize, x: usize) -> bool {
        self.ocean.wet[level][y * GRID.1 + x]
    }

    fn plane(&mut self, channel: &Channel, row: usize, out: &mut [f32]) {
        while self.row < row {
            self.ocean.step();
            self.row += 1;
            (self.progress)(self.row as f32 / ROWS as f32);
        }
        out.copy_from_slice(self.ocean.plane(channel.name()));
    }
}

const CELLS: usize = GRID.0 * GRID.1;
type Plane = Vec<f32>;

/// Seconds from row to row, and the metres of a cell.
const STEP: f32 = 5.0 * 86400.0;
const CELL: f32 = 210e3;
/// Parts of a step: a particle crosses a fraction of a cell in each.
const PARTS: usize = 4;

/// Kelvin per step and W m-2: 15 m of sea water.
const WARMING: f32 = STEP / (4.1e6 * 15.0);
/// W m-2 that each kelvin above the climate gives off.
const FEEDBACK: f32 = 30.0;

struct Ocean {
    wet: [Vec<bool>; 2],
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
    fn new(seed: u64) -> Self {
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

    fn plane(&self, name: &str) -> &[f32] {
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
    fn step(&mut self) {
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

fn cells(wet: &[bool]) -> impl Iterator<Item = usize> {
    (0..CELLS).filter(|i| wet[*i])
}

/// Neighbours in the west, east, south and north: round the globe, but not over a pole.
fn beside(i: usize) -> [usize; 4] {
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
fn around(i: usize) -> Vec<usize> {
    let [west, east, south, north] = beside(i);
    let corners = [west, east].map(|side| [beside(side)[2], beside(side)[3]]);
    let mut all = vec![west, east, south, north];
    all.extend(corners.concat());
    all
}

fn slope(field: &[f32], i: usize, low: usize, high: usize, wet: &[bool]) -> f32 {
    let at = |n: usize| if wet[n] { field[n] } else { field[i] };
    (at(high) - at(low)) / 2.0
}

fn slope_x(field: &[f32], i: usize, wet: &[bool]) -> f32 {
    let [west, east, ..] = beside(i);
    slope(field, i, west, east, wet)
}

fn slope_y(field: &[f32], i: usize, wet: &[bool]) -> f32 {
    let [_, _, south, north] = beside(i);
    slope(field, i, south, north, wet)
}

fn diffuse(field: &[f32], rate: f32, wet: &[bool]) -> Plane {
    let mut out = field.to_vec();
    for i in cells(wet) {
        let wet_beside = beside(i).into_iter().filter(|n| wet[*n]);
        out[i] += rate * wet_beside.map(|n| field[n] - field[i]).sum::<f32>();
    }
    out
}

/// Semi-Lagrangian: each cell takes the value from where its water came, `shift` (cells east,
/// cells north) before; water does not come from land.
fn advect(field: &[f32], shift: impl Fn(usize) -> (f32, f32), wet: &[bool]) -> Plane {
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

/// North at the top, Greenwich at the left; `#` is land. From the GLOBE elevation data (NOAA,
/// public domain), inland seas filled.
const EARTH: [&str; GRID.0] = [
    "................................................................",
    ".................................................###########....",
    ".................###............................##...#######....",
    "....#.......################.......##.....####.#####...#####....",
    "..##############################...#################...##.......",
    ".########################...#......##..##############...........",
    ".########################................#############.........#",
    "#########################.................###########...........",
    "#######################...................#########............#",
    "#####################.....................########.............#",
    "######################......................######............##",
    "#####################........................##..............###",
    "##########...##..##..........................##..............###",
    "#########....#....#.............................#............###",
    "#########.........................................###.........##",
    "..######............#.............................#####.........",
    "..#####...........#.....#.........................#######.......",
    "..#####..................#........................########......",
    "..#####................#...........................######.......",
    "..####..#............#####.........................######.......",
    "...###..............#######........................#####........",
    "...##...............#######........................####.........",
    ".........................##........................###..........",
    "...................................................##...........",
    "...................................................#............",
    "...................................................#............",
    "................................................................",
    "................................................................",
    ".....########################.......................#...........",
    "#############################.........##############........####",
    "#############################........###############..##########",
    "################################################################",
];
