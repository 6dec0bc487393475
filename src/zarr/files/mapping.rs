//! A file mapped into memory. Unsafe: nothing may change the file while it is mapped, which
//! `ReadMethod::Mmap` asks of its user.

use crate::zarr::files::pread;
#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::path::Path;

/// How much of a mapping will be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    Parts,
}

/// A mapped file; its descriptor is closed already.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// `None` for an empty file.
    map: Option<Mmap>,
}

impl Mapping {
    pub(super) fn open(path: &Path, wanted: Wanted) -> io::Result<Option<Self>> {
        let Some(file) = pread::open(path)? else {
            return Ok(None);
        };
        let size = pread::size(&file)?;
        Self::of_file(&file, size, wanted).map(Some)
    }

    /// Maps an opened file that was seen to have `size` bytes.
    pub(super) fn of_file(file: &File, size: u64, wanted: Wanted) -> io::Result<Self> {
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let map = match length {
            0 => None,
            _ => Some(map(file, length, wanted)?),
        };
        Ok(Self { map })
    }

    /// Size in bytes, when it was opened.
    pub(super) fn size(&self) -> u64 {
        self.bytes().len() as u64
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// `length` bytes from `offset` on, where they lie.
    pub(super) fn bytes_at(&self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let bytes = part(self.bytes(), offset, length)?;
        #[cfg(target_os = "linux")]
        if let Some(map) = self.map.as_ref().filter(|_| length > 0) {
            // Asked for at once, and mapped by one system call instead of a page fault for every
            // few pages. It is advice: a kernel before 5.14, which does not know the second, maps
            // the pages one by one.
            for advice in [Advice::WillNeed, Advice::PopulateRead] {
                let _ = map.advise_range(advice, offset as usize, length);
            }
        }
        Ok(bytes)
    }
}

/// Bytes that a mapping has: beyond its end a page may be mapped, and reading further ends the process.
fn part(bytes: &[u8], offset: u64, length: usize) -> io::Result<&[u8]> {
    let start = usize::try_from(offset).ok();
    let end = start.and_then(|start| start.checked_add(length));
    let range = start.zip(end).map(|(start, end)| start..end);
    let part = range.and_then(|range| bytes.get(range));
    part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn map(file: &File, length: usize, wanted: Wanted) -> io::Result<Mmap> {
    let mut options = MmapOptions::new();
    options.len(length);
    if wanted == Wanted::Whole {
        options.populate();
    }
    // SAFETY: the file was seen to have `length` bytes. Nothing in this process writes to the files
    // of a store, and `ReadMethod::Mmap` asks of its user that nobody else does while the store is
    // open: then the bytes stay what they are for as long as the mapping is borrowed.
    let map = unsafe { options.map(file) }?;
    #[cfg(target_os = "linux")]
    if wanted == Wanted::Parts {
        // Otherwise a fault reads on into planes that nobody wants: cold, seven times the wall
        // time.
        let _ = map.advise(Advice::Random);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Miri maps no files, so it sees what is done with the bytes alone.
    #[test]
    fn a_part_lies_inside_or_is_an_early_end() {
        let bytes: Vec<u8> = (0..10).collect();
        assert_eq!(part(&bytes, 2, 3).unwrap(), [2, 3, 4]);
        assert_eq!(part(&bytes, 0, 10).unwrap(), bytes);
        assert_eq!(part(&bytes, 10, 0).unwrap(), [0; 0]);
        for (offset, length) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 1), (1, usize::MAX)] {
            let e = part(&bytes, offset, length).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof, "{offset}, {length}");
        }
    }
}
