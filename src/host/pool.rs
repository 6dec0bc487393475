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
pub use super::pool_options::{HostPoolOptions, HostPoolState};

use super::leases::{LeaseId, Leases};
use crate::error::{Error, ErrorKind, Result};
use crate::host::freeing;
use crate::host::slots::{Pooled, Refused, SlotBounds, Slots, Taken};
use crate::sync::{Stop, lock};
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Alignment of copies of a buffer: the largest that CubeCL's own allocations take.
const COPY_ALIGN: usize = 16;
const _: () = assert!(HOST_ALIGN.is_multiple_of(COPY_ALIGN));

/// A pool of host buffers. Cheap to clone; every lease keeps it alive.
#[derive(Clone)]
pub struct HostPool(Arc<Shared>);

struct Shared {
    allocator: Arc<dyn HostAllocator>,
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
        };
        Self(Arc::new(Shared {
            allocator: Arc::new(allocator),
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
    /// who has them) or is 0, or the allocator refused.
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
        self.admit(1, bytes, &Stop::default())?;
        self.take(bytes, purpose)
    }

    /// Waits until `n` buffers of this many bytes together may be leased, and promises them.
    ///
    /// # Errors
    /// The limit, or `stop` said so.
    fn admit(&self, n: usize, bytes: usize, stop: &Stop) -> Result<()> {
        let Shared { slots, timeout, .. } = &*self.0;
        let admitted = slots.admit(n, *timeout, &|| stop.is_set());
        let wanted = match n {
            1 => format!("a buffer of {bytes} bytes"),
            n => format!("{n} buffers of {bytes} bytes together"),
        };
        admitted.map_err(|refused| match refused {
            Refused::Exhausted(counts) => {
                Error::new(ErrorKind::Device, "no host buffer came home in time")
                    .expected(format!("{wanted} within {timeout:?}"))
                    .found(format!(
                        "all of {} still held: {}",
                        counts.leased,
                        self.0.leases()
                    ))
            }
            Refused::Never(limit) => Error::config("a batch needs more host buffers than its pool")
                .expected(wanted)
                .found(format!("a limit of {limit}")),
            Refused::Stopped => Error::new(ErrorKind::Interrupted, "nobody waits for this batch"),
        })
    }

    /// Leases a buffer that was promised.
    fn take(&self, bytes: usize, purpose: Cow<'static, str>) -> Result<HostLease> {
        let slots = &self.0.slots;
        let slot = match slots.take(bytes) {
            Taken::Free(slot) => slot,
            Taken::Allocate(outgrown) => {
                self.0.free(outgrown);
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

    /// Lets leases that wait look at their [`Stop`] again.
    pub(crate) fn wake(&self) {
        self.0.slots.wake();
    }

    /// Keeps so many buffers between two uses, until and after the guard is dropped.
    pub(crate) fn expect(&self, buffers: usize) -> Expected {
        self.0.slots.expect(buffers);
        Expected {
            pool: self.clone(),
            buffers,
        }
    }

    /// What the pool holds now.
    pub fn state(&self) -> HostPoolState {
        self.0.slots.counts().into()
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
        let slots: SmallVec<[Slot; 1]> = slots.into_iter().collect();
        if !slots.is_empty() {
            free(self.allocator.clone(), slots);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Leases keep the pool alive, so every slot is home now. The allocator goes with them: it may
        // let go of the driver, and this thread may be the copy queue's.
        let allocator = std::mem::replace(&mut self.allocator, Arc::new(OrdinaryMemory));
        free(allocator, self.slots.drain().into());
    }
}

/// Frees memory, page-locked memory on the [thread](freeing) that is there for it: whoever let go of it
/// last may be the copy queue, on whose thread nothing may call the driver.
fn free(allocator: Arc<dyn HostAllocator>, slots: SmallVec<[Slot; 1]>) {
    let page_locked = allocator.property() == AllocationProperty::Pinned;
    let free = move || {
        for slot in slots {
            // SAFETY: the slot was allocated by this allocator and left the pool's lists for good.
            unsafe { allocator.free(slot.pointer, slot.bytes) }
        }
    };
    if page_locked {
        freeing::elsewhere(free);
    } else {
        free();
    }
}

/// Buffers that a pass has at once.
pub(crate) struct Expected {
    pool: HostPool,
    buffers: usize,
}

impl Expected {
    /// The pool they are of.
    pub(crate) fn pool(&self) -> &HostPool {
        &self.pool
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.pool.0.slots.no_longer_expect(self.buffers);
    }
}

/// The right to lease some buffers without waiting, all that a batch needs.
pub(crate) struct Admission {
    pool: HostPool,
    left: usize,
}

impl Admission {
    /// Waits until buffers of these sizes may be leased together.
    ///
    /// # Errors
    /// The pool's limit is lower than their number, or stayed reached for the whole timeout, or
    /// `stop` said so.
    pub(crate) fn of(pool: &HostPool, bytes: &[usize], stop: &Stop) -> Result<Self> {
        let left = bytes.iter().filter(|&&bytes| bytes > 0).count();
        pool.admit(left, bytes.iter().sum(), stop)?;
        let pool = pool.clone();
        Ok(Self { pool, left })
    }

    /// Leases one of them.
    ///
    /// # Errors
    /// As [`HostPool::lease_for`].
    pub(crate) fn lease(
        &mut self,
        len: usize,
        size: usize,
        purpose: Cow<'static, str>,
    ) -> Result<HostLease> {
        match len * size {
            bytes if bytes > 0 && self.left > 0 => {
                self.left -= 1;
                self.pool.take(bytes, purpose)
            }
            _ => self.pool.lease_of(len, size, purpose),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.left > 0 {
            self.pool.0.slots.dismiss(self.left);
        }
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
