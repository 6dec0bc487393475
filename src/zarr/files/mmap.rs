//! Chunk files mapped into memory: compressed bytes are decoded where the page cache has them.
//!
//! What is saved is the copy out of the page cache; what it costs is a mapping and its removal,
//! which all threads of the process notice. A file that somebody truncates while it is mapped ends
//! the process with SIGBUS, and one that is rewritten changes under decoders that expect it to stay
//! as it is: no library can turn that into an error, hence never the default.

use crate::error::Result;
use crate::options::ReadMethod;
use crate::zarr::files::back_end::{
    BackEnd, Decode, ReadBuffers, check_encoded, read_error, tried,
};
use crate::zarr::files::mapping::{Mapping, Wanted};
use crate::zarr::files::pread;
use std::io;
use std::path::{Path, PathBuf};

/// Reads through mappings.
#[derive(Debug)]
pub(crate) struct Mapped;

impl Mapped {
    /// Maps every sample.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): a file system has no mappings.
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): a sample is not there or cannot be read.
    pub(super) fn probe(samples: &mut dyn Iterator<Item = PathBuf>) -> Result<Self> {
        for sample in samples {
            let mapped = Mapping::open(&sample, Wanted::Parts)
                .and_then(|map| map.ok_or_else(|| io::ErrorKind::NotFound.into()));
            mapped.map_err(|e| tried(ReadMethod::Mmap, &sample, e))?;
        }
        Ok(Self)
    }
}

impl BackEnd for Mapped {
    type File = Mapping;

    fn descriptors_per_thread(&self) -> u64 {
        1
    }

    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        _: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        let Some(file) = pread::open(path)? else {
            return Ok(None);
        };
        let size = pread::size(&file)?;
        if size == out.len() as u64 {
            let mapping = Mapping::of_file(&file, size, Wanted::Whole)?;
            out.copy_from_slice(mapping.bytes());
        }
        Ok(Some(size))
    }

    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        _: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        let Some(file) = pread::open(path).map_err(read_error)? else {
            return Ok(None);
        };
        let size = pread::size(&file).map_err(read_error)?;
        // A longer one would be read from the disk to find out no more.
        check_encoded(size, likely)?;
        let mapping = Mapping::of_file(&file, size, Wanted::Whole).map_err(read_error)?;
        decode(mapping.bytes())?;
        Ok(Some(size))
    }

    fn open(&self, path: &Path) -> io::Result<Option<Mapping>> {
        Mapping::open(path, Wanted::Parts)
    }
}
