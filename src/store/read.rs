//! Reading the planes of a store: tasks on the shared pool, each chunk read and decoded once.

use crate::error::{Error, ErrorKind, Result, panic_text};
use crate::ocean::channel::Channel;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use crate::store::load::{Block, Scratch};
use crate::store::om4_store::Store;
use crate::store::tasks::{ChannelSlot, ReadTask, read_tasks};
use crate::threads;
use rayon::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// Taken out while in use: a sink that runs Rayon inside `fill` may start another task on the
    /// same thread, which then simply begins with an empty scratch.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl PlaneSource for Store {
    fn channels(&self) -> &[Channel] {
        self.channels()
    }

    fn rows(&self) -> usize {
        self.time().len()
    }

    fn shape(&self) -> PlaneShape {
        self.grid().shape()
    }

    fn location(&self) -> Option<&Path> {
        Some(self.path())
    }

    /// Reads on the reader pool, see [`set_reader_threads`](crate::store::set_reader_threads). Safe to
    /// call from inside another Rayon pool.
    ///
    /// # Errors
    /// The first failure in the order of the request's chunks, whatever the threads did: a row or
    /// channel that is not there (before anything is read), a missing chunk in strict mode, a chunk
    /// that cannot be read or decoded, an error of the sink, or a panic
    /// ([`ErrorKind::Interrupted`]).
    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let tasks = self.tasks(request)?;
        let pool = threads::pool()?;
        // Tasks after the first known failure are not begun. Those before it always run, so that
        // the failure returned does not depend on who was quicker.
        let first_failure = AtomicUsize::new(usize::MAX);
        let run = |(index, task): (usize, &ReadTask)| {
            if index > first_failure.load(Ordering::Relaxed) {
                return Ok(ReadCounts::default());
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run(task, sink)));
            outcome
                .unwrap_or_else(|panic| Err(self.panicked(task, &*panic)))
                .map_err(|e| {
                    first_failure.fetch_min(index, Ordering::Relaxed);
                    (index, e)
                })
        };
        let outcomes: Vec<_> = pool.install(|| tasks.par_iter().enumerate().map(run).collect());
        let mut counts = ReadCounts::default();
        let mut failure: Option<(usize, Error)> = None;
        for outcome in outcomes {
            match outcome {
                Ok(one) => counts.add(&one),
                Err(one) if failure.as_ref().is_none_or(|f| one.0 < f.0) => failure = Some(one),
                Err(_) => {}
            }
        }
        match failure {
            None => Ok(counts),
            Some((_, e)) => Err(e),
        }
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        Ok(self.tasks(request)?.iter().map(|task| task.chunks).sum())
    }
}

impl Store {
    /// Validates a request and groups its planes by chunk.
    fn tasks(&self, request: &PlaneRequest<'_>) -> Result<Vec<ReadTask>> {
        let slots: Vec<ChannelSlot> = request
            .channels
            .iter()
            .map(|&position| {
                self.slots.get(position).copied().ok_or_else(|| {
                    Error::config("a channel is not there")
                        .expected(format!("a position below {}", self.slots.len()))
                        .found(position)
                })
            })
            .collect::<Result<_>>()
            .map_err(|e| e.store(self.path()))?;
        read_tasks(&self.layouts, &slots, request.rows).map_err(|e| e.store(self.path()))
    }

    fn run(&self, task: &ReadTask, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let counts = Block::new(self, task).load(sink, &mut scratch);
        SCRATCH.set(Some(scratch));
        counts
    }

    fn panicked(&self, task: &ReadTask, panic: &(dyn Any + Send)) -> Error {
        let text = panic_text(panic);
        let array = &self.arrays[task.array];
        Error::new(ErrorKind::Interrupted, format!("a reader panicked: {text}"))
            .store(self.path())
            .array(&array.layout.name)
            .row(task.planes.first().map_or(0, |p| p.row))
    }
}
