//! Memory that is used again: no fresh pages from one training step to the next.
//!
//! A step makes and drops the same tensors as the step before, up to hundreds of megabytes each. An
//! allocator gives such blocks back to the system when they are freed and asks for them anew, and
//! every new page is a fault that the kernel serves with zeros. Here they come from regions that
//! stay:
//!
//! ```text
//!  region   | lease | free        | lease | lease | free              |
//!                     ^-- the smallest free piece that is large enough is cut
//!                         neighbours that are both free become one piece
//! ```
//!
//! A region of which nothing is leased is given back when it is too small for what is asked.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

/// Sizes and positions are multiples of this, bytes: a cache line or two.
const GRAIN: usize = 128;

/// Where regions begin, bytes: a huge page of x86 and 64-bit ARM.
const HUGE_PAGE: usize = 2 << 20;

/// The least size of a region, bytes. Pages of it that nobody wrote to cost nothing.
const SMALLEST_REGION: usize = 16 << 20;

static ARENA: Mutex<Arena> = Mutex::new(Arena {
    regions: BTreeMap::new(),
    next: 0,
});

fn arena() -> MutexGuard<'static, Arena> {
    // The bookkeeping has no state between its steps that a panic could leave behind.
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Arena {
    regions: BTreeMap<u64, Region>,
    next: u64,
}

struct Region {
    /// What the allocator gave, for giving it back.
    allocation: NonNull<u8>,
    layout: Layout,
    /// The first huge page in it.
    begin: NonNull<u8>,
    bytes: usize,
    /// Free pieces: where they begin, and their size.
    free: BTreeMap<usize, usize>,
}

// SAFETY: the pointers are to memory that the region owns; whoever holds the region may use them.
unsafe impl Send for Region {}

/// A piece of a region.
#[derive(Clone, Copy)]
struct Piece {
    region: u64,
    offset: usize,
    bytes: usize,
}

impl Arena {
    fn take(&mut self, bytes: usize) -> (Piece, NonNull<u8>) {
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let region = self.best(bytes).unwrap_or_else(|| self.grow(bytes));
        let region_ref = self.regions.get_mut(&region).expect("just found");
        let (offset, pointer) = region_ref.cut(bytes);
        let piece = Piece {
            region,
            offset,
            bytes,
        };
        (piece, pointer)
    }

    /// The region with the smallest free piece that is large enough.
    fn best(&self, bytes: usize) -> Option<u64> {
        let fits = |(id, region): (&u64, &Region)| Some((region.smallest(bytes)?.1, *id));
        self.regions.iter().filter_map(fits).min().map(|(_, id)| id)
    }

    fn grow(&mut self, bytes: usize) -> u64 {
        // They were found too small.
        self.regions.retain(|_, region| !region.is_idle());
        let held: usize = self.regions.values().map(|region| region.bytes).sum();
        let id = self.next;
        self.next += 1;
        let bytes = bytes.max(held).max(SMALLEST_REGION);
        self.regions.insert(id, Region::new(bytes));
        id
    }

    fn give_back(&mut self, piece: Piece) {
        let region = self.regions.get_mut(&piece.region);
        region.expect("a region with a lease stays").join(piece);
    }
}

impl Region {
    fn new(bytes: usize) -> Self {
        // No alignment is asked for: only then zeroed memory comes without touching it.
        let layout = Layout::array::<u8>(bytes + HUGE_PAGE).expect("less than half of all memory");
        // SAFETY: the size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) });
        let allocation = allocation.unwrap_or_else(|| handle_alloc_error(layout));
        let skip = allocation.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        // SAFETY: the allocation is a huge page longer than the region.
        let begin = unsafe { allocation.add(skip) };
        prefer_huge_pages(begin, bytes);
        Self {
            allocation,
            layout,
            begin,
            bytes,
            free: BTreeMap::from([(0, bytes)]),
        }
    }

    fn is_idle(&self) -> bool {
        self.free.get(&0) == Some(&self.bytes)
    }

    fn smallest(&self, bytes: usize) -> Option<(usize, usize)> {
        let free = self.free.iter().map(|(offset, size)| (*offset, *size));
        free.filter(|(_, size)| *size >= bytes)
            .min_by_key(|(_, size)| *size)
    }

    fn cut(&mut self, bytes: usize) -> (usize, NonNull<u8>) {
        let (offset, size) = self.smallest(bytes).expect("a piece that is large enough");
        self.free.remove(&offset);
        if size > bytes {
            self.free.insert(offset + bytes, size - bytes);
        }
        // SAFETY: the piece lies in the region.
        (offset, unsafe { self.begin.add(offset) })
    }

