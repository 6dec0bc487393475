//! Host buffers: leased from a pool, filled by the reader, carried to the device inside Burn's
//! [`Bytes`], and home again when the last owner lets go. The crate's unsafe code is here, but for
//! one call of a C library in `blosc`.
//!
//! ```text
//!          lease()                 into_bytes()              from_data()
//!   pool ───────────▶ HostLease ───────────────▶ Bytes ────────────────▶ tensor / copy queue
//!    ▲                (reader, exclusive)        (Burn)                   (device)
//!    └────────────────────────── drop: exactly once, by whoever owns it ──────┘
//! ```
//!
//! One owner at every moment, by move: a lease is not `Clone`, `Bytes` never hands its controller
//! out, and a copy of `Bytes` copies the values. So a buffer cannot be leased again while anybody
//! may still read or write it. On an asynchronous device the last owner is the copy queue, which
//! drops the `Bytes` after the fence that follows the copy.

#[cfg(feature = "cuda")]
pub use super::allocator::PageLockedMemory;
pub use super::allocator::{HOST_ALIGN, HostAllocator, OrdinaryMemory};

use super::leases::{LeaseId, Leases};
use crate::error::{Error, ErrorKind, Result};
use crate::host::slots::{Exhausted, Pooled, SlotBounds, SlotCounts, Slots, Taken};
use crate::sync::lock;
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};
use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Alignment of copies of a buffer: the largest that CubeCL's own allocations take.
const COPY_ALIGN: usize = 16;
const _: () = assert!(HOST_ALIGN.is_multiple_of(COPY_ALIGN));

/// Limits of a [`HostPool`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HostPoolOptions {
    /// Free buffers kept for reuse; the largest stay. Default 3.
    pub keep: usize,
    /// Buffers leased at the same time; `None` (default) for no limit.
    pub limit: Option<usize>,
    /// How long [`HostPool::lease`] waits at the limit. Default 60 s.
    pub timeout: Duration,
}

impl Default for HostPoolOptions {
    fn default() -> Self {
        Self {
            keep: 3,
            limit: None,
            timeout: Duration::from_secs(60),
        }
    }
}

impl HostPoolOptions {
    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(mut self, keep: usize) -> Self {
        self.keep = keep;
        self
    }

    /// Sets [`limit`](Self::limit).
    #[must_use]
    pub fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// State of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HostPoolState {
    /// Buffers that somebody holds: the reader, Burn, or the device's copy queue.
    pub leased: usize,
    /// Buffers at rest.
    pub free: usize,
    /// Bytes of all buffers, leased and free.
    pub bytes: usize,
    /// Largest `bytes` so far.
    pub peak_bytes: usize,
    /// Buffers allocated so far; flat once the pool is warm.
    pub allocations: u64,
}

impl From<SlotCounts> for HostPoolState {
    fn from(counts: SlotCounts) -> Self {
        Self {
            leased: counts.leased,
            free: counts.free,
            bytes: counts.bytes,
            peak_bytes: counts.peak_bytes,
            allocations: counts.allocations,
        }
    }
}

impl HostPoolState {
    /// Two pools as one.
    #[cfg(feature = "cuda")]
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self {
            leased: self.leased + other.leased,
            free: self.free + other.free,
            bytes: self.bytes + other.bytes,
            // The peaks need not have been at the same time.
            peak_bytes: self.peak_bytes + other.peak_bytes,
            allocations: self.allocations + other.allocations,
        }
    }
}

/// A pool of host buffers. Cheap to clone; every lease keeps it alive.
#[derive(Clone)]
pub struct HostPool(Arc<Shared>);

struct Shared {
    allocator: Box<dyn HostAllocator>,
    timeout: Duration,
    slots: Slots<Slot>,
    /// For errors only: what is out is counted by `slots`.
    leases: Mutex<Leases>,
}

/// One allocation: exclusively owned, freed by the pool only.
struct Slot {
    pointer: NonNull<u8>,
    bytes: usize,
}

impl Pooled for Slot {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

// SAFETY: a slot is an exclusively owned allocation, like a `Box<[u8]>`.
unsafe impl Send for Slot {}
// SAFETY: a shared slot only gives shared access to its bytes.
unsafe impl Sync for Slot {}

impl HostPool {
    /// A pool over the given allocator.
    pub fn new(allocator: impl HostAllocator, options: HostPoolOptions) -> Self {
        let bounds = SlotBounds {
            keep: options.keep,
            limit: options.limit,
            // The last owner may be the copy queue, on whose thread nothing may call the driver.
            freed_later: allocator.property() == AllocationProperty::Pinned,
        };
        Self(Arc::new(Shared {
            allocator: Box::new(allocator),
            timeout: options.timeout,
            slots: Slots::new(bounds),
            leases: Mutex::default(),
        }))
    }

    /// [`lease_for`](Self::lease_for) something without a name.
    ///
    /// # Errors
    /// As there.
    pub fn lease(&self, len: usize) -> Result<HostLease> {
        self.lease_for(len, "an unnamed lease")
    }

