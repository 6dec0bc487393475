//! Threads of passes: one per iterator alive at the same time, kept between passes, because a
//! thread keeps its stream on a device.
//!
//! ```text
//!  live passes       a thread each
//!  abandoned passes  still inside their last read: their threads are waited for from the third on
//!  idle threads      take the next pass
//! ```
//!
//! Which thread takes which pass does not matter, so that all take from one line, and a new pass is
//! begun by whichever is free first.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Stop, lock};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// Abandoned passes that a new one does not wait for.
const ABANDONED: usize = 2;

/// How long threads may take to end when they are not needed any more: longer than any read of a batch
/// from a disk that works.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct PassThreads {
    inner: Mutex<Inner>,
    patience: Duration,
}

struct Inner {
    jobs: Option<Sender<Job>>,
    work: Receiver<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Passes that have not ended.
    passes: Vec<RunningPass>,
    /// Every thread has the sender, and nothing is ever sent: all have ended when it is gone.
    alive: Option<Sender<Infallible>>,
    ended: Receiver<Infallible>,
}

struct RunningPass {
    stop: Stop,
    ended: Arc<AtomicBool>,
}

/// Says that a pass has ended when it is dropped, after a panic too.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Default for PassThreads {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl PassThreads {
    fn with_patience(patience: Duration) -> Self {
        let (jobs, work) = unbounded();
        let (alive, ended) = bounded(0);
        Self {
            patience,
            inner: Mutex::new(Inner {
                jobs: Some(jobs),
                work,
                threads: Vec::new(),
                passes: Vec::new(),
                alive: Some(alive),
                ended,
            }),
        }
    }

    /// Runs a pass on an idle thread, or on a new one unless too many are abandoned. `stop` says when it
    /// is. What `work` returns is dropped when the thread is idle again: whoever waits for that finds
    /// the thread free.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn run<T>(
        &self,
        stop: Stop,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<()> {
        let mut inner = lock(&self.inner);
        inner
            .passes
            .retain(|pass| !pass.ended.load(Ordering::Acquire));
        let abandoned = inner.passes.iter().filter(|p| p.stop.is_set()).count();
        let live = inner.passes.len() - abandoned;
        if inner.threads.len() < live + 1 + abandoned.min(ABANDONED) {
            inner.start_thread()?;
        }
        let ended: Arc<AtomicBool> = Arc::default();
        let end = Ended(ended.clone());
        let job: Job = Box::new(move || {
            let last = work();
            drop(end);
            drop(last);
        });
        match inner.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => inner.passes.push(RunningPass { stop, ended }),
            _ => {
                let gone = "the reader threads are gone";
                return Err(Error::new(ErrorKind::Interrupted, gone));
            }
        }
        Ok(())
    }
}

impl Inner {
    fn start_thread(&mut self) -> Result<()> {
        let (work, alive) = (self.work.clone(), self.alive.clone());
        let thread = std::thread::Builder::new()
            .name(format!("om4-pass-{}", self.threads.len()))
            .spawn(move || {
                let _alive = alive;
                for job in work {
                    // A pass makes errors of its panics; whatever else does must not cost a thread.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })
            .map_err(|e| Error::new(ErrorKind::Io, "cannot start a reader thread").caused_by(e))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for PassThreads {
    /// Iterators borrow the loader, so all are gone: a thread is idle or inside its last read.
    fn drop(&mut self) {
        let inner = &mut *lock(&self.inner);
        inner.jobs = None;
        inner.alive = None;
        match inner.ended.recv_timeout(self.patience) {
            Err(RecvTimeoutError::Timeout) => {
                let running = inner.threads.iter().filter(|thread| !thread.is_finished());
                log::error!(
                    "{} reader threads are still inside their source after {:?}: left behind",
                    running.count(),
                    self.patience
                );
            }
            // They have nothing left to do but end.
            _ => inner.threads.drain(..).for_each(|thread| {
                let _ = thread.join();
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass that ends when its sender is dropped.
    fn blocked(threads: &PassThreads) -> (Stop, Sender<()>) {
        let (stop, (open, gate)) = (Stop::default(), bounded::<()>(0));
        threads.run(stop.clone(), move || gate.recv()).unwrap();
        (stop, open)
    }

    fn count(threads: &PassThreads) -> usize {
        lock(&threads.inner).threads.len()
    }

    #[test]
    fn abandoned_passes_are_bounded_and_a_new_one_takes_the_first_thread_that_is_free() {
        let threads = PassThreads::default();
        let mut abandoned = Vec::new();
        for _ in 0..50 {
            let (stop, open) = blocked(&threads);
            stop.set();
            abandoned.push(open);
        }
        assert_eq!(count(&threads), 1 + ABANDONED);
        // Live ones never share a thread, whatever is abandoned.
        let live: Vec<_> = (0..5).map(|_| blocked(&threads)).collect();
        assert_eq!(count(&threads), 5 + ABANDONED);
        let (began, begin) = bounded(1);
        threads
            .run(Stop::default(), move || began.send(()))
            .unwrap();
        drop(abandoned);
        begin.recv().unwrap();
        drop(live);
    }

    #[test]
    fn a_pass_that_never_ends_does_not_hold_the_loader() {
        let threads = PassThreads::with_patience(Duration::from_millis(10));
        let (stop, open) = blocked(&threads);
        stop.set();
        drop(threads);
        drop(open);
    }
}
