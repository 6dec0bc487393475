//! Ends: of iterators, loaders and pools, whoever still waits, reads or holds a buffer.

use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor, TensorData};
use burn_om4::host::{HostAllocator, HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::ocean::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use burn_om4::{
    Channel, ErrorKind, OceanBatcher, OceanLoader, PrefetchOptions, Result, Schedule,
    ScheduleOptions,
};
use burn_std::AllocationProperty;
use om4_test_support::memory::{memory_dataset, memory_source};
use om4_test_support::own_error;
use std::ptr::NonNull;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A minute is for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

/// Does `work` on a thread of its own, which must end.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = channel();
    std::thread::spawn(move || done.send(work()));
    match wait.recv_timeout(FOR_EVER) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what} failed"),
    }
}

fn until(what: &str, reached: impl Fn() -> bool) {
    let asked = Instant::now();
    while !reached() {
        assert!(asked.elapsed() < FOR_EVER, "never: {what}");
        std::thread::yield_now();
    }
}

/// Reads nothing until it is opened.
struct Gate<S>(S, Arc<Door>);

#[derive(Default)]
struct Door {
    /// Whether it is open, and how many stand before it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Door {
    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

impl<S: PlaneSource> PlaneSource for Gate<S> {
    fn channels(&self) -> &[Channel] {
        self.0.channels()
    }

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn shape(&self) -> PlaneShape {
        self.0.shape()
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let mut state = self.1.state.lock().unwrap();
        state.1 += 1;
        let mut state = self
            .1
            .changed
            .wait_while(state, |(open, _)| !*open)
            .unwrap();
        state.1 -= 1;
        drop(state);
        self.0.read(request, sink)
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        self.0.planned_chunks(request)
    }
}

/// A loader of batches of five tensors on a CPU.
fn loader(source: impl PlaneSource + 'static, pool: HostPool, prefetch: usize) -> OceanLoader {
    let dataset = memory_dataset(source, 2);
    let schedule = Schedule::new(ScheduleOptions::default(), dataset.groups()).unwrap();
    let batcher = OceanBatcher::new(dataset).with_host_pool(pool);
    let prefetch = PrefetchOptions::default().with_batches(prefetch);
    OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
}

fn limited(limit: usize) -> HostPool {
    let options = HostPoolOptions::default()
        .with_limit(Some(limit))
        .with_timeout(Duration::MAX);
    HostPool::new(OrdinaryMemory, options)
}

#[test]
fn nothing_waits_for_a_reader_that_waits_for_a_buffer() {
    in_time("dropping a loader whose pool is at its limit", || {
        let pool = limited(5);
        let loader = loader(memory_source(20), pool.clone(), 2);
        let mut iter = loader.iter();
        let held = iter.next().unwrap().unwrap();
        // The reader waits for the second batch's buffers, and would wait for ever.
        drop(iter);
        // So would the readers of these.
        drop(loader.iter());
        drop(loader.iter());
        drop(loader);
        assert_eq!(pool.state().leased, 5);
        drop(held);
        assert_eq!(pool.state().leased, 0);
    });
}

#[test]
fn a_source_that_never_returns_holds_neither_iterators_nor_loaders() {
    let door = Arc::new(Door::default());
    let source = Gate(memory_source(20), door.clone());
    let pool = HostPool::new(OrdinaryMemory, HostPoolOptions::default());
    let loader = loader(source, pool.clone(), 2);
    let begun = door.clone();
    in_time("dropping a loader inside its source", move || {
        for left in 1..=3 {
            let iter = loader.iter();
            until("a reader is in the source", || begun.waiting() == left);
            drop(iter);
        }
        // Each of these would be a thread that reads for nobody.
        for _ in 0..50 {
            drop(loader.iter());
        }
        let live = loader.iter();
        assert_eq!(begun.waiting(), 3, "readers are bounded");
        drop(live);
        drop(loader);
    });
    assert_eq!(door.waiting(), 3, "they are still there");
    // And ends as soon as it can.
    door.open();
    until("the readers have ended", || {
        door.waiting() == 0 && pool.state().leased == 0
    });
}

#[test]
fn two_that_each_need_the_whole_pool_take_turns() {
    let (pool, turns) = (limited(5), 200);
    let loader = Arc::new(loader(memory_source(20), pool, 0));
    let users: Vec<_> = (0..2)
        .map(|_| {
            let loader = loader.clone();
            move || {
                for _ in 0..turns {
                    // Read here, and dropped before the next one is asked for.
                    assert!(loader.iter().take(3).all(|batch| batch.is_ok()));
                }
            }
        })
        .collect();
    in_time("two iterators with one batch's buffers", move || {
        std::thread::scope(|scope| users.into_iter().for_each(|user| drop(scope.spawn(user))));
    });
}

#[test]
fn a_pool_too_small_for_a_batch_says_so_at_once() {
    let loader = loader(memory_source(20), limited(4), 1);
    let mut iter = loader.iter();
    let error = iter.next().unwrap().err().unwrap();
    let error = own_error(&error);
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(
        text.contains("5 buffers of") && text.contains("a limit of 4"),
        "{text}"
    );
    assert!(iter.next().is_none());
}

/// Says it is page-locked, and notes on which thread it is freed.
#[derive(Clone, Default)]
struct PageLocked(Arc<Mutex<Vec<String>>>, Arc<Mutex<usize>>);

// SAFETY: the contract is that of ordinary memory, which does all the work.
unsafe impl HostAllocator for PageLocked {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        *self.1.lock().unwrap() += 1;
        OrdinaryMemory.allocate(bytes)
    }

