//! A small ocean to learn from, when there is no OM4 store at hand.
//!
//! Earth's coastlines on 32 by 64 cells, four years of 5-day rows. Weather systems travel over the
//! sea: their wind stirs it, their heat flux warms and cools it, the currents carry the warmth
//! along, and the second level follows the first. What matters is that each row follows from the row
//! before and its forcing alone, and that it differs from it by a good part of the field's spread: an
//! emulator has something to learn, and "tomorrow as today" is a poor forecast of every channel.

mod coastlines;
mod ocean;
mod stencil;
mod store;

pub use coastlines::GRID;
pub use store::{BOUNDARY, PROGNOSTIC, TRAIN, VALIDATION, write_demo};
