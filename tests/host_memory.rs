//! Bytes that the process has allocated, counted one by one: what a pass leaves behind, and what it takes
//! at most. One test in a program of its own, so that nobody else allocates.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::ocean::{PlaneShape, PlaneSource};
use burn_om4::testing::MemorySource;
use burn_om4::{OceanBatcher, OceanLoader, Order, PrefetchOptions, Schedule, ScheduleOptions};
use om4_test_support::memory::memory_dataset;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator, counted.
struct Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work, with the same arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK.fetch_max(live, Ordering::SeqCst);
        // SAFETY: by contract of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: by contract of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

const SHAPE: PlaneShape = PlaneShape { ny: 256, nx: 512 };
/// Bytes of a plane: half a MiB, so that one shows.
const PLANE: usize = 256 * 512 * 4;

fn source(rows: usize) -> MemorySource {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    MemorySource::new(channels.into(), rows, SHAPE, |row, channel, _| {
        (row + channel) as f32
    })
}

fn loader(order: Order, batch_size: usize, prefetch: PrefetchOptions) -> OceanLoader {
    let source = source(17);
    assert_eq!(source.shape().cells() * 4, PLANE);
    let dataset = memory_dataset(source, 2);
    let order = ScheduleOptions::default()
        .with_order(order)
        .with_batch_size(batch_size);
    let schedule = Schedule::new(order, dataset.groups()).unwrap();
    OceanLoader::new(
        OceanBatcher::new(dataset),
        schedule,
        prefetch,
        &Device::flex(),
    )
    .unwrap()
}

/// Waits for other threads. A minute is for ever.
fn until(what: &str, reached: impl Fn() -> bool) {
    let asked = Instant::now();
    while !reached() {
        assert!(asked.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::yield_now();
    }
}

fn home(loader: &OceanLoader) {
    let leased = || loader.batcher().host_pool().leased;
    until("all buffers are home", || leased() == 0);
}

/// Bytes that live and are not the pool's.
fn beside_the_pool(loader: &OceanLoader) -> usize {
    LIVE.load(Ordering::SeqCst) - loader.batcher().host_pool().bytes
}

/// Whole passes and early drops must leave less than a plane for each that there was.
fn passes_leave_nothing() {
    for order in [Order::Sequential, Order::Shuffled] {
        let loader = loader(order, 3, PrefetchOptions::default());
        let pass = |taken| {
            assert!(loader.iter().take(taken).all(|batch| batch.is_ok()));
            home(&loader);
        };
        (0..6).for_each(pass);
        let before = beside_the_pool(&loader);
        (0..24).for_each(|i| pass(i % 5));
        // What an abandoned reader has carried goes with it, and it may not have ended.
        until("less than two planes stay", || {
            beside_the_pool(&loader) < before + 2 * PLANE
        });
    }
}

/// What the book says that a pass on a CPU takes at most, and that it says no more than that.
fn passes_take_what_the_book_says() {
    for (batches, carry) in [(1, 0), (2, 0), (1, 1 << 30), (2, 1 << 30)] {
        let prefetch = PrefetchOptions::default()
            .with_batches(batches)
            .with_carry(carry);
        let before = LIVE.load(Ordering::SeqCst);
        let loader = loader(Order::Sequential, 3, prefetch);
        PEAK.store(LIVE.load(Ordering::SeqCst), Ordering::SeqCst);
        // The most that there can be: all is read ahead that may be, and the batch in use is dropped
        // when the next is there.
        let mut held = None;
        for (delivered, batch) in (1..).zip(loader.iter()) {
            let used = held.replace(batch.unwrap());
            // Three windows of two steps: 8 rows of two channels, 6 of one.
            let planes = 22 * (delivered + batches as u64).min(loader.batches());
            until("all is read ahead", || {
                let counters = loader.counters();
                counters.planes_read + counters.planes_carried >= planes
            });
            drop(used);
        }
        drop(held);
        home(&loader);
        let peak = PEAK.load(Ordering::SeqCst) - before;
        // The tensors show 2 input times, 2 x 2 boundary times of one channel and 2 x 2 label times.
        let batch = 3 * (2 * 2 + 4 + 4 * 2) * PLANE;
        // A batch shares 5 rows of two channels and 3 of one with the next.
        let shared = if carry == 0 { 0 } else { (5 * 2 + 3) * PLANE };
        let tensors = (batches + 2) * batch;
        println!("{batches} batches, carry {carry}: peak {peak}, tensors {tensors}, rows {shared}");
        // Masks take a byte for each cell.
        let masks = 2 * PLANE;
        assert!(
            peak <= tensors + 2 * shared + masks,
            "more than the book says"
        );
        assert!(peak >= tensors + shared, "the book could say less");
    }
}

#[test]
fn host_memory_of_passes_is_bounded_and_comes_back() {
    passes_leave_nothing();
    passes_take_what_the_book_says();
}
