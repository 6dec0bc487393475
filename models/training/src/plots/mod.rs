//! Pictures of a forecast as PNG: maps of truth, prediction and error, and curves of error against lead.

mod curves;
mod maps;
mod number;
mod picture;

pub use curves::{Curve, write_skill};
pub use maps::{MapRow, write_maps};
