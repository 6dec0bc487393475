//! Every call that a pass makes of the files of a store, with every fault in it: what comes of each. For
//! the test, a few calls; for the example `faults`, all.

use crate::own_error;
use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Tensor};
use burn_om4::synth::{Chunking, Codec, Format, Layout, SynthOptions};
use burn_om4::testing::{FileFault, FileFaults};
use burn_om4::{
    DatasetOptions, ErrorKind, OceanBatcher, OceanDataset, OceanLoader, Om4Paths, Order,
    PrefetchOptions, Schedule, ScheduleOptions, Strictness, parse_channels,
};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Batches of a pass: a window each.
pub const BATCHES: usize = 20;
/// A window of history 1 and one step has four rows.
const ROWS: usize = BATCHES + 3;

/// A form of store: its name, and how its chunks are cut and compressed.
pub const FORMS: [(&str, Codec, Chunking); 4] = [
    ("plain", Codec::None, Chunking::OneRow),
    ("blosc", Codec::BloscZstd, Chunking::OneRow),
    ("gzip", Codec::Gzip, Chunking::Rows(3)),
    ("shards", Codec::Zstd, Chunking::Shards(4)),
];

/// A kind of fault: its name in the table, and whether absent chunks may be filled.
pub const FAULTS: [(&str, FileFault, Strictness); 11] = [
    ("ENOENT", FileFault::NotFound, Strictness::Strict),
    ("ENOENT, lenient", FileFault::NotFound, Strictness::Lenient),
    ("EACCES", FileFault::Denied, Strictness::Strict),
    ("EIO", FileFault::Broken, Strictness::Strict),
    ("ESTALE", FileFault::Stale, Strictness::Lenient),
    ("file ends early", FileFault::EndsEarly, Strictness::Lenient),
    ("short read", FileFault::Short, Strictness::Strict),
    ("EINTR", FileFault::Interrupted, Strictness::Strict),
    ("one bit flipped", FileFault::Flipped, Strictness::Strict),
    (
        "1 ms late",
        FileFault::Late(Duration::from_millis(1)),
        Strictness::Strict,
    ),
    ("panic", FileFault::Panic, Strictness::Strict),
];

/// What came of a fault in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Twenty batches, equal bit for bit.
    Unharmed,
    /// One error in its place, of this kind.
    Error(&'static str),
    /// Twenty batches, some of which show the fill value where the chunk was; it was counted.
    FilledAndCounted,
    /// Twenty batches, some with another value: the format has no checksum.
    OtherValues,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unharmed => write!(f, "no error, all batches equal"),
            Self::Error(kind) => write!(f, "`{kind}`"),
            Self::FilledAndCounted => write!(f, "filled, counted"),
            Self::OtherValues => write!(f, "not found: no checksum"),
        }
    }
}

/// What one row of the table says.
#[derive(Clone, Debug)]
pub struct Swept {
    pub form: &'static str,
    pub fault: &'static str,
    /// Calls of a pass that the fault can be in.
    pub calls: u64,
    /// Outcomes, and in how many calls.
    pub outcomes: BTreeMap<Outcome, u64>,
}

type Batch = Vec<u32>;

struct Subject {
    faults: FileFaults,
    dataset: OceanDataset,
    good: Vec<Batch>,
}

impl Subject {
    fn new(dir: &Path, strictness: Strictness) -> Self {
        let paths = Om4Paths::in_dir(dir);
        let faults = FileFaults::under(&paths.data);
        let names = |names| parse_channels(names).unwrap();
        let options = DatasetOptions::new(names("thetao_0,thetao_1,zos"), names("hfds"));
        let dataset = OceanDataset::open(&paths, &options.with_strictness(strictness)).unwrap();
        let mut subject = Self {
            faults,
            dataset,
            good: Vec::new(),
        };
        subject.good = subject.loader().iter().map(|b| bits(&b.unwrap())).collect();
        assert_eq!(subject.good.len(), BATCHES);
        subject
    }

    fn loader(&self) -> OceanLoader {
        let order = ScheduleOptions::default()
            .with_order(Order::Sequential)
            .with_batch_size(1);
        let schedule = Schedule::new(order, self.dataset.groups()).unwrap();
        let batcher = OceanBatcher::new(self.dataset.clone());
        OceanLoader::new(
            batcher,
            schedule,
            PrefetchOptions::default(),
            &Device::flex(),
        )
        .unwrap()
    }

    /// Calls of a pass that a fault can be in.
    fn calls(&self, fault: FileFault) -> u64 {
        self.faults.set(fault, u64::MAX);
        assert_eq!(self.loader().iter().count(), BATCHES);
        self.faults.calls()
    }

