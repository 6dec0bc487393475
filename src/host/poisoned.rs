//! Memory for tests: whoever reads it after it came home is found out.

use super::allocator::HostAllocator;
use crate::error::Result;
use burn_std::AllocationProperty;
use std::ptr::NonNull;

/// Every byte of memory that is at home; four of them are a NaN.
const POISON: u8 = 0xff;

/// Memory of another kind that is overwritten as soon as it comes home: read as float32, it is NaN.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoisonedMemory<A>(pub A);

// SAFETY: the contract is that of the inner allocator, which does all the work; `came_home` is
// called while nobody else can reach the memory.
unsafe impl<A: HostAllocator> HostAllocator for PoisonedMemory<A> {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.0.allocate(bytes)
    }

    unsafe fn free(&self, pointer: NonNull<u8>, bytes: usize) {
        // SAFETY: by contract it came from `allocate`.
        unsafe { self.0.free(pointer, bytes) }
    }

    fn property(&self) -> AllocationProperty {
        self.0.property()
    }

    fn came_home(&self, memory: &mut [u8]) {
        memory.fill(POISON);
    }
}
