//! The files in an array's folder beside the chunks that its metadata promises.

use crate::error::{ErrorKind, Result};
use crate::zarr::array::ZarrArray;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// More chunks than any store has: a damaged shape must not decide how long this takes.
const MOST_CHUNKS: u64 = 100_000_000;

/// What an array's folder holds.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Chunks that the metadata promises.
    pub chunks: u64,
    /// Chunk files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Indices and keys of chunks that are not there.
    pub missing: Vec<(Vec<u64>, String)>,
    /// Files that are no chunk of the array.
    pub stray: Vec<String>,
    /// Chunks that are no ordinary file, or cannot be looked at, and why.
    pub odd: Vec<(String, String)>,
    /// Bytes of every chunk, where nothing encodes them.
    pub exact: Option<u64>,
    /// Chunks that are empty, or of another size than that, and their size.
    pub sizes: Vec<(String, u64)>,
}

enum Entry {
    File(u64),
    Odd(String),
}

impl Listing {
    /// Lists the folder of an array. Keys are those within the array.
    ///
    /// # Errors
    /// Metadata that zarrs refuses, or with more chunks than can be; a folder that cannot be listed.
    pub(super) fn of(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Self> {
        let array = ZarrArray::open(group, meta)?;
        let cuts = std::iter::zip(&meta.shape, &meta.chunk).map(|(n, c)| n.div_ceil(*c));
        let ends: Vec<u64> = cuts.collect();
        let chunks = ends.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
        let Some(chunks) = chunks.filter(|n| *n <= MOST_CHUNKS) else {
            return Err(group
                .error(ErrorKind::Metadata, &meta.name, "impossibly many chunks")
                .expected(format!("at most {MOST_CHUNKS}"))
                .found(format!("shape {:?}, chunks {:?}", meta.shape, meta.chunk)));
        };
        let mut there = HashMap::new();
        let root = group.storage.root().join(&meta.name);
        walk(&root, "", 0, &mut there).map_err(|e| {
            group
                .error(ErrorKind::Io, &meta.name, "cannot list the chunks")
                .caused_by(e)
        })?;
        let exact = unencoded_size(group.format, meta);
        let mut listing = Self {
            chunks,
            exact,
            ..Self::default()
        };
        let mut key = String::new();
        let prefix = format!("{}/", meta.name);
        for indices in indices(&ends, chunks) {
            array.write_key(&indices, &mut key);
            let within = key.strip_prefix(&prefix).unwrap_or(&key);
            match there.remove(within) {
                None => listing.missing.push((indices, within.to_owned())),
                Some(Entry::Odd(why)) => listing.odd.push((within.to_owned(), why)),
                Some(Entry::File(size)) => {
                    listing.files += 1;
                    listing.bytes += size;
                    if size == 0 || exact.is_some_and(|exact| exact != size) {
                        listing.sizes.push((within.to_owned(), size));
                    }
                }
            }
        }
        listing.stray = there.into_keys().collect();
        listing.stray.sort();
        Ok(listing)
    }
}

/// Files below a folder by their path in it, metadata left out.
fn walk(
    dir: &Path,
    prefix: &str,
    depth: usize,
    there: &mut HashMap<String, Entry>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || name == "zarr.json" {
            continue;
        }
        let key = format!("{prefix}{name}");
        // Follows links.
        match fs::metadata(entry.path()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let why = "a link that leads nowhere".to_owned();
                there.insert(key, Entry::Odd(why));
            }
            Err(e) => {
                there.insert(key, Entry::Odd(e.to_string()));
            }
            Ok(found) if found.is_file() => {
                there.insert(key, Entry::File(found.len()));
            }
            Ok(found) if found.is_dir() => {
                let before = there.len();
                // Chunk keys have at most a folder per dimension.
                if depth < DEEPEST {
                    walk(&entry.path(), &format!("{key}/"), depth + 1, there)?;
                }
                if there.len() == before {
                    there.insert(key, Entry::Odd("a folder, not a file".to_owned()));
                }
            }
            Ok(_) => {
                there.insert(key, Entry::Odd("not an ordinary file".to_owned()));
            }
        }
    }
    Ok(())
}

const DEEPEST: usize = 8;

/// Every index of a grid of `chunks` chunks, row-major.
fn indices(ends: &[u64], chunks: u64) -> impl Iterator<Item = Vec<u64>> {
    (0..chunks).map(move |mut flat| {
        let mut index = vec![0; ends.len()];
        for (at, n) in index.iter_mut().zip(ends).rev() {
            (*at, flat) = (flat % n, flat / n);
        }
        index
    })
}

/// Bytes of every chunk, where nothing encodes them.
fn unencoded_size(format: ZarrFormat, meta: &ArrayMeta) -> Option<u64> {
    let document = &meta.document;
    let plain = match format {
        ZarrFormat::V2 => {
            let filters = document.get("filters");
            let none = |v: Option<&Value>| v.is_none_or(Value::is_null);
            let empty = filters.and_then(Value::as_array).is_some_and(Vec::is_empty);
            none(document.get("compressor")) && (none(filters) || empty)
        }
        ZarrFormat::V3 => {
            let codecs = document.get("codecs").and_then(Value::as_array)?;
            let name =
                |c: &Value| c.get("name").or(Some(c)).and_then(Value::as_str) == Some("bytes");
            codecs.len() == 1 && codecs.iter().all(name)
        }
    };
    let name = meta.dtype_name();
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let known = ["bool", "int", "uint", "float"].contains(&&name[..name.len() - digits.len()]);
    let size: u64 = match digits {
        "" => 1,
        bits => bits.parse::<u64>().ok()? / 8,
    };
    if !plain || !known {
        return None;
    }
    meta.chunk
        .iter()
        .try_fold(size, |all, n| all.checked_mul(*n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_the_last_dimension_first() {
        let all: Vec<_> = indices(&[2, 1, 2], 4).collect();
        assert_eq!(all, [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]);
        // An array without dimensions has one chunk.
        assert_eq!(indices(&[], 1).collect::<Vec<_>>(), [Vec::<u64>::new()]);
    }
}
