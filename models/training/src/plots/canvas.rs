//! A picture in memory: rectangles, lines and text, written as PNG.

use anyhow::Context;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Red, green, blue.
pub(super) type Colour = [u8; 3];

pub(super) const WHITE: Colour = [255, 255, 255];
pub(super) const INK: Colour = [38, 42, 51];

pub(super) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

/// Where text goes relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Centre,
    Right,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize) -> Self {
        let pixels = vec![WHITE; width * height];
        Self {
            width,
            height,
            pixels,
        }
    }

    /// Fills a rectangle; what lies outside the picture is left out.
    pub(super) fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        for row in y.min(self.height)..(y + height).min(self.height) {
            let cells = x.min(self.width)..(x + width).min(self.width);
            self.pixels[row * self.width..][cells].fill(colour);
        }
    }

    /// A frame of one pixel just outside the rectangle.
    pub(super) fn frame(
        &mut self,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        colour: Colour,
    ) {
        let (left, top) = (x.saturating_sub(1), y.saturating_sub(1));
        self.fill(left, top, width + 2, 1, colour);
        self.fill(left, y + height, width + 2, 1, colour);
        self.fill(left, top, 1, height + 2, colour);
        self.fill(x + width, top, 1, height + 2, colour);
    }

    /// A smooth line of `thickness` pixels.
    pub(super) fn line(
        &mut self,
        from: (f32, f32),
        to: (f32, f32),
        thickness: f32,
        colour: Colour,
    ) {
        let reach = thickness / 2.0 + 1.0;
        let span = |a: f32, b: f32, end: usize| {
            let low = (a.min(b) - reach).max(0.0) as usize;
            let high = ((a.max(b) + reach).max(0.0) as usize + 1).min(end);
            low..high
        };
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = (dx * dx + dy * dy).max(1e-6);
        for y in span(from.1, to.1, self.height) {
            for x in span(from.0, to.0, self.width) {
                let (px, py) = (x as f32 + 0.5 - from.0, y as f32 + 0.5 - from.1);
                let along = ((px * dx + py * dy) / length).clamp(0.0, 1.0);
                let distance = (px - along * dx).hypot(py - along * dy);
                self.blend(x, y, colour, thickness / 2.0 + 0.5 - distance);
            }
        }
    }

    fn blend(&mut self, x: usize, y: usize, colour: Colour, share: f32) {
        let share = share.clamp(0.0, 1.0);
        let pixel = &mut self.pixels[y * self.width + x];
        for (old, new) in pixel.iter_mut().zip(colour) {
            *old = (f32::from(*old) + share * (f32::from(new) - f32::from(*old))).round() as u8;
        }
    }

    /// Text with its top edge at `y`; a letter is `LETTER.0` by `LETTER.1` pixels. Characters
    /// that the font lacks become a box.
    pub(super) fn text(&mut self, x: usize, y: usize, align: Align, text: &str, colour: Colour) {
        let width = text_width(text);
        let mut x = match align {
            Align::Left => x,
            Align::Centre => x.saturating_sub(width / 2),
            Align::Right => x.saturating_sub(width),
        };
        for letter in text.chars() {
            let rows = double(glyph(letter));
            for (dy, row) in rows.into_iter().enumerate() {
                for dx in 0..10 {
                    if row >> (9 - dx) & 1 == 1 {
                        self.fill(x + dx, y + dy, 1, 1, colour);
                    }
                }
            }
            x += LETTER.0;
        }
    }

    /// Writes the picture.
    pub(super) fn write_png(&self, path: &Path) -> anyhow::Result<()> {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        let (width, height) = (self.width as u32, self.height as u32);
        let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(self.pixels.as_flattened())?;
        writer.finish()?;
        Ok(())
    }
}

/// Pixels from letter to letter, and from top to bottom (descenders included).
pub(super) const LETTER: (usize, usize) = (12, 18);

pub(super) fn text_width(text: &str) -> usize {
    (text.chars().count() * LETTER.0).saturating_sub(2)
}

/// Twice the size by Johnston's EPX rule, which rounds the diagonals.
fn double(rows: [u8; 9]) -> [u16; 18] {
    let at = |y: isize, x: isize| {
        let inside = (0..9).contains(&y) && (0..5).contains(&x);
        inside && rows[y as usize] >> (4 - x) & 1 == 1
    };
    let mut out = [0; 18];
    for y in 0..9 {
        for x in 0..5 {
            let centre = at(y, x);
            let (up, down) = (at(y - 1, x), at(y + 1, x));
            let (left, right) = (at(y, x - 1), at(y, x + 1));
            let corner = |a: bool, b: bool, other_a: bool, other_b: bool| {
                if a == b && a != other_a && b != other_b {
                    a
                } else {
                    centre
                }
            };
            let corners = [
                [corner(up, left, right, down), corner(up, right, left, down)],
                [corner(down, left, right, up), corner(down, right, left, up)],
            ];
            for (dy, pair) in corners.into_iter().enumerate() {
                for (dx, set) in pair.into_iter().enumerate() {
                    out[2 * y as usize + dy] |= u16::from(set) << (9 - 2 * x as usize - dx);
                }
            }
        }
    }
    out
}

