//! The values of a synthetic ocean.

#[cfg(doc)]
use super::options::SynthOptions;
use crate::ocean::channel::Channel;

/// The values of an ocean, as [`SynthOptions::write_field`] asks for them.
pub trait Field {
    /// Whether the cell is ocean at this level (0 is the surface); `y` counts from the south.
    fn is_ocean(&self, level: usize, y: usize, x: usize) -> bool;

    /// Fills `out`, `(y, x)` in row-major order, with `channel` at time `row`, in the channel's
    /// own units. Called exactly once per channel and row: rows in order, and within a row the
    /// channels in the order of [`SynthOptions::channels`], so a simulation can step along.
    fn plane(&mut self, channel: &Channel, row: usize, out: &mut [f32]);
}

/// A [`Field`] made of two closures: `is_ocean(level, y, x)` and `plane(channel, row, out)`.
pub fn field<M, V>(is_ocean: M, plane: V) -> impl Field
where
    M: Fn(usize, usize, usize) -> bool,
    V: FnMut(&Channel, usize, &mut [f32]),
{
    Closures { is_ocean, plane }
}

struct Closures<M, V> {
    is_ocean: M,
    plane: V,
}

impl<M, V> Field for Closures<M, V>
where
    M: Fn(usize, usize, usize) -> bool,
    V: FnMut(&Channel, usize, &mut [f32]),
{
    fn is_ocean(&self, level: usize, y: usize, x: usize) -> bool {
        (self.is_ocean)(level, y, x)
    }

    fn plane(&mut self, channel: &Channel, row: usize, out: &mut [f32]) {
        (self.plane)(channel, row, out)
    }
}
