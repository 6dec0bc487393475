//! Host buffers under a consumer that is in no hurry: nobody may touch a buffer while its copy is
//! still to come. Freed buffers are poisoned, so that a copy from one is found out.

use burn_om4::Result as OceanResult;
use burn_om4::host::{HOST_ALIGN, HostAllocator, HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::testing::PoisonedMemory;
use burn_std::{AllocationProperty, Bytes};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const BATCHES: u64 = 1000;
/// Bytes that the consumer holds before it is told to copy the oldest.
const HELD: usize = 3;
const LARGEST: usize = 3000;

/// Breaks the contract on purpose: hands out two blocks in turn, whoever holds them, which is what
/// a pool does that takes leases home before their copy is done.
struct ReturnsEarly(Mutex<Blocks>);

struct Blocks([NonNull<u8>; 2], usize);

// SAFETY: pointers to memory that lives for ever.
unsafe impl Send for Blocks {}

impl ReturnsEarly {
    fn new() -> Self {
        let block = || OrdinaryMemory.allocate(LARGEST * size_of::<f32>()).unwrap();
        Self(Mutex::new(Blocks([block(), block()], 0)))
    }
}

// SAFETY: not upheld; used in lockstep only, so that the wrong reads are no data race.
unsafe impl HostAllocator for ReturnsEarly {
    fn allocate(&self, _: usize) -> OceanResult<NonNull<u8>> {
        let mut blocks = self.0.lock().unwrap();
        blocks.1 ^= 1;
        Ok(blocks.0[blocks.1])
    }

    unsafe fn free(&self, _: NonNull<u8>, _: usize) {}

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }
}

/// Does the producer go on while the consumer copies?
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Free,
    Lockstep,
}

enum Order {
    Hold(Bytes, u64),
    CopyOldest,
}

fn checksum(bytes: &[u8]) -> u64 {
    // FNV-1a.
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Holds bytes, copies them when told, and answers whether each copy was what was promised.
fn consumer(orders: &Receiver<Order>, done: &SyncSender<()>, pace: Pace) -> u64 {
    let mut held = VecDeque::new();
    let mut wrong = 0;
    for order in orders {
        match order {
            Order::Hold(bytes, promised) => held.push_back((bytes, promised)),
            Order::CopyOldest => {
                let (bytes, promised) = held.pop_front().unwrap();
                let copy = bytes.to_vec();
                wrong += u64::from(checksum(&copy) != promised);
            }
        }
        if pace == Pace::Lockstep {
            done.send(()).unwrap();
        }
    }
    wrong
}

/// Wrong copies out of [`BATCHES`].
fn wrong_copies(pool: &HostPool, pace: Pace) -> u64 {
    let (send, orders) = sync_channel(HELD);
    let (done, wait) = sync_channel(1);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(move || consumer(&orders, &done, pace));
        let order = |order| {
            send.send(order).unwrap();
            if pace == Pace::Lockstep {
                wait.recv().unwrap();
            }
        };
        for batch in 0..BATCHES {
            let len = 1 + (batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % LARGEST;
            let mut lease = pool.lease(len).unwrap();
            for (i, value) in lease.as_mut_slice().iter_mut().enumerate() {
                *value = (batch * 7919 + i as u64) as f32;
            }
            let bytes = lease.into_bytes();
            assert_eq!(bytes.as_ptr().addr() % HOST_ALIGN, 0);
            let promised = checksum(&bytes);
            order(Order::Hold(bytes, promised));
            if batch >= HELD as u64 {
                order(Order::CopyOldest);
            }
        }
        drop(send);
        consumer.join().unwrap()
    })
}

#[test]
fn no_buffer_changes_before_its_copy_is_made() {
    for pace in [Pace::Free, Pace::Lockstep] {
        let pool = HostPool::new(PoisonedMemory(OrdinaryMemory), HostPoolOptions::default());
        assert_eq!(wrong_copies(&pool, pace), 0);
        let state = pool.state();
        assert_eq!(state.leased, 0, "every lease is home");
        assert!(
            state.peak_bytes <= 2 * (2 * HELD + 2) * LARGEST * size_of::<f32>(),
            "{state:?}"
        );
    }
}

#[test]
fn a_pool_that_takes_leases_home_early_is_found_out() {
    let pool = HostPool::new(ReturnsEarly::new(), HostPoolOptions::default().with_keep(0));
    let wrong = wrong_copies(&pool, Pace::Lockstep);
    assert!(
        wrong > BATCHES / 2,
        "only {wrong} of {BATCHES} copies were wrong"
    );
}
