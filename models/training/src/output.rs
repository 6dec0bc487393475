//! Lines for whoever watches. Nobody has to: a reader that went away (`| head`), a closed terminal or a
//! full disk behind stdout do not end a run that has hours of work in it.

use std::io::{self, Write};

/// Whether a run tells how it goes. Warnings and failures are told in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Facts, epochs and scores.
    Talking,
    /// Nothing.
    Quiet,
}

impl Voice {
    /// A line on stdout.
    pub(crate) fn say(self, text: &str) {
        if self == Self::Talking {
            line(io::stdout().lock(), text);
        }
    }

    /// A line on stderr.
    pub(crate) fn aside(self, text: &str) {
        if self == Self::Talking {
            note(text);
        }
    }
}

/// A warning, on stderr.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// A failure, on stderr.
pub(crate) fn note(text: &str) {
    line(io::stderr().lock(), text);
}

/// What cannot be written is not: there is nobody left to tell, and the report says it all.
fn line(mut to: impl Write, text: &str) {
    let _ = writeln!(to, "{text}").and_then(|()| to.flush());
}
