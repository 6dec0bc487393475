//! Chunk files against metadata: what is missing, cut, empty, too long, unreadable, or unknown.

use crate::error::Result;
use crate::ocean::plane::PlaneSource;
use crate::store::axes::{LEVEL_NAMES, X_NAMES, Y_NAMES};
use crate::store::masks::is_mask;
use crate::store::om4_store::Store;
use crate::store::plane_array::PlaneArray;
use crate::survey::finding::{Finding, FindingKind, Severity};
use crate::survey::listing::Listing;
use crate::threads;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use rayon::prelude::*;

/// Compares the files of every array of a group with its metadata. `store` is the group opened, as far as
/// it opens: its masks tell which missing chunks are land.
///
/// # Errors
/// The reader threads cannot be started.
pub(super) fn check_files(
    group: &ZarrGroup,
    store: Option<&Store>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Finding>> {
    let arrays: Vec<&ArrayMeta> = group.arrays.values().collect();
    let check = |meta: &&ArrayMeta| {
        let findings = check_array(group, meta, store);
        progress(1);
        findings
    };
    let pool = threads::pool()?;
    let found: Vec<Vec<Finding>> = pool.install(|| arrays.par_iter().map(check).collect());
    Ok(found.concat())
}

fn check_array(group: &ZarrGroup, meta: &ArrayMeta, store: Option<&Store>) -> Vec<Finding> {
    let root = group.storage.root();
    let listing = match Listing::of(group, meta) {
        Ok(listing) => listing,
        Err(e) => {
            let mut finding = Finding::of(&e, root, FindingKind::Metadata);
            // What is company to the fields may be of any kind.
            if !is_used(meta, store) {
                finding.severity = Severity::Note;
            }
            return vec![finding];
        }
    };
    let finding = |severity, kind, key: &str, message: String| {
        Finding::new(severity, kind, root, message)
            .array(&meta.name)
            .chunk(key)
    };
    let mut findings = Vec::new();
    for (indices, key) in &listing.missing {
        let (severity, message) = judge_missing(meta, indices, store);
        findings.push(finding(severity, FindingKind::MissingChunk, key, message));
    }
    for (key, why) in &listing.odd {
        let message = format!("cannot be read: {why}");
        findings.push(finding(
            Severity::Error,
            FindingKind::Unreadable,
            key,
            message,
        ));
    }
    for (key, size) in &listing.sizes {
        let message = match (size, listing.exact) {
            (size, Some(exact)) => format!("the file has {size} bytes, a chunk {exact}"),
            _ => "the file is empty".to_owned(),
        };
        findings.push(finding(Severity::Error, FindingKind::Size, key, message));
    }
    for key in &listing.stray {
        let (severity, message) = match is_chunk_key(key) {
            true => (
                Severity::Warning,
                "a chunk that the metadata does not know: metadata older than the data?",
            ),
            false => (Severity::Note, "a file that is no chunk"),
        };
        let kind = FindingKind::Stray;
        findings.push(finding(severity, kind, key, message.to_owned()));
    }
    findings
}

/// Whether a file's path in its array's folder looks like a chunk's.
fn is_chunk_key(key: &str) -> bool {
    let numbers = key.strip_prefix("c/").or_else(|| key.strip_prefix("c."));
    let mut numbers = numbers.unwrap_or(key).split(['.', '/']);
    numbers.all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether opening or reading a store uses an array: planes, masks, coordinates, cell areas.
fn is_used(meta: &ArrayMeta, store: Option<&Store>) -> bool {
    let Some(store) = store else { return true };
    let coordinates = [
        &LEVEL_NAMES[..],
        &Y_NAMES,
        &X_NAMES,
        &["time", "lat", "lon", "geolat", "geolon", "areacello"],
    ];
    let name = meta.name.as_str();
    let planes = store.arrays.iter().any(|array| array.layout.name == name);
    planes || is_mask(name) || coordinates.iter().any(|names| names.contains(&name))
}

/// What a missing chunk means: land that a writer left out, or data that is not there.
fn judge_missing(meta: &ArrayMeta, indices: &[u64], store: Option<&Store>) -> (Severity, String) {
    let array = store.and_then(|s| s.arrays.iter().find(|a| a.layout.name == meta.name));
    let (Some(store), Some(array)) = (store, array) else {
        let fill = meta.document.get("fill_value");
        return match fill.filter(|fill| !fill.is_null()) {
            Some(fill) => {
                let message = format!("not there: it is the fill value, {fill}");
                // Without the masks nobody knows whether it is land.
                let planes = meta.shape.len() > 2 && store.is_none();
                let severity = match planes {
                    true => Severity::Warning,
                    false => Severity::Note,
                };
                (severity, message)
            }
            None => (
                Severity::Error,
                "not there, and the array has no fill value".to_owned(),
            ),
        };
    };
    if array.leaves_out_missing && is_dry(store, array, indices) {
        return (Severity::Note, "not there: all land".to_owned());
    }
    let message = "not there, with ocean in it: an interrupted copy, or a writer that leaves out chunks \
                   of the fill value";
    (Severity::Error, message.to_owned())
}

/// Whether no cell of a chunk is wet in the mask of its level.
fn is_dry(store: &Store, array: &PlaneArray, indices: &[u64]) -> bool {
    let layout = &array.layout;
    let box_of = |axis: usize, extent: usize| {
        let first = indices[axis] as usize * layout.chunk[axis] as usize;
        first..(first + layout.chunk[axis] as usize).min(extent)
    };
    let shape = store.shape();
    let y = layout.shape.len() - 2;
    let (rows, columns) = (box_of(y, shape.ny), box_of(y + 1, shape.nx));
    let position = store.arrays.iter().position(|a| std::ptr::eq(a, array));
    let levels = layout
        .level_axis
        .map(|axis| box_of(axis, layout.shape[axis] as usize));
    let channels = std::iter::zip(store.channels(), &store.slots)
        .filter(|(_, slot)| Some(slot.array) == position)
        .filter(|(_, slot)| {
            levels
                .as_ref()
                .is_none_or(|levels| levels.contains(&slot.level))
        });
    let mut masks = channels.map(|(channel, _)| store.masks().of(channel));
    masks.all(|mask| {
        let Ok(mask) = mask else { return false };
        let cells = mask.as_slice();
        rows.clone().all(|row| {
            let line = &cells[row * shape.nx..(row + 1) * shape.nx];
            line[columns.clone()].iter().all(|wet| !wet)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_chunks_are_numbers() {
        for key in ["0", "3.0.0", "3/0/0", "c/3/0/0", "c.3.0"] {
            assert!(is_chunk_key(key), "{key}");
        }
        for key in ["README.md", "3.0.0.tmp", "c", "3..0", ""] {
            assert!(!is_chunk_key(key), "{key}");
        }
    }
}
