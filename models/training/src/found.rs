//! What loaders find in the values that they read: said before a step is taken on them, and kept for the
//! report.

use crate::data::Loaders;
use crate::progress::Progress;

/// What was found since it was made.
pub(crate) struct Found {
    /// With what was said before.
    said: Vec<String>,
    before: usize,
}

impl Found {
    /// What was said until now is not said again.
    pub(crate) fn after(said: Vec<String>) -> Self {
        Self {
            before: said.len(),
            said,
        }
    }

    /// Says what is new.
    pub(crate) fn say_news(&mut self, loaders: &Loaders, progress: &Progress) {
        for warning in loaders.found() {
            if !self.said.contains(&warning) {
                progress.warn(&warning);
                self.said.push(warning);
            }
        }
    }

    /// All of it.
    pub(crate) fn into_warnings(mut self) -> Vec<String> {
        self.said.split_off(self.before)
    }
}
