//! Curves of error against lead, one small chart per channel.

use super::number::number;
use super::picture::{Area, TEXT_HEIGHT, text_style, write_png};
use anyhow::Result;
use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Text};
use plotters::series::LineSeries;
use plotters::style::{Color, RGBColor, WHITE};
use std::path::Path;

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

/// In pixels: a chart with its labels, and what is around all of them.
const CHART: (i32, i32) = (440, 300);
const MARGIN: i32 = 24;
/// Heading with its margins.
const HEAD: i32 = MARGIN + TEXT_HEIGHT + 16;

const MODEL: RGBColor = RGBColor(33, 102, 172);
const PERSISTENCE: RGBColor = RGBColor(214, 126, 44);
const GRID_LINE: RGBColor = RGBColor(226, 228, 232);

/// Writes a PNG with a small chart per channel: error of the model and of persistence against the
/// lead, where a lead is `days` long.
///
/// # Errors
/// A file that cannot be written.
pub fn write_skill(path: &Path, heading: &str, days: f32, curves: &[Curve]) -> Result<()> {
    let columns = curves.len().clamp(1, 3);
    let rows = curves.len().div_ceil(columns);
    let width = 2 * MARGIN + columns as i32 * CHART.0;
    let height = HEAD + rows as i32 * CHART.1;
    write_png(path, (width as u32, height as u32), |area| {
        area.draw(&Text::new(heading, (MARGIN, MARGIN), text_style(area)))?;
        let mut x = MARGIN + 120;
        for (name, colour) in [("model", MODEL), ("persistence", PERSISTENCE)] {
            let y = MARGIN + TEXT_HEIGHT / 2;
            let style = colour.stroke_width(3);
            area.draw(&PathElement::new([(x, y), (x + 30, y)], style))?;
            area.draw(&Text::new(name, (x + 40, MARGIN), text_style(area)))?;
            x += 140;
        }
        for (i, curve) in curves.iter().enumerate() {
            let left = MARGIN + (i % columns) as i32 * CHART.0;
            let top = HEAD + (i / columns) as i32 * CHART.1;
            let place = area.clone().shrink((left, top), CHART);
            draw_chart(&place, days, curve)?;
        }
        Ok(())
    })
}

fn draw_chart(area: &Area, days: f32, curve: &Curve) -> Result<()> {
    let leads = curve.model.len().max(curve.persistence.len()).max(1) as f32;
    let values = curve.model.iter().chain(curve.persistence);
    let finite = values.copied().filter(|v| v.is_finite());
    let highest = match finite.fold(0.0, f32::max) {
        0.0 => 1.0,
        highest => highest,
    };
    // Room for a marker at either end.
    let (before, after) = (0.9 * days, (leads + 0.1) * days);
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{} [{}]", curve.name, curve.units),
            text_style(area),
        )
        .margin_right(20)
        .x_label_area_size(3 * TEXT_HEIGHT)
        .y_label_area_size(5 * TEXT_HEIGHT)
        .build_cartesian_2d(
            f64::from(before)..f64::from(after),
            0.0..1.05 * f64::from(highest),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID_LINE)
        .x_labels(8)
        .y_labels(5)
        .label_style(text_style(area))
        .x_desc("days")
        .x_label_formatter(&|x| number(*x as f32, f32::INFINITY))
        .y_label_formatter(&|y| number(*y as f32, highest / 4.0))
        .draw()?;
    for (values, colour) in [(curve.persistence, PERSISTENCE), (curve.model, MODEL)] {
        let points = values.iter().enumerate().filter(|(_, v)| v.is_finite());
        let points = points.map(|(i, v)| (f64::from((i + 1) as f32 * days), f64::from(*v)));
        let style = colour.filled().stroke_width(3);
        chart.draw_series(LineSeries::new(points, style).point_size(4))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_curves_still_make_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skill.png");
        let wild = [1.0, f32::INFINITY, f32::NAN, -3.0, 1e38, 0.0];
        let curve = |model| Curve {
            name: "zos",
            units: "m",
            model,
            persistence: &[],
        };
        let curves = [curve(&[][..]), curve(&[0.0]), curve(&wild)];
        write_skill(&path, "odd", 5.0, &curves).unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size > 1000, "{size}");
        write_skill(&path, "none", 5.0, &[]).unwrap();
    }
}
