//! Pictures of a forecast: maps of truth, prediction and error, and curves of error against lead.

use super::canvas::{Align, Canvas, Colour, INK, LETTER, text_width};
use anyhow::ensure;
use std::path::Path;

/// One channel at one time; fields are `(y, x)`, south first, NaN where there is nothing to show.
pub struct MapRow<'a> {
    /// Of the channel.
    pub name: &'a str,
    /// Of its values.
    pub units: &'a str,
    /// `(ny, nx)`.
    pub grid: (usize, usize),
    /// As it was.
    pub truth: &'a [f32],
    /// As the network says.
    pub prediction: &'a [f32],
}

/// Writes a PNG with a row of three maps per channel: truth and prediction on the truth's scale,
/// and their difference. North is up; cells that are NaN in the truth are grey.
pub fn write_maps(path: &Path, heading: &str, rows: &[MapRow]) -> anyhow::Result<()> {
    let mut height = HEAD;
    let mut width = 2 * MARGIN + text_width(heading);
    for row in rows {
        let (ny, nx) = row.grid;
        let same = row.truth.len() == ny * nx && row.prediction.len() == ny * nx;
        ensure!(ny > 0 && nx > 0 && same, "map of {}: wrong size", row.name);
        let zoom = zoom(nx);
        height += LABEL + ny * zoom + GAP;
        width = width.max(2 * MARGIN + 3 * nx * zoom + GAP + 2 * BAR_SPACE);
    }
    let mut canvas = Canvas::new(width, height);
    canvas.text(MARGIN, MARGIN, Align::Left, heading, INK);
    let mut y = HEAD;
    for row in rows {
        y = draw_row(&mut canvas, y, row);
    }
    canvas.write_png(path)
}

const MARGIN: usize = 24;
/// Heading with its margins.
const HEAD: usize = MARGIN + LETTER.1 + 18;
/// A panel's caption.
const LABEL: usize = LETTER.1 + 8;
const GAP: usize = 26;
const BAR: usize = 14;
/// A colour bar with its numbers.
const BAR_SPACE: usize = 10 + BAR + 8 + 7 * LETTER.0 + 8;

/// Pixels per cell: about 450 a map.
fn zoom(nx: usize) -> usize {
    (450 / nx).max(1)
}

fn draw_row(canvas: &mut Canvas, top: usize, row: &MapRow) -> usize {
    let (ny, nx) = row.grid;
    let zoom = zoom(nx);
    let (width, height) = (nx * zoom, ny * zoom);
    let map_top = top + LABEL;
    let valid = || row.truth.iter().copied().filter(|v| v.is_finite());
    let range = match (valid().reduce(f32::min), valid().reduce(f32::max)) {
        (Some(low), Some(high)) => (low, high),
        _ => (0.0, 0.0),
    };
    let cells = row.prediction.iter().zip(row.truth);
    let error: Vec<f32> = cells.map(|(p, t)| p - t).collect();
    let (rmse, limit) = spread(&error);

    let panel = |canvas: &mut Canvas, x: usize, caption: &str, values: &[f32], map: &Colours| {
        canvas.text(x, top, Align::Left, caption, INK);
        for (i, (value, truth)) in values.iter().zip(row.truth).enumerate() {
            let colour = match (truth.is_finite(), value.is_finite()) {
                (false, _) => LAND,
                (true, false) => BROKEN,
                (true, true) => map.of(*value),
            };
            let (from_north, column) = (ny - 1 - i / nx, i % nx);
            canvas.fill(
                x + column * zoom,
                map_top + from_north * zoom,
                zoom,
                zoom,
                colour,
            );
        }
        canvas.frame(x, map_top, width, height, FRAME);
        x + width
    };
    let bar = |canvas: &mut Canvas, x: usize, map: &Colours| {
        let x = x + 10;
        for y in 0..height {
            let share = 1.0 - (y as f32 + 0.5) / height as f32;
            canvas.fill(x, map_top + y, BAR, 1, map.at(share));
        }
        canvas.frame(x, map_top, BAR, height, FRAME);
        let middle = (map.low + map.high) / 2.0;
        let ends = [(0.0, map.high), (0.5, middle), (1.0, map.low)];
        for (down, value) in ends {
            let y = map_top as f32 + down * (height as f32 - 14.0);
            let text = number(value, map.high - map.low);
            canvas.text(x + BAR + 8, y as usize, Align::Left, &text, INK);
        }
        x - 10 + BAR_SPACE
    };

    let field = Colours {
        anchors: &VIRIDIS,
        low: range.0,
        high: range.1,
    };
    let difference = Colours {
        anchors: &BLUE_RED,
        low: -limit,
        high: limit,
    };
    let truth = format!("{} [{}] truth", row.name, row.units);
    let wrong = format!("error, RMSE {}", number(rmse, rmse));
    let x = panel(canvas, MARGIN, &truth, row.truth, &field) + GAP;
    let x = panel(canvas, x, "prediction", row.prediction, &field);
    let x = bar(canvas, x, &field);
    let x = panel(canvas, x, &wrong, &error, &difference);
    bar(canvas, x, &difference);
    map_top + height + GAP
}

