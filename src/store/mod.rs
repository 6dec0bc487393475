//! An OM4 store: what it holds, whether it fits together, and its planes, read in parallel.

pub(crate) mod array_names;
pub(crate) mod axes;
pub(crate) mod grid;
pub(crate) mod masks;
pub(crate) mod om4_store;
pub(crate) mod options;
pub(crate) mod plane_array;
pub(crate) mod read;
pub(crate) mod statistics;
pub(crate) mod tasks;
