//! Maps of truth, prediction and error, one row of them per channel.

use super::number::number;
use super::picture::{Area, FRAME, TEXT_HEIGHT, text_style, write_png};
use anyhow::{Result, ensure};
use plotters::element::{BitMapElement, Rectangle, Text};
use plotters::style::RGBColor;
use plotters::style::colors::colormaps::{ColorMap, DerivedColorMap, ViridisRGB};
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

/// Around everything, in pixels, as all sizes here.
const MARGIN: i32 = 24;
/// Heading with its margins.
const HEAD: i32 = MARGIN + TEXT_HEIGHT + 16;
/// A panel's caption.
const LABEL: i32 = TEXT_HEIGHT + 8;
/// Between panels.
const GAP: i32 = 26;
/// A colour bar, and the same with its numbers.
const BAR: i32 = 14;
const BAR_SPACE: i32 = 10 + BAR + 8 + 84;

const LAND: RGBColor = RGBColor(172, 172, 172);
/// A prediction that is not a number where the truth is one.
const BROKEN: RGBColor = RGBColor(255, 0, 255);
/// Blue, white, red.
const BLUE_RED: [RGBColor; 9] = [
    RGBColor(24, 78, 150),
    RGBColor(67, 147, 195),
    RGBColor(146, 197, 222),
    RGBColor(214, 231, 242),
    RGBColor(252, 252, 252),
    RGBColor(253, 222, 205),
    RGBColor(244, 165, 130),
    RGBColor(214, 96, 77),
    RGBColor(165, 15, 33),
];

/// Writes a PNG with a row of three maps per channel: truth and prediction on the truth's scale,
/// and their difference. North is up; cells that are NaN in the truth are grey.
///
/// # Errors
/// A field that is not of its grid's size, or a file that cannot be written.
pub fn write_maps(path: &Path, heading: &str, rows: &[MapRow]) -> Result<()> {
    let (mut width, mut height) = (600, HEAD);
    for row in rows {
        let (ny, nx) = row.grid;
        let same = row.truth.len() == ny * nx && row.prediction.len() == ny * nx;
        ensure!(ny > 0 && nx > 0 && same, "map of {}: wrong size", row.name);
        let (map_width, map_height) = map_size(row);
        height += LABEL + map_height + GAP;
        width = width.max(2 * MARGIN + 3 * map_width + GAP + 2 * BAR_SPACE);
    }
    write_png(path, (width as u32, height as u32), |area| {
        area.draw(&Text::new(heading, (MARGIN, MARGIN), text_style(area)))?;
        let mut top = HEAD;
        for row in rows {
            draw_row(area, top, row)?;
            top += LABEL + map_size(row).1 + GAP;
        }
        Ok(())
    })
}

/// Pixels per cell: about 450 a map.
fn zoom(row: &MapRow) -> usize {
    (450 / row.grid.1).max(1)
}

/// Width and height.
fn map_size(row: &MapRow) -> (i32, i32) {
    let (ny, nx) = row.grid;
    ((nx * zoom(row)) as i32, (ny * zoom(row)) as i32)
}

fn draw_row(area: &Area, top: i32, row: &MapRow) -> Result<()> {
    let valid = || row.truth.iter().copied().filter(|v| v.is_finite());
    let range = valid().reduce(f32::min).zip(valid().reduce(f32::max));
    let (low, high) = range.unwrap_or((0.0, 0.0));
    let cells = row.prediction.iter().zip(row.truth);
    let error: Vec<f32> = cells.map(|(p, t)| p - t).collect();
    let (rmse, limit) = error_sizes(&error);
    let blue_red = DerivedColorMap::new(&BLUE_RED);
    let field = Scale {
        colours: &ViridisRGB,
        low,
        high,
    };
    let difference = Scale {
        colours: &blue_red,
        low: -limit,
        high: limit,
    };

    let truth = format!("{} [{}] truth", row.name, row.units);
    let wrong = format!("error, RMSE {}", number(rmse, rmse));
    let x = draw_map(area, (MARGIN, top), &truth, row, row.truth, &field)? + GAP;
    let x = draw_map(area, (x, top), "prediction", row, row.prediction, &field)?;
    let x = draw_bar(area, (x, top), map_size(row).1, &field)?;
    let x = draw_map(area, (x, top), &wrong, row, &error, &difference)?;
    draw_bar(area, (x, top), map_size(row).1, &difference)?;
    Ok(())
}

