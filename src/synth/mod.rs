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
