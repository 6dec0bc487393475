//! A picture in memory, written as PNG. Its text is set in DejaVu Sans, which the program carries: the
//! machines that train have no fonts.

use crate::files;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::{BitMapBackend, DrawingArea, FontStyle, IntoDrawingArea, RGBColor, WHITE};
use plotters::style::{IntoTextStyle, TextStyle, register_font};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::OnceLock;

/// What is drawn on.
pub(super) type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(38, 42, 51);
/// Lines around maps.
pub(super) const FRAME: RGBColor = RGBColor(70, 70, 70);

const FONT: &str = "sans-serif";
/// Of all text, in pixels.
pub(super) const TEXT_HEIGHT: i32 = 20;

/// Text on this area.
pub(super) fn text_style<'a>(area: &Area) -> TextStyle<'a> {
    (FONT, TEXT_HEIGHT, &INK).into_text_style(area)
}

/// Draws on a white area of `size` pixels (width, height) and writes it to `path`.
///
/// # Errors
/// What `draw` returns, or a file that cannot be written.
pub(super) fn write_png(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Area) -> Result<()>,
) -> Result<()> {
    static FONT_IS_KNOWN: OnceLock<bool> = OnceLock::new();
    let register = || register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok();
    if !FONT_IS_KNOWN.get_or_init(register) {
        return Err(anyhow!("the font DejaVu Sans cannot be used"));
    }
    let (width, height) = size;
    let mut pixels = vec![0; 3 * width as usize * height as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    files::put(path, |to| {
        let mut file = BufWriter::new(File::create(to)?);
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        // Dropped, it would keep what the disk says to itself.
        Ok(file.flush()?)
    })
}
