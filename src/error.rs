//! One error type for everything that can go wrong, from a malformed store to a lost device.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The kind of a failure: what a caller would act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option, name, date or size that cannot be served. Fix the configuration.
    Config,
    /// A store whose metadata is malformed or not an OM4 store. Fix the store.
    Metadata,
    /// Values that must not be trained on: a standard deviation of zero, a time axis that runs
    /// back.
    Values,
    /// A chunk that the metadata promises is not there.
    MissingChunk,
    /// A chunk that is there but does not decode to what the metadata promises.
    Corrupt,
    /// The operating system refused: permissions, broken disk, too many open files.
    Io,
    /// The device, its driver or its memory.
    Device,
    /// A thread panicked, or a pass was abandoned because another part of it failed.
    Interrupted,
}

/// A failure: what failed, where (store, array, chunk, time row), expected and found, and why.
///
/// [`std::fmt::Display`] prints one line with the whole place; the cause chain is behind
/// [`std::error::Error::source`].
///
/// ```
/// use burn_om4::{Error, ErrorKind};
/// let e = Error::new(ErrorKind::Metadata, "wrong number of levels")
///     .store("OM4.zarr")
///     .array("thetao")
///     .expected(19)
///     .found(18);
/// assert_eq!(
///     e.to_string(),
///     "wrong number of levels [store OM4.zarr, array thetao]: expected 19, found 18"
/// );
/// assert_eq!(e.kind(), ErrorKind::Metadata);
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Debug, thiserror::Error)]
#[error("{message}{}{}", self.place(), self.difference())]
struct Inner {
    kind: ErrorKind,
    message: String,
    store: Option<PathBuf>,
    array: Option<String>,
    chunk: Option<String>,
    row: Option<usize>,
    expected: Option<String>,
    found: Option<String>,
    #[source]
    cause: Option<Cause>,
}

impl Error {
    /// A failure of the given kind, in words.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            store: None,
            array: None,
            chunk: None,
            row: None,
            expected: None,
            found: None,
            cause: None,
        }))
    }

    /// Shorthand for [`ErrorKind::Config`].
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// Names the store, unless an inner call already did.
    pub fn store(mut self, path: impl AsRef<Path>) -> Self {
        self.0.store.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Names the Zarr array, unless an inner call already did.
    pub fn array(mut self, name: impl Into<String>) -> Self {
        self.0.array.get_or_insert_with(|| name.into());
        self
    }

    /// Names the chunk by its key within the array, unless an inner call already did.
    pub fn chunk(mut self, key: impl Into<String>) -> Self {
        self.0.chunk.get_or_insert_with(|| key.into());
        self
    }

    /// Names the row on the store's time axis, unless an inner call already did.
    pub fn row(mut self, row: usize) -> Self {
        self.0.row.get_or_insert(row);
        self
    }

    /// What should have been there.
    pub fn expected(mut self, what: impl fmt::Display) -> Self {
        self.0.expected = Some(what.to_string());
        self
    }

    /// What was there.
    pub fn found(mut self, what: impl fmt::Display) -> Self {
        self.0.found = Some(what.to_string());
        self
    }

    /// The error underneath.
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The same failure once more, its causes in words.
    pub(crate) fn again(&self) -> Self {
        let inner = &self.0;
        let mut words = Vec::new();
        let mut cause = std::error::Error::source(self);
        while let Some(c) = cause {
            words.push(c.to_string());
            cause = c.source();
        }
        Self(Box::new(Inner {
            kind: inner.kind,
            message: inner.message.clone(),
            store: inner.store.clone(),
            array: inner.array.clone(),
            chunk: inner.chunk.clone(),
            row: inner.row,
            expected: inner.expected.clone(),
            found: inner.found.clone(),
            cause: (!words.is_empty()).then(|| words.join(": ").into()),
        }))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The store it happened in, where one is known.
    pub fn store_path(&self) -> Option<&Path> {
        self.0.store.as_deref()
    }

    /// The array it happened in, where one is known.
    pub fn array_name(&self) -> Option<&str> {
        self.0.array.as_deref()
    }

    /// The chunk's key within its array, where one is known.
    pub fn chunk_key(&self) -> Option<&str> {
        self.0.chunk.as_deref()
    }

    /// The row on the store's time axis, where one is known.
    pub fn time_row(&self) -> Option<usize> {
        self.0.row
    }
}

impl Inner {
    /// ` [store OM4.zarr, array thetao]`, or nothing where no place is known.
    fn place(&self) -> String {
        let place = [
            self.store
                .as_ref()
                .map(|p| format!("store {}", p.display())),
            self.array.as_ref().map(|a| format!("array {a}")),
            self.chunk.as_ref().map(|c| format!("chunk {c}")),
            self.row.map(|r| format!("time row {r}")),
        ];
        let place: Vec<String> = place.into_iter().flatten().collect();
        if place.is_empty() {
            return String::new();
        }
        format!(" [{}]", place.join(", "))
    }

    /// `: expected 19, found 18`, or what of both is known.
    fn difference(&self) -> String {
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => format!(": expected {expected}, found {found}"),
            (Some(expected), None) => format!(": expected {expected}"),
            (None, Some(found)) => format!(": found {found}"),
            (None, None) => String::new(),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        let mut cause = std::error::Error::source(self);
        while let Some(c) = cause {
            write!(f, "\n  caused by: {c}")?;
            cause = c.source();
        }
        Ok(())
    }
}

/// Runs `work`, a part of a pass called `what`, and makes an error of a panic.
pub(crate) fn catching<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let e = Error::new(ErrorKind::Interrupted, format!("{what} panicked"));
        Err(e.found(panic_text(&*panic)))
    })
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without text")
}