/// Returns where the map ends, to the right.
fn draw_map(
    area: &Area,
    (x, y): (i32, i32),
    caption: &str,
    row: &MapRow,
    values: &[f32],
    scale: &Scale,
) -> Result<i32> {
    area.draw(&Text::new(caption, (x, y), text_style(area)))?;
    let (ny, nx) = row.grid;
    let zoom = zoom(row);
    let size = map_size(row);
    let colour = |column: usize, line: usize| {
        let cell = (ny - 1 - line / zoom) * nx + column / zoom;
        match (row.truth[cell].is_finite(), values[cell].is_finite()) {
            (false, _) => LAND,
            (true, false) => BROKEN,
            (true, true) => scale.of(values[cell]),
        }
    };
    draw_pixels(area, (x, y + LABEL), size, colour)?;
    Ok(x + size.0)
}

/// A scale's colours with its ends and its middle; returns where it ends, to the right.
fn draw_bar(area: &Area, (x, y): (i32, i32), height: i32, scale: &Scale) -> Result<i32> {
    let (left, top) = (x + 10, y + LABEL);
    let colour = |_: usize, line: usize| scale.at(1.0 - (line as f32 + 0.5) / height as f32);
    draw_pixels(area, (left, top), (BAR, height), colour)?;
    let middle = (scale.low + scale.high) / 2.0;
    for (down, value) in [(0.0, scale.high), (0.5, middle), (1.0, scale.low)] {
        let text = number(value, scale.high - scale.low);
        let y = top + (down * (height - TEXT_HEIGHT) as f32) as i32;
        area.draw(&Text::new(text, (left + BAR + 8, y), text_style(area)))?;
    }
    Ok(x + BAR_SPACE)
}

/// A framed picture, pixel by pixel: column and line from the top left.
fn draw_pixels(
    area: &Area,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
    colour: impl Fn(usize, usize) -> RGBColor,
) -> Result<()> {
    let lines = 0..height as usize;
    let places = lines.flat_map(|line| (0..width as usize).map(move |column| (column, line)));
    let pixels = places.flat_map(|(column, line)| {
        let RGBColor(red, green, blue) = colour(column, line);
        [red, green, blue]
    });
    let size = (width as u32, height as u32);
    let picture: Option<BitMapElement<_>> =
        BitMapElement::with_owned_buffer((x, y), size, pixels.collect());
    if let Some(picture) = picture {
        area.draw(&picture)?;
    }
    area.draw(&Rectangle::new(
        [(x - 1, y - 1), (x + width, y + height)],
        FRAME,
    ))?;
    Ok(())
}

/// Root mean square and 99th percentile of the sizes.
fn error_sizes(error: &[f32]) -> (f32, f32) {
    let sizes = error.iter().map(|e| e.abs());
    let mut sizes: Vec<f32> = sizes.filter(|e| e.is_finite()).collect();
    sizes.sort_by(f32::total_cmp);
    let squares: f64 = sizes.iter().map(|e| f64::from(*e) * f64::from(*e)).sum();
    let rmse = (squares / sizes.len().max(1) as f64).sqrt() as f32;
    let limit = sizes.get(sizes.len().saturating_sub(1) * 99 / 100).copied();
    (rmse, limit.unwrap_or(0.0))
}

/// Colours for values from `low` to `high`.
struct Scale<'a> {
    colours: &'a dyn ColorMap<RGBColor>,
    low: f32,
    high: f32,
}

impl Scale<'_> {
    fn of(&self, value: f32) -> RGBColor {
        let width = self.high - self.low;
        match width > 0.0 {
            true => self.at((value - self.low) / width),
            false => self.at(0.5),
        }
    }

    /// `share` 0 is the lowest colour, 1 the highest.
    fn at(&self, share: f32) -> RGBColor {
        self.colours.get_color(share.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
