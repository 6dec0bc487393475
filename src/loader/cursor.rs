//! How far one iterator is.

use crate::order::state::Position;
use std::sync::{Arc, Mutex, PoisonError};

/// The place of one iterator.
#[derive(Clone)]
pub(crate) struct Cursor(Arc<Mutex<Position>>);

impl Cursor {
    pub fn new(position: Position) -> Self {
        Self(Arc::new(Mutex::new(position)))
    }

    pub fn get(&self) -> Position {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch has been delivered.
    pub fn advance(&self) {
        let mut position = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        position.delivered += 1;
    }
}
