//! Which store a command is about, and how it is opened.

use burn_om4::store::{OpenOptions, Store};
use burn_om4::{Channel, Om4Paths, Result, Strictness};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Folder with OM4.zarr, or that store itself. Its statistics lie beside it.
    pub dir: PathBuf,
    /// Read missing chunks as fill value, and say so, where it is an error otherwise.
    #[arg(long)]
    pub lenient: bool,
}

impl Which {
    /// The store and its statistics, whether they are there or not.
    pub(crate) fn paths(&self) -> Om4Paths {
        let beside = Om4Paths::in_dir(&self.dir);
        let is_store = |dir: &Path| {
            let there = |name: &str| dir.join(name).exists();
            there("zarr.json") || there(".zgroup")
        };
        let named = self.dir.extension().is_some_and(|e| e == "zarr");
        if beside.data.exists() || !(named || is_store(&self.dir)) {
            return beside;
        }
        let beside = Om4Paths::in_dir(self.dir.parent().unwrap_or(Path::new("")));
        Om4Paths {
            data: self.dir.clone(),
            ..beside
        }
    }

    pub(crate) fn strictness(&self) -> Strictness {
        match self.lenient {
            true => Strictness::Lenient,
            false => Strictness::Strict,
        }
    }

    /// Opens the store for these channels, or for all it has.
    pub(crate) fn open(&self, channels: Option<Vec<Channel>>) -> Result<Store> {
        let mut options = OpenOptions::default().with_strictness(self.strictness());
        options.channels = channels;
        Store::open(self.paths().data, &options)
    }
}
