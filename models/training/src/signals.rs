//! Signals that end a run before it is finished: after the step that is under way.

use anyhow::Result;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `sysexits.h` calls a temporary failure: try again, with `--resume`.
const EX_TEMPFAIL: u8 = 75;

/// The program's exit code where an error is no failure but [`Interrupted`].
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    error.is::<Interrupted>().then_some(EX_TEMPFAIL)
}

/// Whether to stop.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// On SIGTERM or SIGUSR1, as batch systems send before they kill.
    ///
    /// # Errors
    /// The system refuses.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        #[cfg(unix)]
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGUSR1] {
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Asks to stop, as a signal does.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The run was asked to stop, and has saved where it is.
#[derive(Debug)]
pub struct Interrupted {
    /// What it can go on from.
    pub checkpoint: PathBuf,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkpoint = self.checkpoint.display();
        write!(f, "stopped; --resume goes on from {checkpoint}")
    }
}

impl std::error::Error for Interrupted {}
