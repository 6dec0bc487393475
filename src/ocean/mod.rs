//! What an ocean store holds, in words of its own: channels, time, planes. Plain data.

pub(crate) mod calendar;
pub(crate) mod channel;
pub(crate) mod grid;
pub(crate) mod mask;
pub(crate) mod plane;
pub(crate) mod time;
