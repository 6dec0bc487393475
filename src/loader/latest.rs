//! How far a loader is: whose batches count, and from where the next pass starts.
//!
//! A loader, its copies on other devices and its slices share one [`Latest`]. The iterator made
//! last speaks for all of them; one made earlier that is still in use does not move the loader's
//! place.

use crate::loader::cursor::Cursor;
use crate::loader::slices::SliceSet;
use crate::order::schedule::Schedule;
use crate::order::state::{LoaderState, Position};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// From where the first pass starts.
#[derive(Clone)]
pub(crate) struct Start {
    /// In steps of the loader as a whole.
    pub position: Position,
    /// What it follows from, for slices: they have a world of their own.
    pub saved: Option<LoaderState>,
}

impl Start {
    /// The beginning of an epoch.
    pub(crate) fn of_epoch(epoch: u64) -> Self {
        Self {
            position: Position {
                epoch,
                delivered: 0,
            },
            saved: None,
        }
    }
}

/// Who speaks for the place of a loader.
#[derive(Clone, Default)]
pub(crate) struct Latest(Arc<Mutex<Option<Runner>>>);

#[derive(Clone)]
struct Runner {
    schedule: Schedule,
    cursor: Cursor,
    /// Where its loader's first pass started.
    start: Position,
    slice_set: Option<Arc<SliceSet>>,
}

impl Latest {
    /// An iterator begins; as a slice's it stands for all slices of its set.
    pub(crate) fn begins(
        &self,
        schedule: &Schedule,
        cursor: &Cursor,
        start: Position,
        slice_set: Option<&Arc<SliceSet>>,
    ) {
        let runner = Runner {
            schedule: schedule.clone(),
            cursor: cursor.clone(),
            start,
            slice_set: slice_set.cloned(),
        };
        *lock(&self.0) = Some(runner);
    }

    /// The schedule and the place in it, once an iterator has begun.
    pub(crate) fn get(&self) -> Option<(Schedule, Position)> {
        let runner = lock(&self.0);
        let runner = runner.clone()?;
        let position = match &runner.slice_set {
            Some(set) => set.slowest(runner.start),
            None => runner.cursor.get(),
        };
        Some((runner.schedule, position))
    }
}
