//! How far one iterator is.

use crate::order::state::Position;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// The place of one iterator.
#[derive(Clone)]
pub(crate) struct Cursor(Arc<Mutex<Position>>);

impl Cursor {
    pub(crate) fn new(position: Position) -> Self {
        Self(Arc::new(Mutex::new(position)))
    }

    pub(crate) fn get(&self) -> Position {
        *lock(&self.0)
    }

    /// A batch has been delivered.
    pub(crate) fn advance(&self) {
        let mut position = lock(&self.0);
        position.delivered += 1;
    }
}