/// Root mean square and 99th percentile of the sizes.
fn spread(error: &[f32]) -> (f32, f32) {
    let mut sizes: Vec<f32> = error
        .iter()
        .map(|e| e.abs())
        .filter(|e| e.is_finite())
        .collect();
    sizes.sort_by(f32::total_cmp);
    let squares: f64 = sizes.iter().map(|e| f64::from(*e) * f64::from(*e)).sum();
    let rmse = (squares / sizes.len().max(1) as f64).sqrt() as f32;
    let limit = sizes.get(sizes.len().saturating_sub(1) * 99 / 100).copied();
    (rmse, limit.unwrap_or(0.0))
}

/// One channel's error against lead.
pub struct Curve<'a> {
    /// Of the channel.
    pub name: &'a str,
    /// Of its values.
    pub units: &'a str,
    /// Root mean square error at leads 1, 2, 3, ...
    pub model: &'a [f32],
    /// The same for "as at the start".
    pub persistence: &'a [f32],
}

/// Writes a PNG with a small chart per channel: error of the model and of persistence against the
/// lead, where a lead is `days` long.
pub fn write_skill(path: &Path, heading: &str, days: f32, curves: &[Curve]) -> anyhow::Result<()> {
    let columns = curves.len().clamp(1, 3);
    let cell = (LEFT + PLOT.0 + GAP, LABEL + PLOT.1 + 2 * LETTER.1 + GAP);
    let legend = ["model", "persistence"];
    let legend_width = text_width("modelpersistence") + 160;
    let width =
        (2 * MARGIN + columns * cell.0).max(3 * MARGIN + text_width(heading) + legend_width);
    let rows = curves.len().div_ceil(columns);
    let mut canvas = Canvas::new(width, HEAD + rows * cell.1);
    canvas.text(MARGIN, MARGIN, Align::Left, heading, INK);
    let mut x = width - MARGIN;
    for (name, colour) in legend.into_iter().zip([MODEL, PERSISTENCE]).rev() {
        canvas.text(x, MARGIN, Align::Right, name, INK);
        x -= text_width(name) + 10;
        let y = MARGIN as f32 + 7.0;
        canvas.line((x as f32 - 30.0, y), (x as f32, y), 3.0, colour);
        x -= 30 + 24;
    }
    for (i, curve) in curves.iter().enumerate() {
        let at = (MARGIN + i % columns * cell.0, HEAD + i / columns * cell.1);
        draw_chart(&mut canvas, at, days, curve);
    }
    canvas.write_png(path)
}

const PLOT: (usize, usize) = (340, 200);
/// The numbers left of a chart.
const LEFT: usize = 6 * LETTER.0 + 10;

