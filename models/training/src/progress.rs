//! A bar on stderr, where that is a terminal; lines there in any case.

use crate::output::{Voice, warn};
use indicatif::{ProgressBar, ProgressStyle};

/// Progress of one activity.
pub(crate) struct Progress {
    bar: ProgressBar,
    voice: Voice,
}

impl Progress {
    /// `what` in `total` steps.
    pub(crate) fn new(what: &str, total: u64, voice: Voice) -> Self {
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar:.cyan/dim} {pos}/{len} {msg} ({eta} left)",
        );
        let bar = match voice {
            Voice::Talking => ProgressBar::new(total).with_prefix(what.to_owned()),
            Voice::Quiet => ProgressBar::hidden(),
        };
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { bar, voice }
    }

    /// One step on.
    pub(crate) fn step(&self, message: &str) {
        self.bar.set_message(message.to_owned());
        self.bar.inc(1);
    }

    /// At a step.
    pub(crate) fn at(&self, step: u64) {
        self.bar.set_position(step);
    }

    /// A line that stays, above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| self.voice.aside(text));
    }

    /// A warning, above the bar.
    pub(crate) fn warn(&self, text: &str) {
        self.bar.suspend(|| warn(text));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
