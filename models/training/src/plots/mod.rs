//! Pictures of a forecast: maps of truth, prediction and error, and curves of error against lead.

mod canvas;
mod maps;

pub use maps::{Curve, MapRow, write_maps, write_skill};