fn draw_chart(canvas: &mut Canvas, (x, y): (usize, usize), days: f32, curve: &Curve) {
    let caption = format!("{} [{}]", curve.name, curve.units);
    let (left, top) = (x + LEFT, y + LABEL);
    canvas.text(left, y, Align::Left, &caption, INK);
    let leads = curve.model.len().max(curve.persistence.len()).max(1) as f32;
    let values = curve.model.iter().chain(curve.persistence);
    let highest = values
        .copied()
        .filter(|v| v.is_finite())
        .fold(0.0, f32::max);
    let step = round_step(highest / 4.0);
    let full = step * (highest / step).ceil().max(1.0);

    let mut level = 0.0;
    while level <= full * 1.001 {
        let down = top + ((1.0 - level / full) * PLOT.1 as f32) as usize;
        canvas.fill(left, down, PLOT.0, 1, GRID_LINE);
        let text = number(level, step);
        canvas.text(left - 10, down.saturating_sub(7), Align::Right, &text, INK);
        level += step;
    }
    let place = |lead: f32, value: f32| {
        let along = (lead - 1.0) / (leads - 1.0).max(1.0);
        let (width, height) = (PLOT.0 as f32, PLOT.1 as f32);
        // Half a marker inside the frame.
        let x = left as f32 + 8.0 + along * (width - 16.0);
        (x, top as f32 + (1.0 - value / full) * height)
    };
    let ticks = (leads / 8.0).ceil().max(1.0);
    let mut lead = 1.0;
    while lead <= leads {
        let (at, _) = place(lead, 0.0);
        canvas.fill(at as usize, top + PLOT.1, 1, 5, INK);
        let text = number(lead * days, f32::INFINITY);
        let below = top + PLOT.1 + 9;
        canvas.text(at as usize, below, Align::Centre, &text, INK);
        lead += ticks;
    }
    let below = top + PLOT.1 + 9 + LETTER.1;
    canvas.text(left + PLOT.0, below, Align::Right, "days", INK);
    canvas.frame(left, top, PLOT.0, PLOT.1, FRAME);
    for (values, colour) in [(curve.persistence, PERSISTENCE), (curve.model, MODEL)] {
        let points = values.iter().enumerate().filter(|(_, v)| v.is_finite());
        let points: Vec<_> = points.map(|(i, v)| place(i as f32 + 1.0, *v)).collect();
        for pair in points.windows(2) {
            canvas.line(pair[0], pair[1], 2.5, colour);
        }
        for point in points {
            canvas.line(point, point, 7.0, colour);
        }
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(rough: f32) -> f32 {
    let power = 10f32.powf(rough.max(1e-12).log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|t| t * power >= rough);
    times.unwrap_or(10.0) * power
}

/// A number with as many places as a scale of this size needs, in at most seven letters.
fn number(value: f32, scale: f32) -> String {
    let largest = value.abs().max(scale.abs());
    if largest.is_finite() && largest > 0.0 && !(1e-3..1e5).contains(&largest) {
        return format!("{value:.1e}");
    }
    let places = match scale.abs() {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 0.5 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

struct Colours {
    anchors: &'static [Colour],
    low: f32,
    high: f32,
}

impl Colours {
    fn of(&self, value: f32) -> Colour {
        let width = self.high - self.low;
        match width > 0.0 {
            true => self.at((value - self.low) / width),
            false => self.at(0.5),
        }
    }

    /// `share` 0 is the lowest colour, 1 the highest.
    fn at(&self, share: f32) -> Colour {
        let last = self.anchors.len() - 1;
        let place = share.clamp(0.0, 1.0) * last as f32;
        let below = (place as usize).min(last - 1);
        let part = place - below as f32;
        let (a, b) = (self.anchors[below], self.anchors[below + 1]);
        let mix = |c: usize| f32::from(a[c]) + part * (f32::from(b[c]) - f32::from(a[c]));
        [0, 1, 2].map(|c| mix(c).round() as u8)
    }
}

const LAND: Colour = [172, 172, 172];
/// A prediction that is not a number where the truth is one.
const BROKEN: Colour = [255, 0, 255];
const FRAME: Colour = [70, 70, 70];
const GRID_LINE: Colour = [226, 228, 232];
const MODEL: Colour = [33, 102, 172];
const PERSISTENCE: Colour = [214, 126, 44];

/// Matplotlib's viridis (CC0) at 17 points.
const VIRIDIS: [Colour; 17] = [
    [68, 1, 84],
    [72, 24, 106],
    [71, 45, 123],
    [66, 64, 134],
    [59, 82, 139],
    [51, 99, 141],
    [44, 114, 142],
    [38, 130, 142],
    [33, 145, 140],
    [31, 160, 136],
    [40, 174, 128],
    [63, 188, 115],
    [94, 201, 98],
    [132, 212, 75],
    [173, 220, 48],
    [216, 226, 25],
    [253, 231, 37],
];

/// Blue, white, red.
const BLUE_RED: [Colour; 9] = [
    [24, 78, 150],
    [67, 147, 195],
    [146, 197, 222],
    [214, 231, 242],
    [252, 252, 252],
    [253, 222, 205],
    [244, 165, 130],
    [214, 96, 77],
    [165, 15, 33],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_scale() {
        let cases = [
            (0.0, 0.0, "0"),
            (-0.0004, 1.0, "0"),
            (12.345, 30.0, "12.3"),
            (0.137, 0.274, "0.137"),
            (-250.4, 1e3, "-250"),
            (1.5e-5, 3e-5, "1.5e-5"),
        ];
        for (value, scale, text) in cases {
            assert_eq!(number(value, scale), text);
        }
    }

    #[test]
    fn odd_fields_still_make_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("maps.png");
        let nan = [f32::NAN; 6];
        let wild = [1.0, f32::INFINITY, f32::NAN, -3.0, 1e38, 0.0];
        let rows = [(&nan, &nan), (&[2.0; 6], &wild), (&wild, &nan)];
        let rows = rows.map(|(truth, prediction)| MapRow {
            name: "zos",
            units: "m",
            grid: (2, 3),
            truth,
            prediction,
        });
        write_maps(&path, "odd", &rows).unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size > 1000, "{size}");
        let wrong = MapRow {
            grid: (3, 3),
            ..rows[0]
        };
        assert!(write_maps(&path, "wrong", &[wrong]).is_err());

        let curve = |model| Curve {
            name: "zos",
            units: "m",
            model,
            persistence: &[],
        };
        let curves = [curve(&[][..]), curve(&[0.0]), curve(&wild)];
        write_skill(&path, "odd", 5.0, &curves).unwrap();
        write_skill(&path, "none", 5.0, &[]).unwrap();
    }
}
