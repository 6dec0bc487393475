//! How a store is read: how strict, by which system calls, and what is derived that it lacks. Plain
//! data.

use crate::error::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// By which system calls chunks are read. All give the same values, and the same errors for the
/// same damage; the example `om4 backends` measures them on your machine and stores.
///
/// A method that the system or the file system of the store refuses is an error when the store is
/// opened, never replaced by another one.
///
/// ```
/// use burn_om4::ReadMethod;
/// assert_eq!(ReadMethod::default(), ReadMethod::Pread);
/// assert_eq!("io_uring".parse::<ReadMethod>()?, ReadMethod::IoUring);
/// assert_eq!(ReadMethod::Direct.to_string(), "direct");
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ReadMethod {
    /// Open, one read, close, through the page cache. The default: it works everywhere, and from
    /// the cache nothing measured is faster by more than a tenth.
    #[default]
    Pread,
    /// A mapping of each file: compressed chunks are decoded where the page cache has them, without
    /// a copy. For cached stores of compressed chunks of several MB; elsewhere it gains nothing.
    ///
    /// Nothing may write to the store's chunks or cut them while it is open, by any process: a file
    /// that is cut while it is mapped ends this process with SIGBUS, and what happens to decoders
    /// when one is rewritten under them is undefined. Not for network file systems, where a lost
    /// connection ends the process as well.
    Mmap,
    /// `O_DIRECT`: from the disk past the page cache. For stores much larger than memory on fast
    /// local disks, where caching would only push out what other processes need. Nothing is cached:
    /// what is read again comes from the disk again. Linux only.
    Direct,
    /// One chain of requests per chunk in a ring of each reader thread: one system call where
    /// [`Pread`](Self::Pread) has three. For systems whose system calls are slow, as under
    /// mitigations or sandboxes that trap them. Files that are read in parts are read as by
    /// `Pread`. Linux 5.19 or later only, where it is allowed; the defaults of container runtimes
    /// often forbid it.
    IoUring,
}

impl ReadMethod {
    /// Every method, the default first.
    pub const ALL: [Self; 4] = [Self::Pread, Self::Mmap, Self::Direct, Self::IoUring];

    /// The name that options and messages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::Mmap => "mmap",
            Self::Direct => "direct",
            Self::IoUring => "io_uring",
        }
    }
}

impl fmt::Display for ReadMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReadMethod {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|method| method.name() == name);
        named.ok_or_else(|| {
            Error::config("not a way of reading")
                .expected(Self::ALL.map(Self::name).join(", "))
                .found(format!("`{name}`"))
        })
    }
}

/// What to do about data that is unfit for training.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Strictness {
    /// Missing chunks, and statistics that cannot normalise (a standard deviation of zero, NaN),
    /// are errors. The default, and right for training.
    #[default]
    Strict,
    /// A missing chunk reads as the array's fill value, is counted in
    /// [`ReadCounts`](crate::ocean::ReadCounts) and listed by
    /// [`Store::missing_chunks`](crate::store::Store::missing_chunks); statistics may be NaN, and
    /// standard deviations zero, as in the original loaders.
    Lenient,
}

/// How channels are derived that a store lacks: `hfds_anomalies`, which is `hfds` less its mean by day
/// of the year.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeriveOptions {
    /// A folder for files of means by day of the year, made when it is needed: one file for each
    /// channel and store, found again while the store stays as it is. Computing them reads the
    /// channel three times. `None` (the default) computes them whenever a store is opened.
    #[serde(default)]
    pub cache: Option<PathBuf>,
    /// Is told how far the computation is.
    #[serde(skip)]
    pub progress: Option<DeriveProgress>,
}

impl DeriveOptions {
    /// The same options with a folder for files.
    pub fn with_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// The same options with a function that is told the channel, how many of its planes were read,
    /// and how many will be. It is called some times for each pass over the store, on the thread
    /// that opens it.
    pub fn with_progress(mut self, told: impl Fn(&str, u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(DeriveProgress(Arc::new(told)));
        self
    }
}

/// A function that is told how far a computation is; see [`DeriveOptions::with_progress`].
#[derive(Clone)]
pub struct DeriveProgress(Arc<Told>);

type Told = dyn Fn(&str, u64, u64) + Send + Sync;

impl DeriveProgress {
    pub(crate) fn tell(&self, channel: &str, read: u64, of: u64) {
        (self.0)(channel, read, of);
    }
}

impl fmt::Debug for DeriveProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeriveProgress")
    }
}

/// The same function, not one that does the same.
impl PartialEq for DeriveProgress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DeriveProgress {}

/// How much a store may ask for. Numbers that stand in files decide what is allocated; beyond these
/// bounds they are an error that names both sizes, of kind [`Metadata`](crate::ErrorKind::Metadata)
/// where a document states them, else [`Corrupt`](crate::ErrorKind::Corrupt).
///
/// ```
/// use burn_om4::StoreLimits;
/// assert_eq!(StoreLimits::default().chunk_bytes, 4 << 30);
/// let limits = StoreLimits::default().with_chunk_bytes(64 << 20);
/// assert_eq!(limits.chunk_bytes, 64 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreLimits {
    /// Bytes of one decoded chunk, or inner chunk of a shard; also those of a shard's index. Default
    /// 4 GiB.
    pub chunk_bytes: u64,
    /// Bytes of a coordinate, mask or statistic, at eight a value. Default 1 GiB.
    pub small_bytes: u64,
    /// Bytes of a metadata document. Default 64 MiB.
    pub document_bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            chunk_bytes: 4 << 30,
            small_bytes: 1 << 30,
            document_bytes: 64 << 20,
        }
    }
}

impl StoreLimits {
    /// The same limits with another bound for chunks.
    pub fn with_chunk_bytes(mut self, bytes: u64) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// The same limits with another bound for coordinates, masks and statistics.
    pub fn with_small_bytes(mut self, bytes: u64) -> Self {
        self.small_bytes = bytes;
        self
    }

    /// The same limits with another bound for metadata documents.
    pub fn with_document_bytes(mut self, bytes: u64) -> Self {
        self.document_bytes = bytes;
        self
    }
}
