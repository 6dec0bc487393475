//! What goes wrong with real stores: each symptom is an error that says where, or a warning, and
//! never a wrong number.

mod chunks;
mod company;
mod dimensions;
mod gaps;
mod levels;
mod metadata;
mod missing_values;
mod statistics;
mod times;
mod values;

use burn_om4::store::{OpenOptions, Store};
use burn_om4::{Error, ErrorKind, Strictness};
use om4_test_support::stores::{Bend, Writer};
use std::path::{Path, PathBuf};

const ROWS: usize = 6;
const NY: usize = 3;
const NX: usize = 4;
const CELLS: usize = NY * NX;

fn strict() -> OpenOptions {
    OpenOptions::default()
}

fn lenient() -> OpenOptions {
    OpenOptions::default().with_strictness(Strictness::Lenient)
}

struct TestStore {
    _dir: tempfile::TempDir,
    writer: Writer,
}

impl TestStore {
    /// A group with `ROWS` times.
    fn timed(v3: bool) -> Self {
        let this = Self::bare(v3);
        this.writer.steady_time(ROWS);
        this
    }

    fn bare(v3: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("bad.zarr"), v3);
        Self { _dir: dir, writer }
    }

    /// Times and a good `zos`.
    fn good(v3: bool) -> Self {
        let this = Self::timed(v3);
        this.flat("zos", &Bend::default());
        this
    }

    fn flat(&self, name: &str, bend: &Bend) {
        self.writer.flat(name, ROWS, NY, NX, bend);
    }

    fn root(&self) -> &Path {
        &self.writer.root
    }

    fn file(&self, key: &str) -> PathBuf {
        self.writer.root.join(key)
    }

    fn open(&self) -> Result<Store, Error> {
        Store::open(self.root(), &strict())
    }
}

/// The error names the store, and these words.
fn says(e: &Error, kind: ErrorKind, words: &[&str]) {
    let text = format!("{e:?}");
    assert_eq!(e.kind(), kind, "{text}");
    for word in words.iter().chain(&["bad.zarr"]) {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

fn refused(store: &TestStore, kind: ErrorKind, words: &[&str]) {
    says(&store.open().expect_err("must not open"), kind, words);
}

fn warned(store: &Store, words: &[&str]) {
    let all = store.warnings().join("\n");
    for word in words {
        assert!(all.contains(word), "`{word}` is not in: {all}");
    }
}
