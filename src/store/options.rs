//! How a store is opened: how strict, which channels, and by which system calls.

use crate::ocean::channel::Channel;
use crate::options::{DeriveOptions, ReadMethod, StoreLimits, Strictness};
use crate::store::axes::TIME_NAME;

/// Options of [`Store::open`](crate::store::Store::open) and
/// [`Statistics::open`](crate::store::Statistics::open).
///
/// ```
/// use burn_om4::Strictness;
/// use burn_om4::store::OpenOptions;
/// assert_eq!(OpenOptions::default().strictness, Strictness::Strict);
/// let options = OpenOptions::default().with_strictness(Strictness::Lenient);
/// assert_eq!(options.strictness, Strictness::Lenient);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What to do about missing chunks and unusable statistics.
    pub strictness: Strictness,
    /// Only these channels are looked for, validated and served; the store may hold others of any
    /// kind. `None` (the default) serves, and therefore validates, every array with a time axis
    /// and a horizontal plane, as far as its metadata can be read: the rest are warnings.
    pub channels: Option<Vec<Channel>>,
    /// By which system calls chunks are read.
    pub io: ReadMethod,
    /// How [`Ocean::open`](crate::dataset::Ocean::open) derives channels that the store lacks. A
    /// [`Store`](crate::store::Store) has what is on disk, and takes no notice.
    pub derive: DeriveOptions,
    /// How much memory the store's own numbers may ask for.
    pub limits: StoreLimits,
    /// Name of the time dimension and of its coordinate; `None` (the default) is `time`.
    pub time_name: Option<String>,
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

    /// The same options with other [`DeriveOptions`].
    pub fn with_derive(mut self, derive: DeriveOptions) -> Self {
        self.derive = derive;
        self
    }

    /// The same options with other limits.
    pub fn with_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same options with another name of the time axis, such as `Time` or `ocean_time`.
    pub fn with_time_name(mut self, name: impl Into<String>) -> Self {
        self.time_name = Some(name.into());
        self
    }

    /// Name of the time axis.
    pub(crate) fn time(&self) -> &str {
        self.time_name.as_deref().unwrap_or(TIME_NAME)
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