    /// Leases room for `len` float32 values. Contents are whatever the last lease left. `purpose`
    /// says what they are, `boundary planes of batch 7`, in the error of a lease that waits in
    /// vain.
    ///
    /// The smallest free buffer that is large enough, and at most twice as large, is taken; else a
    /// new one is allocated, in place of a free one that is a little too small, if there is one.
    ///
    /// # Errors
    /// The limit stayed reached for the whole timeout (the error names the oldest leases and says
    /// who has them), or the allocator refused.
    pub fn lease_for(
        &self,
        len: usize,
        purpose: impl Into<Cow<'static, str>>,
    ) -> Result<HostLease> {
        self.lease_of(len, size_of::<f32>(), purpose.into())
    }

    /// As [`HostPool::lease_for`], for `len` values of `size` bytes each.
    pub(crate) fn lease_of(
        &self,
        len: usize,
        size: usize,
        purpose: Cow<'static, str>,
    ) -> Result<HostLease> {
        let bytes = len
            .checked_mul(size)
            .ok_or_else(|| Error::config("a host buffer is too large").found(len))?;
        if bytes == 0 {
            return Ok(HostLease {
                slot: None,
                id: None,
                bytes,
                pool: self.clone(),
            });
        }
        let slots = &self.0.slots;
        let taken = slots.take(bytes, self.0.timeout);
        let slot = match taken.map_err(|e| self.exhausted(bytes, &e))? {
            Taken::Free(slot) => slot,
            Taken::Allocate(unwanted) => {
                self.0.free(unwanted);
                let allocated = self.0.allocator.allocate(bytes);
                let pointer = allocated.inspect_err(|_| slots.allocation_failed(bytes))?;
                Slot { pointer, bytes }
            }
        };
        Ok(HostLease {
            slot: Some(slot),
            id: Some(self.0.leases().add(purpose)),
            bytes,
            pool: self.clone(),
        })
    }

    /// What the pool holds now.
    pub fn state(&self) -> HostPoolState {
        self.0.slots.counts().into()
    }

    fn exhausted(&self, bytes: usize, Exhausted(counts): &Exhausted) -> Error {
        Error::new(ErrorKind::Device, "no host buffer came home in time")
            .expected(format!(
                "a buffer of {bytes} bytes within {:?}",
                self.0.timeout
            ))
            .found(format!(
                "all of {} still held: {}",
                counts.leased,
                self.0.leases()
            ))
    }
}

impl Shared {
    fn leases(&self) -> MutexGuard<'_, Leases> {
        lock(&self.leases)
    }

    /// Takes a buffer home. Called from destructors on foreign threads: short, never panics.
    fn take_back(&self, slot: Slot) {
        // SAFETY: the last owner has let go, and the slot is not in the free list yet: nobody else
        // can reach its `bytes` initialised bytes.
        let memory = unsafe { std::slice::from_raw_parts_mut(slot.pointer.as_ptr(), slot.bytes) };
        self.allocator.came_home(memory);
        let surplus = self.slots.give_back(slot);
        self.free(surplus);
    }

    fn free(&self, slots: impl IntoIterator<Item = Slot>) {
        for slot in slots {
            // SAFETY: the slot was allocated by this allocator and left the pool's lists for good.
            unsafe { self.allocator.free(slot.pointer, slot.bytes) }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Leases keep the pool alive, so every slot is home now.
        self.free(self.slots.drain());
    }
}

/// Exclusive use of a host buffer. Dropping it returns the buffer.
pub struct HostLease {
    /// `None` only for an empty lease, and after the buffer went home.
    slot: Option<Slot>,
    /// `None` for an empty lease.
    id: Option<LeaseId>,
    bytes: usize,
    pool: HostPool,
}

impl HostLease {
    /// The values, as float32.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        self.as_mut_elements()
    }

    /// The values, as elements of two bytes.
    pub(crate) fn as_mut_halves(&mut self) -> &mut [u16] {
        self.as_mut_elements()
    }

    fn as_mut_elements<E: bytemuck::Pod>(&mut self) -> &mut [E] {
        match self.slot {
            Some(_) => bytemuck::cast_slice_mut(self.as_mut_bytes()),
            None => &mut [],
        }
    }

    fn as_mut_bytes(&mut self) -> &mut [u8] {
        match &self.slot {
            // SAFETY: the slot is initialised, at least `bytes` long, and exclusively ours while
            // `self` is borrowed mutably.
            Some(slot) => unsafe {
                std::slice::from_raw_parts_mut(slot.pointer.as_ptr(), self.bytes)
            },
            None => &mut [],
        }
    }

    /// Bytes of the lease.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Float32 values in the lease.
    pub fn len(&self) -> usize {
        self.bytes / size_of::<f32>()
    }

    /// Whether the lease holds no value.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Hands the buffer to Burn without a copy. It comes home when the `Bytes` are dropped.
    pub fn into_bytes(self) -> Bytes {
        let bytes = self.bytes;
        if let Some(id) = self.id {
            self.pool.0.leases().became_bytes(id);
        }
        // SAFETY: the controller's memory is initialised over its first `bytes` bytes.
        unsafe { Bytes::from_controller(Box::new(Controller(self)), bytes) }
    }
}