    unsafe fn free(&self, pointer: NonNull<u8>, bytes: usize) {
        let name = std::thread::current()
            .name()
            .unwrap_or("no name")
            .to_owned();
        self.0.lock().unwrap().push(name);
        // SAFETY: by contract it came from `allocate`.
        unsafe { OrdinaryMemory.free(pointer, bytes) }
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Pinned
    }
}

impl PageLocked {
    fn all_freed_on_its_thread(&self, what: &str) {
        let allocated = *self.1.lock().unwrap();
        assert!(allocated > 0, "{what}");
        until(what, || self.0.lock().unwrap().len() == allocated);
        let threads = self.0.lock().unwrap();
        assert!(
            threads.iter().all(|name| name == "om4-free"),
            "{what}: {threads:?}"
        );
    }
}

/// Flex, and software Vulkan where it is found.
fn devices() -> Vec<Device> {
    #[cfg(feature = "vulkan")]
    if let Some(device) = om4_test_support::vulkan() {
        return vec![Device::flex(), device];
    }
    vec![Device::flex()]
}

#[test]
fn page_locked_memory_is_freed_on_a_thread_of_ours_whoever_lets_go_last() {
    for device in devices() {
        let what = format!("{device:?}");
        // The pool's last lease is a tensor's, or sits in the queue of the device.
        let memory = PageLocked::default();
        let pool = HostPool::new(memory.clone(), HostPoolOptions::default());
        let lease = pool.lease(1 << 16).unwrap();
        drop(pool);
        let data = TensorData::from_bytes(lease.into_bytes(), [1 << 16], burn::tensor::DType::F32);
        let tensor = Tensor::<1>::from_data(data, (&device, burn::tensor::DType::F32));
        device.sync().unwrap();
        let foreign = std::thread::Builder::new().name("foreign".into());
        foreign.spawn(move || drop(tensor)).unwrap().join().unwrap();
        device.sync().unwrap();
        memory.all_freed_on_its_thread(&what);

        // A whole loader, dropped with batches under way; surplus buffers too.
        let memory = PageLocked::default();
        let options = HostPoolOptions::default().with_keep(0);
        let pool = HostPool::new(memory.clone(), options);
        let dataset = memory_dataset(memory_source(20), 2);
        let schedule = Schedule::new(ScheduleOptions::default(), dataset.groups()).unwrap();
        let batcher = OceanBatcher::new(dataset).with_host_pool(pool);
        let loader = OceanLoader::new(batcher, schedule, PrefetchOptions::default(), &device);
        let loader = loader.unwrap();
        let mut iter = loader.iter();
        let held: Vec<_> = iter.by_ref().take(4).map(|batch| batch.unwrap()).collect();
        drop(iter);
        drop(loader);
        drop(held);
        device.sync().unwrap();
        memory.all_freed_on_its_thread(&what);
    }
}
