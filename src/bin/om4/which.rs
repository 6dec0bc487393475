//! Which store a command is about, and how it is opened.

use burn_om4::store::{OpenOptions, Store};
use burn_om4::{Channel, Om4Paths, Result, Strictness};
use clap::Args;
use std::path::{Path, PathBuf};

/// The store that a path is about, and its statistics, whether they are there or not: the path is that of
/// a folder with `OM4.zarr`, or of a store itself.
pub(crate) fn paths(dir: &Path) -> Om4Paths {
    let within = Om4Paths::in_dir(dir);
    let is_group = |dir: &Path| dir.join("zarr.json").exists() || dir.join(".zgroup").exists();
    let named = dir.extension().is_some_and(|e| e == "zarr");
    if within.data.exists() || !(named || is_group(dir)) {
        return within;
    }
    Om4Paths {
        data: dir.to_owned(),
        ..Om4Paths::in_dir(dir.parent().unwrap_or(Path::new("")))
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Folder with OM4.zarr, or that store itself. Its statistics lie beside it.
    pub dir: PathBuf,
    /// Read missing chunks as fill value, and say so, where it is an error otherwise.
    #[arg(long)]
    pub lenient: bool,
    /// Name of the time axis, where it is not `time`.
    #[arg(long, value_name = "NAME")]
    pub time_name: Option<String>,
}

impl Which {
    pub(crate) fn paths(&self) -> Om4Paths {
        paths(&self.dir)
    }

    pub(crate) fn strictness(&self) -> Strictness {
        match self.lenient {
            true => Strictness::Lenient,
            false => Strictness::Strict,
        }
    }

    /// Opens the store for these channels, or for all it has.
    pub(crate) fn open(&self, channels: Option<Vec<Channel>>) -> Result<Store> {
        let mut options = self.options();
        options.channels = channels;
        Store::open(self.paths().data, &options)
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::default().with_strictness(self.strictness());
        options.time_name = self.time_name.clone();
        options
    }
}