impl Drop for HostLease {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.pool.0.leases().remove(id);
        }
        if let Some(slot) = self.slot.take() {
            self.pool.0.take_back(slot);
        }
    }
}

/// The lease, as Burn sees it. It cannot grow, split, detach or be shared: a clone of the `Bytes`
/// copies the values, and the lease itself stays where it is.
struct Controller(HostLease);

impl AllocationController for Controller {
    fn alloc_align(&self) -> usize {
        // What a copy of the bytes gets.
        COPY_ALIGN
    }

    fn property(&self) -> AllocationProperty {
        self.0.pool.0.allocator.property()
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> std::result::Result<&mut [MaybeUninit<u8>], AccessError> {
        Ok(match &self.0.slot {
            // SAFETY: exclusive through `&mut self`; the caller only writes initialised bytes.
            Some(slot) => unsafe {
                std::slice::from_raw_parts_mut(slot.pointer.as_ptr().cast(), slot.bytes)
            },
            None => &mut [],
        })
    }

    fn memory(&self, _: AccessPolicy) -> std::result::Result<&[MaybeUninit<u8>], AccessError> {
        Ok(match &self.0.slot {
            // SAFETY: shared through `&self`; nobody writes while it is borrowed.
            Some(slot) => unsafe {
                std::slice::from_raw_parts(slot.pointer.as_ptr().cast(), slot.bytes)
            },
            None => &[],
        })
    }

    fn capacity(&self) -> usize {
        self.0.slot.as_ref().map_or(0, |slot| slot.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(keep: usize, limit: Option<usize>) -> HostPool {
        let timeout = Duration::ZERO;
        HostPool::new(
            OrdinaryMemory,
            HostPoolOptions::default()
                .with_keep(keep)
                .with_limit(limit)
                .with_timeout(timeout),
        )
    }

    #[test]
    fn buffers_come_home_from_every_owner() {
        let pool = pool(3, None);
        let mut lease = pool.lease(5).unwrap();
        lease
            .as_mut_slice()
            .copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(pool.state().leased, 1);
        let bytes = lease.into_bytes();
        assert_eq!(bytes.len(), 20);
        let copy = bytes.clone();
        assert_eq!(
            pool.state().leased,
            1,
            "a copy of the bytes is not a second lease"
        );
        drop(bytes);
        assert_eq!(
            pool.state(),
            HostPoolState {
                leased: 0,
                free: 1,
                bytes: 20,
                peak_bytes: 20,
                allocations: 1
            }
        );
        assert_eq!(copy[..4], 1f32.to_ne_bytes());
        // The copy outlives the lease and the pool.
        drop(pool);
        assert_eq!(copy[16..], 5f32.to_ne_bytes());
    }

    #[test]
    fn best_fit_and_the_largest_stay() {
        let pool = pool(2, None);
        let leases: Vec<_> = [30, 10, 20].map(|n| pool.lease(n).unwrap()).into();
        drop(leases);
        assert_eq!((pool.state().free, pool.state().bytes), (2, 200));
        let lease = pool.lease(15).unwrap();
        assert_eq!((lease.len(), pool.state().allocations), (15, 3));
        let other = pool.lease(25).unwrap();
        assert_eq!(
            pool.state().allocations,
            3,
            "the buffer of 30 was left for the larger lease"
        );
        drop((lease, other));
    }

    #[test]
    fn a_limit_is_an_error_that_says_who_holds_the_buffers() {
        let pool = pool(1, Some(1));
        let held = pool.lease_for(4, "boundary planes of batch 7").unwrap();
        let refused = || pool.lease(4).err().unwrap().to_string();
        let filled = "all of 1 still held: boundary planes of batch 7 (being filled)";
        assert!(refused().ends_with(filled), "{}", refused());
        let held = held.into_bytes();
        assert!(refused().ends_with("7 (handed to Burn)"), "{}", refused());
        drop(held);
        assert_eq!(pool.lease(4).unwrap().len(), 4);
    }

    #[test]
    fn a_waiting_lease_wakes_when_a_buffer_returns() {
        let options = HostPoolOptions::default().with_limit(Some(1));
        let pool = HostPool::new(OrdinaryMemory, options);
        let held = pool.lease(4).unwrap().into_bytes();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| pool.lease(4).map(|l| l.len()));
            drop(held);
            assert_eq!(waiter.join().unwrap().unwrap(), 4);
        });
        assert_eq!(pool.state().allocations, 1);
    }

    #[test]
    fn empty_leases_take_no_buffer() {
        let pool = pool(1, Some(0));
        let mut lease = pool.lease(0).unwrap();
        assert!(lease.is_empty() && lease.as_mut_slice().is_empty());
        assert_eq!(lease.into_bytes().len(), 0);
        assert_eq!(pool.state(), HostPoolState::default());
    }
}
