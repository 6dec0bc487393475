//! Small stores that people's reports led to, beside the project: archives, and what each store holds when it
//! is read right.

use crate::shared;
use npyz::{NpyFile, TypeChar};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An unpacked archive.
pub struct Input {
    /// Holds `OM4.zarr`, its statistics and `right.npz`, or folders that do.
    pub root: PathBuf,
    _dir: TempDir,
}

/// Unpacks `inputs/NAME.tar.xz` into a folder of its own, which goes when the value does; `None`, with a
/// message, where there are no inputs.
///
/// # Panics
/// If the archive is damaged.
pub fn unpack(name: &str) -> Option<Input> {
    let archive = shared(&format!("inputs/{name}.tar.xz"))?;
    let dir = tempfile::tempdir().unwrap();
    let file = BufReader::new(File::open(&archive).unwrap());
    let bytes = lzma_rust2::XzReader::new(file, true);
    let unpacked = tar::Archive::new(bytes).unpack(dir.path());
    unpacked.unwrap_or_else(|e| panic!("{}: {e}", archive.display()));
    Some(Input {
        root: dir.path().join(name),
        _dir: dir,
    })
}

/// What a store holds: the content of `right.npz`.
#[derive(Clone, Debug, Default)]
pub struct Right {
    /// Channel -> `(time, y, x)` values, NaN where there is none.
    pub planes: BTreeMap<String, Vec<f32>>,
    /// Level -> `(y, x)`, whether wet.
    pub masks: BTreeMap<usize, Vec<bool>>,
    /// The label of every row.
    pub times: Vec<String>,
}

impl Right {
    /// Reads `right.npz` of a folder.
    ///
    /// # Panics
    /// If there is none, or it holds something else.
    pub fn read(dir: &Path) -> Self {
        let path = dir.join("right.npz");
        let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut archive = zip::ZipArchive::new(BufReader::new(file)).unwrap();
        let mut right = Self::default();
        for at in 0..archive.len() {
            let mut member = archive.by_index(at).unwrap();
            let mut bytes = Vec::new();
            let name = member.name().unwrap().trim_end_matches(".npy").to_owned();
            member.read_to_end(&mut bytes).unwrap();
            if name == "times" {
                right.times = texts(&bytes);
            } else if let Some(level) = name.strip_prefix("mask_") {
                right.masks.insert(level.parse().unwrap(), wet(&bytes));
            } else {
                let values = NpyFile::new(&bytes[..]).unwrap().into_vec().unwrap();
                right.planes.insert(name, values);
            }
        }
        right
    }
}

fn texts(bytes: &[u8]) -> Vec<String> {
    NpyFile::new(bytes).unwrap().into_vec().unwrap()
}

fn wet(bytes: &[u8]) -> Vec<bool> {
    let file = NpyFile::new(bytes).unwrap();
    match file.dtype() {
        npyz::DType::Plain(plain) if plain.type_char() == TypeChar::Float => {
            let values: Vec<f64> = file.into_vec().unwrap();
            values.into_iter().map(|value| value == 1.0).collect()
        }
        _ => file.into_vec().unwrap(),
    }
}
