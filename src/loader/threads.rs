//! Threads of passes: one per iterator alive at the same time, kept between passes, because a thread
//! keeps its stream on a device.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crossbeam::channel::{Sender, unbounded};
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
    /// Shared with the job that runs, if one does.
    busy: Arc<()>,
    thread: Option<JoinHandle<()>>,
}

impl PassThreads {
    /// Runs `work` on an idle thread, or on a new one. `signal` is dropped when the thread is idle
    /// again, so whoever waits for it finds the thread free.
    pub fn run(
        &self,
        work: impl FnOnce() + Send + 'static,
        signal: impl Send + 'static,
    ) -> Result<()> {
        let mut threads = lock(&self.threads);
        let idle = threads.iter().position(|r| Arc::strong_count(&r.busy) == 1);
        let index = match idle {
            Some(index) => index,
            None => {
                let index = threads.len();
                threads.push(PassThread::start(index)?);
                index
            }
        };
        let busy = threads[index].busy.clone();
        let job: Job = Box::new(move || {
            work();
            drop(busy);
            drop(signal);
        });
        match threads[index].jobs.as_ref().map(|jobs| jobs.send(job)) {
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
