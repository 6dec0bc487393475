//! Random lives of loaders: iterators begun, asked and dropped in any order, over sources that fail or
//! not. The test runs some, the example `soak` as many as it is asked for.

use crate::memory::{memory_dataset, memory_source};
use burn::data::dataloader::{DataLoader, DataLoaderIterator};
use burn::tensor::Device;
use burn_om4::host::{HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::testing::{Fault, FaultySource};
use burn_om4::{
    ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Order, PrefetchOptions, Schedule,
    ScheduleOptions,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub schedules: u64,
    pub iterators: u64,
    pub batches: u64,
    pub errors: u64,
    pub ends: u64,
    pub early_drops: u64,
}

struct Dice(u64);

impl Dice {
    /// A number below `n`. SplitMix64.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// An iterator, and what it must do next.
struct Asked<'a> {
    iter: Box<dyn DataLoaderIterator<ModelBatch> + 'a>,
    epoch: u64,
    next: u64,
    over: bool,
    /// The batch in use.
    held: Option<ModelBatch>,
}

/// Runs schedules `first..first + count`. A schedule that takes a minute ends the process with its
/// number: it hangs.
pub fn soak(first: u64, count: u64) -> Tally {
    static NOW: AtomicU64 = AtomicU64::new(u64::MAX);
    let mut tally = Tally::default();
    let (done, over) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let mut before = NOW.load(Ordering::SeqCst);
        while over.recv_timeout(Duration::from_secs(60))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let now = NOW.load(Ordering::SeqCst);
            if now == before {
                eprintln!("schedule {now} hangs");
                std::process::abort();
            }
            before = now;
        }
    });
    for number in first..first + count {
        NOW.store(number, Ordering::SeqCst);
        schedule(number, &mut tally);
    }
    drop(done);
    watchdog.join().unwrap();
    tally
}

/// A row that fails, in some schedules.
fn fault(dice: &mut Dice, rows: usize) -> Option<(usize, Fault)> {
    let row = dice.below(rows);
    match dice.below(4) {
        0 => Some((row, Fault::ErrorAt(row))),
        1 => Some((row, Fault::PanicAt(row))),
        _ => None,
    }
}

fn schedule(number: u64, tally: &mut Tally) {
    let mut dice = Dice(number);
    let (rows, steps) = (8 + dice.below(12), 1 + dice.below(2));
    let fault = fault(&mut dice, rows);
    let source = memory_source(rows);
    let dataset = match fault {
        Some((_, fault)) => memory_dataset(FaultySource::new(source, fault), steps),
        None => memory_dataset(source, steps),
    };
    let loader = loader(&mut dice, &dataset, steps);
    let failing = fault.map(|(row, _)| row);
    let mut iterators: Vec<Asked<'_>> = Vec::new();
    for _ in 0..3 + dice.below(20) {
        match dice.below(8) {
            0 if iterators.len() < 2 => iterators.push(begin(&loader, tally)),
            1 if !iterators.is_empty() => {
                let which = dice.below(iterators.len());
                let gone = iterators.swap_remove(which);
                tally.early_drops += u64::from(!gone.over);
                // The batch in use may outlive its iterator, and the other way round.
                let Asked { iter, held, .. } = gone;
                if dice.below(2) == 0 {
                    drop(iter);
                    drop(held);
                } else {
                    drop(held);
                    drop(iter);
                }
            }
            _ if iterators.is_empty() => iterators.push(begin(&loader, tally)),
            _ => {
                let which = dice.below(iterators.len());
                ask(
                    &mut iterators[which],
                    &loader,
                    &dataset,
                    failing,
                    steps,
                    tally,
                    number,
                );
            }
        }
    }
    tally.early_drops += iterators.iter().filter(|asked| !asked.over).count() as u64;
    drop(iterators);
    let asked = Instant::now();
    while loader.batcher().host_pool().leased > 0 {
        assert!(
            asked.elapsed() < Duration::from_secs(60),
            "schedule {number}: a buffer is lost"
        );
        std::thread::yield_now();
    }
    tally.schedules += 1;
}

/// A loader with any prefetch, whose pool has no more buffers than two iterators must have.
fn loader(dice: &mut Dice, dataset: &OceanDataset, steps: usize) -> OceanLoader {
    let order = [Order::Sequential, Order::Shuffled][dice.below(2)].clone();
    let order = ScheduleOptions::default()
        .with_order(order)
        .with_seed(dice.below(100) as i64)
        .with_batch_size(1 + dice.below(3));
    let schedule = Schedule::new(order, dataset.groups()).unwrap();
    let batches = dice.below(4);
    let mut prefetch = PrefetchOptions::default().with_batches(batches);
    if dice.below(2) == 0 {
        prefetch = prefetch.with_carry(0);
    }
    let mut batcher = OceanBatcher::new(dataset.clone());
    if dice.below(2) == 0 {
        // The smallest that is legal: what waits or is read, and one batch in use, for each.
        let tensors = 1 + 2 * steps;
        let options = HostPoolOptions::default()
            .with_limit(Some(2 * (batches + 1) * tensors))
            .with_timeout(Duration::MAX);
        batcher = batcher.with_host_pool(HostPool::new(OrdinaryMemory, options));
    }
    OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
}

fn begin<'a>(loader: &'a OceanLoader, tally: &mut Tally) -> Asked<'a> {
    let iter = loader.iter();
    let epoch = loader.state().position().epoch;
    tally.iterators += 1;
    Asked {
        iter,
        epoch,
        next: 0,
        over: false,
        held: None,
    }
}

/// Asks for the next batch, which must be what the order says, or the failure in its place, or the end.
fn ask(
    asked: &mut Asked<'_>,
    loader: &OceanLoader,
    dataset: &OceanDataset,
    failing: Option<usize>,
    steps: usize,
    tally: &mut Tally,
    number: u64,
) {
    asked.held = None;
    let found = asked.iter.next();
    let epoch = loader.schedule().epoch(asked.epoch);
    if asked.over || asked.next >= epoch.len() {
        assert!(
            found.is_none(),
            "schedule {number}: something after the end"
        );
        tally.ends += u64::from(!asked.over);
        asked.over = true;
        return;
    }
    let items = epoch.batch(asked.next);
    let fails = items.iter().any(|&item| {
        let rows = item as usize..item as usize + 2 + 2 * steps;
        failing.is_some_and(|row| rows.contains(&row))
    });
    asked.next += 1;
    match found {
        Some(Ok(batch)) => {
            assert!(!fails, "schedule {number}: a failure was swallowed");
            let windows = items
                .iter()
                .map(|&item| dataset.window(item as usize).unwrap());
            assert!(
                windows.eq(batch.windows().iter().cloned()),
                "schedule {number}: order"
            );
            asked.held = Some(batch);
            tally.batches += 1;
        }
        Some(Err(error)) => {
            assert!(fails, "schedule {number}: {error}");
            asked.over = true;
            tally.errors += 1;
        }
        None => panic!("schedule {number}: a pass ended early"),
    }
}

/// Keeps injected panics from the error output; all others are printed.
pub fn quiet_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let injected = |text: &str| text.starts_with("an injected panic");
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        if !text.is_some_and(injected) {
            usual(info);
        }
    }));
}
