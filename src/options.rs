//! How a store is opened: how strict, which channels, and by which system calls.

use crate::error::{Error, Result};
use crate::schema::Channel;
use std::fmt;
use std::str::FromStr;

/// What to do about data that a careful person would not train on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Strictness {
    /// Missing chunks, and statistics that cannot normalise (a standard deviation of zero, NaN),
    /// are errors. The default, and right for training.
    #[default]
    Strict,
    /// A missing chunk reads as the array's fill value, is counted in
    /// [`ReadCounts`](crate::ReadCounts) and listed by
    /// [`Store::missing_chunks`](crate::Store::missing_chunks); statistics may be NaN, and standard
    /// deviations zero, as in the original loaders.
    Lenient,
}

/// By which system calls chunks are read. All give the same values, and the same errors for the same
/// damage; the example `om4 backends` measures them on your machine and stores.
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
    /// Open, one read, close, through the page cache. The default: it works everywhere, and from the
    /// cache nothing measured is faster by more than a tenth.
    #[default]
    Pread,
    /// A mapping of each file: compressed chunks are decoded where the page cache has them, without a
    /// copy. For cached stores of compressed chunks of several MB; elsewhere it gains nothing.
    ///
    /// Nothing may write to the store's chunks or cut them while it is open, by any process: a file
    /// that is cut while it is mapped ends this process with SIGBUS. Not for network file systems,
    /// where a lost connection does the same.
    Mmap,
    /// `O_DIRECT`: from the disk past the page cache. For stores much larger than memory on fast local
    /// disks, where caching would only push out what other processes need. Nothing is cached: what is
    /// read again comes from the disk again. Linux only.
    Direct,
    /// One chain of requests per chunk in a ring of each reader thread: one system call where
    /// [`Pread`](Self::Pread) has three. For systems whose system calls are slow, as under mitigations
    /// or sandboxes that trap them. Files that are read in parts are read as by `Pread`. Linux 5.19 or
    /// later only, where it is allowed; the defaults of container runtimes often forbid it.
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

/// Options of [`Store::open`](crate::Store::open) and
/// [`Statistics::open`](crate::Statistics::open).
///
/// ```
/// use burn_om4::{OpenOptions, Strictness};
/// assert_eq!(OpenOptions::default().strictness, Strictness::Strict);
/// let options = OpenOptions::default().with_strictness(Strictness::Lenient);
/// assert_eq!(options.strictness, Strictness::Lenient);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// What to do about missing chunks and unusable statistics.
    pub strictness: Strictness,
    /// Only these channels are looked for, validated and served; the store may hold others of any
    /// kind. `None` (the default) serves, and therefore validates, every array with a time axis
    /// and a horizontal plane.
    pub channels: Option<Vec<Channel>>,
    /// By which system calls chunks are read.
    pub io: ReadMethod,
}

impl OpenOptions {
    /// The same options with another [`Strictness`].
    pub fn with_strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// The same options, restricted to these channels.
    pub fn with_channels(mut self, channels: impl IntoIterator<Item = Channel>) -> Self {
        self.channels = Some(channels.into_iter().collect());
        self
    }

    /// The same options with another [`ReadMethod`].
    pub fn with_io(mut self, io: ReadMethod) -> Self {
        self.io = io;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_one_method_in_text_and_in_files() {
        for method in ReadMethod::ALL {
            assert_eq!(method.name().parse::<ReadMethod>().unwrap(), method);
            let json = serde_json::to_string(&method).unwrap();
            assert_eq!(json, format!("\"{method}\""));
        }
        let e = "uring".parse::<ReadMethod>().unwrap_err().to_string();
        assert!(
            e.contains("pread, mmap, direct, io_uring") && e.contains("`uring`"),
            "{e}"
        );
    }
}