/// Rows of five bits, seven above the base line and two below.
fn glyph(letter: char) -> [u8; 9] {
    let rows = |text: &str| {
        let mut out = [0; 9];
        for (row, digits) in out.iter_mut().zip(text.split(' ')) {
            *row = u8::from_str_radix(digits, 32).unwrap_or(0);
        }
        out
    };
    // One digit of base 32 per row: 0 nothing, 4 the middle column, g the left, 1 the right, v all.
    rows(match letter {
        ' ' => "0",
        'A' => "e h h v h h h",
        'B' => "u h h u h h u",
        'C' => "e h g g g h e",
        'D' => "u h h h h h u",
        'E' => "v g g u g g v",
        'F' => "v g g u g g g",
        'G' => "e h g n h h f",
        'H' => "h h h v h h h",
        'I' => "e 4 4 4 4 4 e",
        'J' => "7 2 2 2 2 i c",
        'K' => "h i k o k i h",
        'L' => "g g g g g g v",
        'M' => "h r l l h h h",
        'N' => "h h p l j h h",
        'O' => "e h h h h h e",
        'P' => "u h h u g g g",
        'Q' => "e h h h l i d",
        'R' => "u h h u k i h",
        'S' => "f g g e 1 1 u",
        'T' => "v 4 4 4 4 4 4",
        'U' => "h h h h h h e",
        'V' => "h h h h h a 4",
        'W' => "h h h l l l a",
        'X' => "h h a 4 a h h",
        'Y' => "h h a 4 4 4 4",
        'Z' => "v 1 2 4 8 g v",
        'a' => "0 0 e 1 f h f",
        'b' => "g g u h h h u",
        'c' => "0 0 e g g h e",
        'd' => "1 1 f h h h f",
        'e' => "0 0 e h v g e",
        'f' => "6 9 8 s 8 8 8",
        'g' => "0 0 f h h h f 1 e",
        'h' => "g g m p h h h",
        'i' => "4 0 c 4 4 4 e",
        'j' => "2 0 6 2 2 2 2 i c",
        'k' => "g g i k o k i",
        'l' => "c 4 4 4 4 4 e",
        'm' => "0 0 q l l h h",
        'n' => "0 0 m p h h h",
        'o' => "0 0 e h h h e",
        'p' => "0 0 u h h h u g g",
        'q' => "0 0 f h h h f 1 1",
        'r' => "0 0 m p g g g",
        's' => "0 0 e g e 1 u",
        't' => "8 8 s 8 8 9 6",
        'u' => "0 0 h h h j d",
        'v' => "0 0 h h h a 4",
        'w' => "0 0 h h l l a",
        'x' => "0 0 h a 4 a h",
        'y' => "0 0 h h h h f 1 e",
        'z' => "0 0 v 2 4 8 v",
        '0' => "e h j l p h e",
        '1' => "4 c 4 4 4 4 e",
        '2' => "e h 1 2 4 8 v",
        '3' => "v 2 4 2 1 h e",
        '4' => "2 6 a i v 2 2",
        '5' => "v g u 1 1 h e",
        '6' => "6 8 g u h h e",
        '7' => "v 1 2 4 8 8 8",
        '8' => "e h h e h h e",
        '9' => "e h h f 1 2 c",
        '.' => "0 0 0 0 0 c c",
        ',' => "0 0 0 0 0 c c 4 8",
        ':' => "0 c c 0 c c",
        ';' => "0 c c 0 c c 4 8",
        '-' | '\u{2212}' => "0 0 0 v",
        '+' => "0 4 4 v 4 4",
        '*' => "0 4 l e l 4",
        '/' => "0 1 2 4 8 g",
        '=' => "0 0 v 0 v",
        '_' => "0 0 0 0 0 0 0 v",
        '(' => "2 4 8 8 8 4 2",
        ')' => "8 4 2 2 2 4 8",
        '[' => "e 8 8 8 8 8 e",
        ']' => "e 2 2 2 2 2 e",
        '<' => "2 4 8 g 8 4 2",
        '>' => "8 4 2 1 2 4 8",
        '%' => "o p 2 4 8 j 3",
        '°' => "c i i c",
        '²' => "c 2 4 8 e",
        '±' => "4 4 v 4 4 0 v",
        '\'' => "4 4",
        '"' => "a a",
        '!' => "4 4 4 4 4 0 4",
        '?' => "e h 1 2 4 0 4",
        '#' => "a a v a v a a",
        _ => "v h h h h h v",
    })
}
