//! What is done to a plane: normalise, mask, round.

pub(crate) mod arithmetic;
pub(crate) mod path;
pub(crate) mod precision;
pub(crate) mod transfer;
