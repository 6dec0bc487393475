//! The thread that frees page-locked memory.
//!
//! Freeing it calls the driver, and waits for it. Whoever drops the last owner of a buffer may be the
//! runner thread of CubeCL, which must not wait, or any thread at all after the CUDA context is gone. So
//! all of it is freed by one thread of ours, which the end of the process stops where it is: what is
//! left then is left to the driver, which takes it back with the process.

use crate::sync::lock;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// To the thread, started by the first job and kept until the process ends.
static JOBS: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Has `free` run on that thread, and returns at once. Where there can be no such thread the memory
/// stays: `free` is forgotten, with an error in the log.
pub(super) fn elsewhere(free: impl FnOnce() + Send + 'static) {
    let mut jobs = lock(&JOBS);
    let mut job: Job = Box::new(free);
    if let Some(running) = &*jobs {
        match running.send(job) {
            Ok(()) => return,
            Err(gone) => job = gone.0,
        }
    }
    match start(job) {
        Ok(started) => *jobs = Some(started),
        Err(job) => {
            log::error!("no thread can be started to free page-locked memory: it stays");
            std::mem::forget(job);
        }
    }
}

/// Starts the thread with its first job, which comes back where that fails.
fn start(first: Job) -> Result<Sender<Job>, Job> {
    let (jobs, work) = channel::<Job>();
    let thread = std::thread::Builder::new().name("om4-free".into());
    let started = thread.spawn(move || work.into_iter().for_each(|job| job()));
    match started {
        Ok(_) => {
            // The receiver is the thread's, which does not end before its senders.
            let _ = jobs.send(first);
            Ok(jobs)
        }
        Err(_) => Err(first),
    }
}
