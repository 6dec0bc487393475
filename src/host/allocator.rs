//! The allocators behind a [`HostPool`](crate::host::HostPool): ordinary memory, and memory that
//! the CUDA driver has page-locked.

use crate::error::{Error, ErrorKind, Result};
use burn_std::AllocationProperty;
use std::alloc::Layout;
use std::ptr::NonNull;

/// Alignment of every host buffer, bytes: a page, so that direct reads and any element type fit.
pub const HOST_ALIGN: usize = 4096;

/// Where host buffers come from.
///
/// # Safety
/// `allocate` returns memory of at least the asked size, aligned to [`HOST_ALIGN`], fully
/// initialised, that nobody else uses until `free`.
pub unsafe trait HostAllocator: Send + Sync + 'static {
    /// Allocates `bytes` (more than 0) initialised bytes.
    ///
    /// # Errors
    /// Out of memory, or the driver refused.
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees what `allocate` returned. Must not panic.
    ///
    /// # Safety
    /// `pointer` came from `allocate(bytes)` of this allocator and is used no more.
    unsafe fn free(&self, pointer: NonNull<u8>, bytes: usize);

    /// How Burn may treat the memory; [`AllocationProperty::Pinned`] skips the staging copy.
    fn property(&self) -> AllocationProperty;

    /// Called when a buffer comes home, before it can be leased again: a place for tests to
    /// overwrite it, so that whoever still reads it is found out. Must be short and not panic.
    fn came_home(&self, _memory: &mut [u8]) {}
}

/// Buffers of at least two huge pages get huge pages, where the system has them: some hundred times
/// fewer page faults when they are new, and fewer misses of the translation cache ever after.
const HUGE_PAGE: usize = 2 << 20;

/// Ordinary memory from the system allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrdinaryMemory;

impl OrdinaryMemory {
    fn layout(bytes: usize) -> Result<Layout> {
        let align = if bytes < 2 * HUGE_PAGE {
            HOST_ALIGN
        } else {
            HUGE_PAGE
        };
        Layout::from_size_align(bytes, align).map_err(|e| {
            Error::new(ErrorKind::Config, "a host buffer is too large")
                .found(format!("{bytes} bytes"))
                .caused_by(e)
        })
    }
}

/// Asks for huge pages. Advice: where it is not taken, nothing changes.
fn prefer_huge_pages(pointer: NonNull<u8>, layout: &Layout) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if layout.align() >= HUGE_PAGE {
        // SAFETY: the range was just allocated with this layout and starts at a page; the advice
        // changes neither its contents nor who may use it.
        unsafe {
            libc::madvise(pointer.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (pointer, layout);
}

// SAFETY: `alloc` returns fresh memory of the layout asked for, and all of it is zeroed.
unsafe impl HostAllocator for OrdinaryMemory {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        assert!(bytes > 0, "the pool never asks for an empty buffer");
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout's size is not zero.
        let pointer = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(|| {
            Error::new(ErrorKind::Io, "out of host memory").found(format!("{bytes} bytes asked"))
        })?;
        prefer_huge_pages(pointer, &layout);
        // SAFETY: the memory is ours and `bytes` long. Not `alloc_zeroed`: it would touch the pages
        // before the advice about them.
        unsafe { pointer.as_ptr().write_bytes(0, bytes) };
        Ok(pointer)
    }

    unsafe fn free(&self, pointer: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Self::layout(bytes) {
            // SAFETY: by contract `pointer` came from `alloc` with this very layout.
            unsafe { std::alloc::dealloc(pointer.as_ptr(), layout) }
        }
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }
}

/// Memory that the CUDA driver has locked in place, so that a copy to a GPU runs beside the host
/// and without a staging buffer. Visible to every device of the process (portable).
///
/// Buffers are zeroed once, when they are allocated: the driver promises no contents.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub struct PageLockedMemory {
    context: std::sync::Arc<cudarc::driver::CudaContext>,
}

