//! Threads of passes: one per iterator alive at the same time, kept between passes, because a
//! thread keeps its stream on a device.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crossbeam::channel::{Sender, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Threads of passes, one per iterator alive at the same time, kept between passes.
#[derive(Default)]
pub(crate) struct PassThreads {
    threads: Mutex<Vec<PassThread>>,
}

struct PassThread {
    jobs: Option<Sender<Job>>,
    /// Whether a job has been sent and is not done.
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Says that a thread is idle again when it is dropped, after a panic too.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl PassThreads {
    /// Runs `work` on an idle thread, or on a new one. What `work` returns is dropped when the
    /// thread is idle again: whoever waits for that finds the thread free.
    ///
    /// # Errors
    /// No thread can be started, or an idle one has died.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<()> {
        let mut threads = lock(&self.threads);
        let idle = |thread: &PassThread| !thread.busy.load(Ordering::Acquire);
        let index = match threads.iter().position(idle) {
            Some(index) => index,
            None => {
                let index = threads.len();
                threads.push(PassThread::start(index)?);
                index
            }
        };
        let thread = &threads[index];
        thread.busy.store(true, Ordering::Relaxed);
        let busy = Busy(thread.busy.clone());
        let job: Job = Box::new(move || {
            let last = work();
            drop(busy);
            drop(last);
        });
        match thread.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Interrupted,
                "a reader thread is gone",
            )),
        }
    }
}

impl PassThread {
    fn start(index: usize) -> Result<Self> {
        let (jobs, work) = unbounded::<Job>();
        let thread = std::thread::Builder::new()
            .name(format!("om4-pass-{index}"))
            .spawn(move || work.into_iter().for_each(|job| job()))
            .map_err(|e| Error::new(ErrorKind::Io, "cannot start a reader thread").caused_by(e))?;
        Ok(Self {
            jobs: Some(jobs),
            busy: Arc::default(),
            thread: Some(thread),
        })
    }
}

impl Drop for PassThread {
    fn drop(&mut self) {
        // Iterators borrow the loader, so all are gone: at most one read is still in flight.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
