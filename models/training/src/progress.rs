//! A bar on stderr, where that is a terminal; lines there in any case.

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of one activity.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `what` in `total` steps.
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar:.cyan/dim} {pos}/{len} {msg} ({eta} left)",
        );
        let bar = ProgressBar::new(total).with_prefix(what.to_owned());
        Self(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// One step on.
    pub(crate) fn step(&self, message: &str) {
        self.0.set_message(message.to_owned());
        self.0.inc(1);
    }

    /// At a step.
    pub(crate) fn at(&self, step: u64) {
        self.0.set_position(step);
    }

    /// A line that stays, above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.0.suspend(|| eprintln!("{text}"));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
