//! Source files, read from a folder or given as text.

use std::fs;
use std::path::Path;

/// A file of Rust, named by its path below the folder that was read, with `/` between names.
pub(crate) struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Name of the folder that the file lies in.
    pub(crate) fn folder(&self) -> Option<&str> {
        self.path.rsplit('/').nth(1)
    }

    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".rs").unwrap_or(name)
    }
}

/// All Rust files below `root`, in order.
pub(crate) fn read(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.ends_with("target") {
                // Build output, of tests/loom for one.
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let below = path.strip_prefix(root).unwrap();
                let names: Vec<_> = below.iter().map(|n| n.to_string_lossy()).collect();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source::new(&names.join("/"), &text));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