#[cfg(feature = "cuda")]
impl PageLockedMemory {
    /// Page-locked memory through the primary context of the n-th device, which Burn uses too.
    ///
    /// # Errors
    /// No CUDA driver on this machine, or no such device.
    pub fn new(device: usize) -> Result<Self> {
        let missing = || {
            Error::new(ErrorKind::Device, "page-locked memory needs a CUDA device")
                .expected(format!("a CUDA driver and device {device}"))
        };
        // cudarc panics when it cannot load the driver: ask first.
        // SAFETY: looks for a shared library and runs none of our code.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(missing().found("no driver library"));
        }
        match cudarc::driver::CudaContext::new(device) {
            Ok(context) => Ok(Self { context }),
            Err(e) => Err(missing().found("the driver refused").caused_by(e)),
        }
    }
}

// SAFETY: the driver returns page-aligned memory of the size asked for, which nobody else has; it
// is initialised here. (Pages are at least HOST_ALIGN on every system that CUDA supports; checked.)
#[cfg(feature = "cuda")]
unsafe impl HostAllocator for PageLockedMemory {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        use cudarc::driver::{result, sys};
        assert!(bytes > 0, "the pool never asks for an empty buffer");
        let refused = |e: cudarc::driver::DriverError| {
            Error::new(
                ErrorKind::Device,
                "the CUDA driver refused page-locked memory",
            )
            .found(format!("{bytes} bytes asked"))
            .caused_by(e)
        };
        self.context.bind_to_thread().map_err(refused)?;
        // Not write-combined: decoders read back what they have written.
        // SAFETY: a context is bound to this thread.
        let memory = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let memory = memory.map_err(refused)?.cast::<u8>();
        // SAFETY: the allocation is `bytes` long and ours alone.
        unsafe { std::ptr::write_bytes(memory, 0, bytes) };
        let aligned = NonNull::new(memory).filter(|m| m.addr().get() % HOST_ALIGN == 0);
        aligned.ok_or_else(|| {
            Error::new(
                ErrorKind::Device,
                "the CUDA driver returned unaligned memory",
            )
            .expected(format!("a multiple of {HOST_ALIGN}"))
            .found(format!("{memory:?}"))
        })
    }

    unsafe fn free(&self, pointer: NonNull<u8>, bytes: usize) {
        if self.context.bind_to_thread().is_err() {
            // Without a context nothing can be freed: leak, and say so.
            log::warn!("{bytes} bytes of page-locked memory could not be freed");
            return;
        }
        // SAFETY: by contract `pointer` came from `malloc_host`.
        if let Err(e) = unsafe { cudarc::driver::result::free_host(pointer.as_ptr().cast()) } {
            log::warn!("{bytes} bytes of page-locked memory could not be freed: {e}");
        }
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_memory_is_aligned_and_initialised_and_is_freed_as_it_was_allocated() {
        // One byte, odd sizes, and where larger pages begin.
        let sizes = [1, 4095, 4097, 2 * HUGE_PAGE - 1, 2 * HUGE_PAGE];
        let held = sizes.map(|bytes| (OrdinaryMemory.allocate(bytes).unwrap(), bytes));
        for (pointer, bytes) in held {
            let align = if bytes < 2 * HUGE_PAGE {
                HOST_ALIGN
            } else {
                HUGE_PAGE
            };
            assert_eq!(pointer.addr().get() % align, 0, "{bytes} bytes");
            // SAFETY: just allocated, `bytes` long, initialised by contract, and nobody else's.
            let memory = unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), bytes) };
            let ends = [0, bytes / 2, bytes - 1];
            assert!(ends.map(|at| memory[at]).iter().all(|byte| *byte == 0));
            for at in ends {
                memory[at] = 255;
            }
        }
        for (pointer, bytes) in held {
            // SAFETY: it came from `allocate(bytes)` and is used no more.
            unsafe { OrdinaryMemory.free(pointer, bytes) }
        }
    }

    #[test]
    fn more_than_there_can_be_is_an_error() {
        let e = OrdinaryMemory.allocate(usize::MAX).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
    }
}