    fn join(&mut self, piece: Piece) {
        let (mut offset, mut bytes) = (piece.offset, piece.bytes);
        if let Some(after) = self.free.remove(&(offset + bytes)) {
            bytes += after;
        }
        let before = self.free.range(..offset).next_back();
        if let Some((&before, &size)) = before
            && before + size == offset
        {
            offset = before;
            bytes += size;
        }
        self.free.insert(offset, bytes);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout, and nothing of it is leased.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// Asks for huge pages. Advice: where it is not taken, nothing changes.
fn prefer_huge_pages(begin: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range was just allocated and begins at a page; the advice changes neither its
    // contents nor who may use it.
    unsafe {
        libc::madvise(begin.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (begin, bytes);
}

/// Tells the C library to keep the memory of dropped tensors for the next ones, for the whole process.
///
/// The network's own large tensors stay in a pool, but those that Burn allocates (losses, masks, what
/// an optimiser makes) go back to the system when they are dropped, and every step asks for their
/// pages anew. A program that trains on a CPU calls this once, at its start: then no step but the
/// first two has page faults. The price is that memory once used is not returned to the system before
/// the process ends. Does nothing where the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: two settings of the allocator, whose values it accepts or ignores.
    unsafe {
        // Blocks up to here come from the heap, not from a mapping of their own.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        // The heap's free end is never cut off.
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}

/// Floats for as long as the lease lives. They hold whatever was there before.
pub(super) struct Lease {
    piece: Piece,
    pointer: NonNull<u8>,
    floats: usize,
}

// SAFETY: a lease is the only owner of its piece.
unsafe impl Send for Lease {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Lease {}

/// Memory for so many floats.
pub(super) fn lease(floats: usize) -> Lease {
    let (piece, pointer) = arena().take(floats * size_of::<f32>());
    Lease {
        piece,
        pointer,
        floats,
    }
}

impl Lease {
    /// As Burn holds memory; it comes back when the last tensor on it is dropped.
    pub(super) fn into_bytes(self) -> Bytes {
        let bytes = self.floats * size_of::<f32>();
        // SAFETY: all memory of the arena is initialised, and the lease is that long.
        unsafe { Bytes::from_controller(Box::new(Controller(self)), bytes) }
    }
}

impl Deref for Lease {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the piece is that long, aligned, initialised (any bits are a float), and nobody
        // else's.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr().cast(), self.floats) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr().cast(), self.floats) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        arena().give_back(self.piece);
    }
}

/// The lease, as Burn sees it. It cannot grow, split or be shared; a clone of the `Bytes` copies.
struct Controller(Lease);

impl AllocationController for Controller {
    fn alloc_align(&self) -> usize {
        // What a copy gets.
        16
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let lease = &mut self.0;
        let bytes = lease.floats * size_of::<f32>();
        // SAFETY: exclusive through `&mut self`; the caller writes only initialised bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(lease.pointer.as_ptr().cast(), bytes) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes = self.0.floats * size_of::<f32>();
        // SAFETY: shared through `&self`; nobody writes while it is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(self.0.pointer.as_ptr().cast(), bytes) })
    }

    fn capacity(&self) -> usize {
        self.0.floats * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn empty() -> Arena {
        Arena {
            regions: BTreeMap::new(),
            next: 0,
        }
    }

    fn free(arena: &Arena) -> Vec<(usize, usize)> {
        let region = arena.regions.values().next().unwrap();
        region.free.iter().map(|(a, b)| (*a, *b)).collect()
    }

    #[test]
    fn pieces_are_cut_from_the_smallest_that_fits_and_neighbours_join() {
        let mut arena = empty();
        let pieces = [8, 1, 4, 1].map(|size| arena.take(size * KIB).0);
        let rest = (14 * KIB, SMALLEST_REGION - 14 * KIB);
        assert_eq!(free(&arena), [rest]);
        arena.give_back(pieces[0]);
        arena.give_back(pieces[2]);
        let holes = [(0, 8 * KIB), (9 * KIB, 4 * KIB), rest];
        assert_eq!(free(&arena), holes);
        // Three fit into four, not into eight.
        let (small, _) = arena.take(3 * KIB);
        assert_eq!(small.offset, 9 * KIB);
        arena.give_back(small);
        assert_eq!(free(&arena), holes);
        arena.give_back(pieces[1]);
        assert_eq!(free(&arena), [(0, 13 * KIB), rest]);
        arena.give_back(pieces[3]);
        assert_eq!(free(&arena), [(0, SMALLEST_REGION)]);
    }

    #[test]
    fn an_idle_region_goes_when_it_is_too_small_and_a_used_one_stays() {
        let mut arena = empty();
        let (first, _) = arena.take(KIB);
        let (second, _) = arena.take(2 * SMALLEST_REGION);
        assert_eq!(arena.regions.len(), 2);
        arena.give_back(second);
        arena.take(8 * SMALLEST_REGION);
        let sizes: Vec<usize> = arena.regions.values().map(|region| region.bytes).collect();
        assert_eq!(sizes, [SMALLEST_REGION, 8 * SMALLEST_REGION]);
        arena.give_back(first);
    }

    #[test]
    fn a_lease_comes_back_from_burn() {
        let mut floats = lease(3);
        floats.copy_from_slice(&[1.0, 2.0, 3.0]);
        let bytes = floats.into_bytes();
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(*copy, [1.0_f32, 2.0, 3.0].map(f32::to_ne_bytes).concat());
        // Never given back, these would be 8 GB; other tests hold a little.
        for _ in 0..100 {
            drop(lease(20 << 20).into_bytes());
        }
        let held: usize = arena().regions.values().map(|region| region.bytes).sum();
        assert!(held < 1 << 30, "{held}");
    }
}
