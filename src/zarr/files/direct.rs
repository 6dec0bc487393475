//! Reads that go past the page cache (`O_DIRECT`): from the disk straight into memory.
//!
//! Offsets and lengths must be multiples of a block, and memory must be aligned. Where the memory
//! that is wanted is so, whole blocks go straight to it and only the rest of the last one takes the
//! thread's own memory between; otherwise everything does.

use crate::error::Result;
use crate::options::ReadMethod;
use crate::zarr::files::back_end::{BackEnd, Decode, ReadBuffers, more_than_encoded};
use crate::zarr::files::back_end::{check_encoded, read_error, tried};
use crate::zarr::files::kind;
use crate::zarr::files::pread::{read_at, read_parts_at, size};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};

/// Where the file system does not say (before Linux 6.1): a page is enough for every common disk.
const PAGE: usize = 4096;

/// What the file system asks of direct reads, bytes, powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    /// Of addresses.
    memory: usize,
    /// Of offsets and lengths.
    block: usize,
}

impl Direct {
    /// Asks the file system of every sample, and tries it there: a store may be put together from
    /// several by links. What is asked for is what all of them take.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): one refuses.
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): a sample is not there or cannot be read.
    pub(super) fn probe(samples: &mut dyn Iterator<Item = PathBuf>) -> Result<Self> {
        let mut asks = Self {
            memory: 1,
            block: 1,
        };
        for sample in samples {
            let one = Self::try_on(&sample).map_err(|e| tried(ReadMethod::Direct, &sample, e))?;
            asks.memory = asks.memory.max(one.memory);
            asks.block = asks.block.max(one.block);
        }
        Ok(asks)
    }

    fn try_on(sample: &Path) -> io::Result<Self> {
        let wanted = StatxFlags::DIOALIGN;
        let told = rustix::fs::statx(CWD, sample, AtFlags::empty(), wanted)?;
        let knows = told.stx_mask & wanted.bits() != 0;
        let (memory, block) = match (told.stx_dio_mem_align, told.stx_dio_offset_align) {
            _ if !knows => (PAGE, PAGE),
            (_, 0) => return Err(io::ErrorKind::Unsupported.into()),
            (memory, block) => (memory as usize, block as usize),
        };
        let direct = Self {
            memory: memory.next_power_of_two(),
            block: block.next_power_of_two(),
        };
        let file = direct.open_file(sample)?;
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        let buffer = &mut ReadBuffers::default();
        let block = buffer.aligned(direct.align(), direct.block)?;
        read_at(&file, block, 0).map_err(|e| kind::instead_of(&file, e))?;
        Ok(direct)
    }

    fn open_file(&self, path: &Path) -> io::Result<Option<File>> {
        kind::found(path, kind::reading(libc::O_DIRECT).open(path))
    }

    /// Alignment of memory at which any whole number of blocks may be read.
    fn align(&self) -> usize {
        self.memory.max(self.block)
    }

    /// How much of `out`, from its beginning, can be read to directly.
    fn straight(&self, out: &[u8]) -> usize {
        if out.as_ptr().addr().is_multiple_of(self.memory) {
            out.len() / self.block * self.block
        } else {
            0
        }
    }

    /// `length` bytes of a file from `offset` on, through `buffers`.
    fn load<'a>(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        buffers: &'a mut ReadBuffers,
    ) -> io::Result<&'a [u8]> {
        let skip = (offset % self.block as u64) as usize;
        let start = offset - skip as u64;
        let wanted = skip.saturating_add(length);
        let buffer = buffers.aligned(self.align(), wanted.next_multiple_of(self.block))?;
        let mut read = 0;
        while read < wanted {
            let to = &mut buffer[read..];
            let n = read_at(file, to, start + read as u64)?;
            read += n;
            // Only the end of the file is not at the end of a block.
            if read < wanted && (n == 0 || !n.is_multiple_of(self.block)) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(&buffer[skip..wanted])
    }
}

impl BackEnd for Direct {
    type File = DirectFile;

    fn descriptors_per_thread(&self) -> u64 {
        1
    }

    fn read_whole(
        &self,
        path: &Path,
        out: &mut [u8],
        buffers: &mut ReadBuffers,
    ) -> io::Result<Option<u64>> {
        let Some(file) = self.open_file(path)? else {
            return Ok(None);
        };
        let wanted = out.len();
        let (head, rest) = out.split_at_mut(self.straight(out));
        // At least a byte more than wanted: a file that is too long shows itself.
        let length = (rest.len() + 1).next_multiple_of(self.block);
        let tail = buffers.aligned(self.align(), length)?;
        let read = if head.is_empty() {
            read_at(&file, tail, 0)
        } else {
            read_parts_at(&file, &mut [IoSliceMut::new(head), IoSliceMut::new(tail)])
        };
        let read = read.map_err(|e| kind::instead_of(&file, e))?;
        if read == wanted {
            rest.copy_from_slice(&tail[..rest.len()]);
            return Ok(Some(wanted as u64));
        }
        let size = size(&file)?;
        if size == wanted as u64 {
            // The read stopped early.
            out.copy_from_slice(self.load(&file, 0, wanted, buffers)?);
        }
        Ok(Some(size))
    }

    fn decode_whole(
        &self,
        path: &Path,
        likely: usize,
        buffers: &mut ReadBuffers,
        decode: &mut Decode<'_>,
    ) -> Result<Option<u64>> {
        let Some(file) = self.open_file(path).map_err(read_error)? else {
            return Ok(None);
        };
        let length = more_than_encoded(likely).next_multiple_of(self.block);
        let buffer = buffers.aligned(self.align(), length).map_err(read_error)?;
        let failed = |e| read_error(kind::instead_of(&file, e));
        let read = read_at(&file, buffer, 0).map_err(failed)?;
        if read < buffer.len() && decode(&buffer[..read]).is_ok() {
            return Ok(Some(read as u64));
        }
        // Damage, more than was thought likely, or a read that stopped early: once more, by its
        // size.
        let size = size(&file).map_err(read_error)?;
        check_encoded(size, likely)?;
        let bytes = self.load(&file, 0, size as usize, buffers);
        decode(bytes.map_err(read_error)?)?;
        Ok(Some(size))
    }

    fn open(&self, path: &Path) -> io::Result<Option<DirectFile>> {
        let file = self.open_file(path)?;
        let asks = *self;
        Ok(file.map(|file| DirectFile { file, asks }))
    }
}

/// A file that is read in parts.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    asks: Direct,
}

impl DirectFile {
    pub(super) fn size(&self) -> io::Result<u64> {
        size(&self.file)
    }

    pub(super) fn bytes_at<'a>(
        &self,
        offset: u64,
        length: usize,
        buffers: &'a mut ReadBuffers,
    ) -> io::Result<&'a [u8]> {
        self.asks.load(&self.file, offset, length, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_file_system_that_refuses_is_named() {
        let sample = PathBuf::from("/proc/self/status");
        let e = Direct::probe(&mut std::iter::once(sample)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        let text = e.to_string();
        assert!(
            text.contains("direct") && text.contains("/proc/self/status"),
            "{text}"
        );
    }
}
