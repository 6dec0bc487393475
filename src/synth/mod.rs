//! Writes synthetic OM4 stores, in every form that occurs, for tests, benches and demonstrations.
//! Needs the feature `synth`.
//!
//! [`SynthOptions`] says which form: the default is the published one (Zarr v2, consolidated, one
//! uncompressed plane per chunk). A [`Field`] says which values: [`Waves`] unless you give your
//! own.
//!
//! ```
//! use burn_om4::synth::{Codec, Format, Layout, SynthOptions};
//!
//! let dir = std::env::temp_dir().join(format!("synth-doc-{}", std::process::id()));
//! SynthOptions::new(6, 12)
//!     .with_levels(3)
//!     .with_rows(8)
//!     .with_layout(Layout::CompactLevTime)
//!     .with_format(Format::V3)
//!     .with_codec(Codec::Zstd)
//!     .write(&dir)?;
//! assert!(dir.join("OM4.zarr/thetao/zarr.json").is_file());
//! assert!(dir.join("OM4_means.zarr").is_dir() && dir.join("OM4_stds.zarr").is_dir());
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), burn_om4::Error>(())
//! ```

mod axes;
mod coordinates;
mod describe;
mod encode;
mod field;
mod moments;
mod options;
mod planes;
mod statistics;
mod waves;
mod write;

pub use crate::splitmix::SplitMix64;
pub use field::{Field, field};
pub use options::{
    Chunking, Codec, Consolidation, Existing, Format, Land, Layout, MaskType, Separator,
    SynthOptions, TimeEncoding,
};
pub use waves::Waves;

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
pub use waves::{SplitMix64, Waves};
