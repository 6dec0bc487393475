//! What Burn may do with a lease that it was handed, through all of `Bytes` that touches memory. Made
//! to be run under Miri, which sees what is read, written and freed wrongly.

use crate::host::poisoned::PoisonedMemory;
use crate::host::pool::{HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory};
use burn_std::{Bytes, Reader, SplitPolicy, Writer};

/// A pool whose memory is overwritten when it comes home.
fn pool() -> HostPool {
    HostPool::new(PoisonedMemory(OrdinaryMemory), HostPoolOptions::default())
}

/// A lease of these values, handed over.
fn lent(pool: &HostPool, values: &[f32]) -> Bytes {
    let mut lease = pool.lease(values.len()).unwrap();
    lease.as_mut_slice().copy_from_slice(values);
    lease.into_bytes()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    let values = bytes.as_chunks::<4>().0.iter();
    values.map(|v| f32::from_ne_bytes(*v)).collect()
}

fn at_rest(pool: &HostPool, buffers: usize) {
    let HostPoolState { leased, free, .. } = pool.state();
    assert_eq!((leased, free), (0, buffers));
}

#[test]
fn burn_reads_and_writes_where_the_lease_lies() {
    let pool = pool();
    let mut bytes = lent(&pool, &[1.0, 2.0, 3.0]);
    let lies = bytes.as_ptr();
    bytes[4..8].copy_from_slice(&9f32.to_ne_bytes());
    let whole = bytes.write(Writer::default()).unwrap();
    whole[8..].copy_from_slice(&7f32.to_ne_bytes());
    assert_eq!(
        values(bytes.read(Reader::default()).unwrap()),
        [1.0, 9.0, 7.0]
    );
    assert_eq!(bytes.as_ptr(), lies);
    let mut copy = Bytes::from_elems(vec![0f32; 3]);
    bytes.copy_into(&mut copy);
    drop(bytes);
    assert_eq!(values(&copy), [1.0, 9.0, 7.0]);
    // The next lease is the same memory, and nothing of the last one is left.
    let mut next = pool.lease(3).unwrap();
    assert_eq!(next.as_mut_slice().as_ptr().cast(), lies);
    assert!(next.as_mut_slice().iter().all(|v| v.is_nan()));
    drop(next);
    at_rest(&pool, 1);
}

#[test]
fn bytes_that_grow_leave_the_lease_when_its_buffer_is_full() {
    let pool = pool();
    drop(pool.lease(6).unwrap());
    // A smaller lease in the larger buffer.
    let mut bytes = lent(&pool, &[1.0, 2.0, 3.0]);
    assert_eq!((bytes.len(), bytes.capacity()), (12, 24));
    bytes.extend_from_byte_slice(bytemuck::bytes_of(&[4f32, 5.0]));
    assert_eq!(values(&bytes), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(pool.state().leased, 1);
    bytes.extend_from_byte_slice(bytemuck::bytes_of(&[6f32, 7.0]));
    at_rest(&pool, 1);
    assert_eq!(values(&bytes), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn halves_share_the_lease_or_own_copies() {
    let pool = pool();
    let split = |policy| {
        let bytes = lent(&pool, &[1.0, 2.0, 3.0, 4.0]);
        bytes.split(4, policy).ok().unwrap()
    };
    let (first, mut second) = split(SplitPolicy::Shared);
    assert_eq!(pool.state().leased, 1);
    // A half that is written to becomes a copy.
    second[0..4].copy_from_slice(&8f32.to_ne_bytes());
    assert_eq!(
        (values(&first), values(&second)),
        (vec![1.0], vec![8.0, 3.0, 4.0])
    );
    drop(first);
    assert_eq!(values(&second), [8.0, 3.0, 4.0]);
    // What it was a half of stays with it until it goes.
    drop(second);
    at_rest(&pool, 1);

    let (first, second) = split(SplitPolicy::Owned);
    at_rest(&pool, 1);
    assert_eq!(
        (values(&first), values(&second)),
        (vec![1.0], vec![2.0, 3.0, 4.0])
    );
}

#[test]
fn a_lease_never_becomes_a_vector_of_its_own() {
    let pool = pool();
    let bytes = lent(&pool, &[1.0, 2.0]);
    // Burn would free it with an allocator that is not the pool's.
    let bytes = bytes.try_into_vec::<f32>().unwrap_err();
    let bytes = bytes.try_into_vec::<u8>().unwrap_err();
    assert_eq!(values(&bytes), [1.0, 2.0]);
    drop(bytes);
    at_rest(&pool, 1);
}

#[test]
fn the_last_of_several_threads_brings_a_lease_home() {
    let pool = pool();
    let shared = lent(&pool, &[1.0, 2.0, 3.0]).shared();
    let clone = || {
        let bytes = shared.clone();
        move || values(&bytes)
    };
    let threads = [clone(), clone(), clone()].map(std::thread::spawn);
    drop(shared);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), [1.0, 2.0, 3.0]);
    }
    at_rest(&pool, 1);
    // And it may outlive all other handles of its pool.
    let bytes = lent(&pool, &[4.0]);
    drop(pool);
    let last = std::thread::spawn(move || values(&bytes));
    assert_eq!(last.join().unwrap(), [4.0]);
}