    /// One pass with the fault in call `k`, and one without it.
    fn pass(&self, fault: FileFault, k: u64) -> Outcome {
        let loader = self.loader();
        self.faults.set(fault, k);
        let results: Vec<_> = loader.iter().map(|batch| batch.map(|b| bits(&b))).collect();
        let what = format!("{fault:?} in call {k}");
        let hit = self
            .faults
            .hit()
            .unwrap_or_else(|| panic!("{what} was not met"));
        self.faults.clear();
        let missing = loader.counters().missing_chunks;
        home(&loader, &what);

        let failed = results.iter().position(Result::is_err);
        let delivered = failed.unwrap_or(results.len());
        let equal = results
            .iter()
            .zip(&self.good)
            .filter(|(r, good)| r.as_ref().is_ok_and(|batch| batch == *good));
        let equal = equal.count();
        let outcome = match failed.map(|at| own_error(results[at].as_ref().unwrap_err())) {
            Some(error) => {
                assert_eq!(
                    results.len(),
                    delivered + 1,
                    "{what}: something after the error"
                );
                assert_eq!(equal, delivered, "{what}: batches before the error");
                assert_eq!(first_batch_of(error), delivered, "{what}: {error}");
                let chunk = error.chunk_key().unwrap_or("no chunk");
                // A panic is known by its array and row; what it said names the file.
                let named =
                    hit.ends_with(chunk) || error.to_string().contains(&*hit.to_string_lossy());
                assert!(named, "{what} in {}: {error}", hit.display());
                Outcome::Error(name(error.kind()))
            }
            None => {
                assert_eq!(results.len(), BATCHES, "{what}");
                match (equal, missing) {
                    (BATCHES, 0) => Outcome::Unharmed,
                    (_, 0) => Outcome::OtherValues,
                    _ => {
                        // A row is shown by four batches.
                        assert!(equal + 4 >= BATCHES, "{what}: {equal} batches are equal");
                        Outcome::FilledAndCounted
                    }
                }
            }
        };
        // The same loader goes on as if nothing had been.
        let after: Vec<_> = loader.iter().map(|b| bits(&b.unwrap())).collect();
        assert!(after == self.good, "{what}: the next pass");
        home(&loader, &what);
        drop(loader);
        // The system lists a thread a moment longer than it lives.
        until(&format!("{what}: no thread is left"), || {
            reader_threads() == 0
        });
        outcome
    }
}

/// The first batch that wants the row of an error.
fn first_batch_of(error: &burn_om4::Error) -> usize {
    let row = error
        .time_row()
        .unwrap_or_else(|| panic!("no row: {error}"));
    // Batch w shows prognostic rows w..w + 4 and boundary rows w..w + 2.
    let last = if error.array_name() == Some("hfds") {
        1
    } else {
        3
    };
    row.saturating_sub(last)
}

fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::MissingChunk => "MissingChunk",
        ErrorKind::Corrupt => "Corrupt",
        ErrorKind::Io => "Io",
        ErrorKind::Interrupted => "Interrupted",
        ErrorKind::Values => "Values",
        other => panic!("an error of the kind {other:?}"),
    }
}

fn bits(batch: &burn_om4::ModelBatch) -> Batch {
    let tensors = [batch.input(0).unwrap(), batch.boundary(0), batch.label(0)];
    let values = |tensor: Tensor<4>| tensor.into_data().try_to_vec::<f32>().unwrap();
    tensors
        .into_iter()
        .flat_map(values)
        .map(f32::to_bits)
        .collect()
}

/// Waits for other threads. A minute is a leak.
fn until(what: &str, reached: impl Fn() -> bool) {
    let asked = Instant::now();
    while !reached() {
        assert!(asked.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::yield_now();
    }
}

fn home(loader: &OceanLoader, what: &str) {
    let leased = || loader.batcher().host_pool().leased;
    until(&format!("{what}: all buffers are home"), || leased() == 0);
}

/// Threads of passes that live in this process, where the system says.
pub fn reader_threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let names = tasks.flatten().flat_map(name);
    names.filter(|name| name.starts_with("om4-pass")).count()
}

/// Writes a store of a form into `dir`.
pub fn write(dir: &Path, codec: Codec, chunking: Chunking) {
    let options = SynthOptions::new(6, 12).with_levels(2).with_rows(ROWS);
    let options = options
        .with_layout(Layout::Flat)
        .with_codec(codec)
        .with_chunking(chunking);
    let format = match chunking {
        Chunking::Shards(_) => Format::V3,
        _ => Format::V2,
    };
    options.with_format(format).write(dir).unwrap();
}

/// Passes over stores of every form in `dir`, with every fault in every `stride`-th call that it can be
/// in, and `seen` told of each row as it is done.
pub fn sweep(dir: &Path, stride: u64, mut seen: impl FnMut(&Swept)) -> Vec<Swept> {
    let mut table = Vec::new();
    for (form, codec, chunking) in FORMS {
        let dir = dir.join(form);
        write(&dir, codec, chunking);
        for (name, fault, strictness) in FAULTS {
            let subject = Subject::new(&dir, strictness);
            let calls = subject.calls(fault);
            let mut outcomes = BTreeMap::new();
            for k in (0..calls).step_by(stride as usize) {
                *outcomes.entry(subject.pass(fault, k)).or_insert(0) += 1;
            }
            let row = Swept {
                form,
                fault: name,
                calls,
                outcomes,
            };
            seen(&row);
            table.push(row);
        }
    }
    table
}

/// Whether a fault may come to this.
pub fn expected(row: &Swept) -> bool {
    let only = |outcomes: &[Outcome]| row.outcomes.keys().all(|o| outcomes.contains(o));
    let checksum = row.form == "gzip";
    !row.outcomes.is_empty()
        && match row.fault {
            "ENOENT" => only(&[Outcome::Error("MissingChunk")]),
            "ENOENT, lenient" => only(&[Outcome::FilledAndCounted]),
            "EACCES" | "EIO" | "ESTALE" => only(&[Outcome::Error("Io")]),
            "file ends early" => only(&[Outcome::Error("Corrupt")]),
            "short read" | "EINTR" | "1 ms late" => only(&[Outcome::Unharmed]),
            "panic" => only(&[Outcome::Error("Interrupted")]),
            "one bit flipped" if checksum => only(&[Outcome::Error("Corrupt")]),
            "one bit flipped" => only(&[
                Outcome::Error("Corrupt"),
                Outcome::Error("Values"),
                Outcome::OtherValues,
                Outcome::Unharmed,
            ]),
            _ => false,
        }
}
