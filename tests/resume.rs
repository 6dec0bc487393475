//! Interruption: a run that goes on from a saved state delivers what an uninterrupted one would
//! have, wherever it stopped, in another process, on other ranks, with other threads.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::dataset::OceanPair;
use burn_om4::ocean::Grid;
use burn_om4::order::{FingerprintBuilder, Position};
use burn_om4::store::READERS_VARIABLE;
use burn_om4::synth::SynthOptions;
use burn_om4::{
    DatasetOptions, ErrorKind, LoaderState, ModelBatch, OceanBatcher, OceanDataset, OceanLoader,
    Om4Paths, Order, PrefetchOptions, Schedule, ScheduleOptions, WindowOptions, parse_channels,
};
use om4_test_support::memory::{memory_dataset, memory_ocean, memory_options, memory_source};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const EPOCHS: u64 = 3;
/// 16 windows of one step.
const ROWS: usize = 19;

fn spec(order: Order) -> ScheduleOptions {
    ScheduleOptions::default()
        .with_order(order)
        .with_seed(11)
        .with_batch_size(3)
}

fn loader_of(dataset: OceanDataset, spec: ScheduleOptions, prefetch: usize) -> OceanLoader {
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let prefetch = PrefetchOptions::default().with_batches(prefetch);
    let batcher = OceanBatcher::new(dataset);
    OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
}

fn loader(spec: ScheduleOptions, prefetch: usize) -> OceanLoader {
    loader_of(memory_dataset(memory_source(ROWS), 1), spec, prefetch)
}

/// A batch as a line: its windows, and a digest of its values.
fn line(batch: &ModelBatch) -> String {
    let mut digest = FingerprintBuilder::default();
    let tensors = [
        batch.input(0).unwrap(),
        batch.boundary(0),
        batch.label(batch.steps() - 1),
    ];
    for tensor in tensors {
        let values: Vec<f32> = tensor.into_data().try_to_vec().unwrap();
        digest.part("values").f32s(&values);
    }
    let digest = digest.finish();
    let starts: Vec<usize> = batch.windows().iter().map(|w| w.start).collect();
    format!("{starts:?} {}", digest.part("values").unwrap())
}

/// What is delivered from where the loader is to the end of the last epoch, as (epoch, batch).
fn rest(loader: &OceanLoader) -> Vec<String> {
    let mut lines = Vec::new();
    let first = next_epoch(&loader.state(), loader);
    for _ in first..EPOCHS {
        lines.extend(loader.iter().map(|b| line(&b.unwrap())));
    }
    lines
}

/// The epoch that the next pass delivers from.
fn next_epoch(state: &LoaderState, loader: &OceanLoader) -> u64 {
    let store = loader.batcher().dataset().fingerprint();
    state.resume(loader.schedule(), store).unwrap().epoch
}

fn orders() -> Vec<Order> {
    let batches = (0..7u64).map(|k| vec![(k * 5) % 16, (k * 3 + 1) % 16]);
    vec![
        Order::Sequential,
        Order::Shuffled,
        Order::Blocks { block: 4, pool: 2 },
        Order::Samudra {
            shuffle: true,
            groups: Default::default(),
        },
        Order::Custom(batches.collect()),
    ]
}

#[test]
fn only_delivered_batches_count() {
    for prefetch in [0, 1, 8] {
        let loader = loader(spec(Order::Shuffled), prefetch);
        let at = |epoch, delivered| Position { epoch, delivered };
        assert_eq!(loader.state().position(), at(0, 0));
        let mut iter = loader.iter();
        assert_eq!(loader.state().position(), at(0, 0));
        for delivered in 1..=3 {
            iter.next().unwrap().unwrap();
            assert_eq!(loader.state().position(), at(0, delivered));
        }
        // The iterator made last speaks for the loader, even before its first batch.
        let mut second = loader.iter();
        assert_eq!(loader.state().position(), at(1, 0));
        iter.next().unwrap().unwrap();
        assert_eq!(loader.state().position(), at(1, 0));
        second.next().unwrap().unwrap();
        assert_eq!(loader.state().position(), at(1, 1));
        assert_eq!(iter.count(), 2, "the older one goes on undisturbed");
        drop(second);
        assert_eq!(loader.state().position(), at(1, 1), "dropped early");
        // A copy on another device is the same loader.
        let copy = loader.to_device(&Device::flex());
        let mut third = copy.iter();
        third.next().unwrap().unwrap();
        third.next().unwrap().unwrap();
        assert_eq!(loader.state().position(), at(0, 2));
        let full = third.by_ref().count();
        assert_eq!(loader.state().position(), at(0, full as u64 + 2));
    }
}

#[test]
fn a_run_goes_on_after_any_batch_of_any_epoch() {
    for order in orders() {
        let whole = rest(&loader(spec(order.clone()), 2));
        let steps = loader(spec(order.clone()), 0).batches() as usize;
        assert_eq!(whole.len(), EPOCHS as usize * steps);
        for stop in 0..whole.len() {
            let run = loader(spec(order.clone()), stop % 4);
            let mut delivered = Vec::new();
            while delivered.len() < stop {
                let left = stop - delivered.len();
                delivered.extend(run.iter().take(left).map(|b| line(&b.unwrap())));
            }
            let state = LoaderState::from_json(&run.state().to_json()).unwrap();
            drop(run);
            let run = loader(spec(order.clone()), 3 - stop % 4);
            let run = run.resume(&state).unwrap();
            delivered.extend(rest(&run));
            assert_eq!(delivered, whole, "{order:?} stopped after {stop}");
        }
    }
}

#[test]
fn a_loader_that_was_used_goes_back_and_forth() {
    let mut run = loader(spec(Order::Shuffled), 2);
    let whole = rest(&run);
    run.iter().take(2).for_each(|b| drop(b.unwrap()));
    let at = |epoch, delivered| Position { epoch, delivered };
    assert_eq!(run.state().position(), at(3, 2));
    for stop in [4, 13, 9] {
        let position = at(stop as u64 / 6, stop as u64 % 6);
        let store = run.batcher().dataset().fingerprint().clone();
        let state = LoaderState::new(run.schedule(), position, store);
        run = run.resume(&state).unwrap();
        assert_eq!(run.state(), state);
        assert_eq!(rest(&run), whole[stop..]);
    }
    run = run.starting_at(1);
    assert_eq!(run.state().position(), at(1, 0));
    assert_eq!(rest(&run), whole[6..]);
}

#[test]
fn progress_of_a_resumed_epoch_goes_on_and_is_complete_at_its_end() {
    let run = loader(spec(Order::Shuffled), 2);
    run.iter().take(4).for_each(|b| drop(b.unwrap()));
    let run = loader(spec(Order::Shuffled), 2)
        .resume(&run.state())
        .unwrap();
    let mut iter = run.iter();
    assert_eq!(iter.progress().items_processed, 12);
    iter.next().unwrap().unwrap();
    assert_eq!(iter.progress().items_processed, 15);
    iter.next().unwrap().unwrap();
    assert_eq!(iter.progress().items_processed, 16);
    assert_eq!(iter.progress().items_total, 16);
    assert!(iter.next().is_none());
}

/// The batches of one epoch from `position`, dealt to `world` loaders, in the order of the rounds.
fn dealt(world: usize, batch_size: usize, from: Option<&LoaderState>) -> Vec<String> {
    let rank = |rank| {
        let spec = spec(Order::Shuffled)
            .with_world(world)
            .with_rank(rank)
            .with_batch_size(batch_size);
        let run = loader(spec, 2);
        let run = match from {
            Some(state) => run.resume(state).unwrap(),
            None => run,
        };
        let lines = run.iter().map(|b| {
            let starts: Vec<_> = b.unwrap().windows().iter().map(|w| w.start).collect();
            starts
        });
        lines.collect::<Vec<_>>()
    };
    let ranks: Vec<Vec<Vec<usize>>> = (0..world).map(rank).collect();
    let rounds = 0..ranks[0].len();
    let windows = rounds.flat_map(|k| ranks.iter().flat_map(move |r| r[k].clone()));
    windows.map(|w| w.to_string()).collect()
}

#[test]
fn ranks_and_batch_sizes_may_change_between_two_rounds() {
    // 16 windows, none short, none padded.
    let whole = dealt(1, 1, None);
    assert_eq!(whole.len(), 16);
    for (world, batch_size) in [(1, 2), (2, 2), (4, 1), (2, 4)] {
        let round = world * batch_size;
        for rounds in 0..16 / round {
            let states: Vec<LoaderState> = (0..world)
                .map(|rank| {
                    let spec = spec(Order::Shuffled)
                        .with_world(world)
                        .with_rank(rank)
                        .with_batch_size(batch_size);
                    let run = loader(spec, 1);
                    run.iter().take(rounds).for_each(|b| drop(b.unwrap()));
                    if rounds == 0 {
                        // Not a batch, but a pass: it is where it began.
                        assert_eq!(run.state().position().delivered, 0);
                    }
                    run.state()
                })
                .collect();
            assert!(states.iter().all(|s| *s == states[0]), "one state for all");
            for (new_world, new_size) in [(1, 1), (1, 2), (2, 1), (4, 2), (2, 2), (1, 8)] {
                let new_round = new_world * new_size;
                let delivered = rounds * round;
                if delivered % new_round == 0 {
                    let tail = dealt(new_world, new_size, Some(&states[0]));
                    assert_eq!(
                        tail,
                        whole[delivered..],
                        "{world}x{batch_size} to {new_round}"
                    );
                } else {
                    let spec = spec(Order::Shuffled)
                        .with_world(new_world)
                        .with_batch_size(new_size);
                    let refused = loader(spec, 0).resume(&states[0]).err().unwrap();
                    assert_eq!(refused.kind(), ErrorKind::Config);
                }
            }
        }
    }
}

/// A data set that differs in one thing.
fn changed(part: &str) -> OceanDataset {
    let mut days: Vec<i64> = (0..ROWS as i64).collect();
    let mut options = memory_options(1);
    if part == "time axis" {
        days[ROWS - 1] += 1;
        options.gap_factor = 10.0;
    }
    let mut ocean = memory_ocean(memory_source(ROWS), days).unwrap();
    let mut label = None;
    match part {
        "statistics" => {
            let zos = ocean.channels.get_mut(&"zos".parse().unwrap()).unwrap();
            zos.constants.std = 1.000_000_1;
        }
        "masks" => {
            let mut wet = vec![true; 6];
            wet[5] = false;
            let mask = burn_om4::ocean::WetMask::new(ocean.surface.shape(), wet).unwrap();
            ocean.surface = std::sync::Arc::new(mask);
        }
        "channels" => options.prognostic.reverse(),
        "windows" => options.window = WindowOptions::default().with_history(0).with_steps(2),
        "preparation" => options.masked_fill_value = -1.0,
        "labels" => label = Some(ocean.clone()),
        "levels" => {
            let grid = Grid::of_shape(ocean.grid.shape()).with_depths(vec![2.5, 10.0]);
            ocean.grid = std::sync::Arc::new(grid.unwrap());
        }
        _ => {}
    }
    let pair = OceanPair {
        input: ocean,
        label,
    };
    OceanDataset::from_oceans(vec![pair], &options).unwrap()
}

#[test]
fn a_changed_data_set_is_refused_by_name() {
    let state = loader_of(changed("nothing"), spec(Order::Shuffled), 0).state();
    let same = loader_of(changed("nothing"), spec(Order::Shuffled), 0);
    assert!(same.resume(&state).is_ok());
    for part in [
        "time axis",
        "statistics",
        "masks",
        "channels",
        "windows",
        "preparation",
        "labels",
        "levels",
    ] {
        let other = loader_of(changed(part), spec(Order::Shuffled), 0);
        let error = other.resume(&state).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let other = spec(Order::Shuffled).with_seed(12);
    let error = loader(other, 0).resume(&state).err().unwrap();
    assert!(error.to_string().contains("seed"), "{error}");
}

/// A new process of this test binary that runs `child`, a test below that is ignored otherwise.
fn child(name: &str, dir: &Path, more: &[(&str, String)]) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("RESUME_DIR", dir)
        .envs(more.iter().map(|(k, v)| (k, v)))
        .output()
        .unwrap()
        .status
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

#[test]
#[ignore = "run by a_killed_process_goes_on_in_a_new_one"]
fn child_delivers_and_dies() {
    let (dir, prefetch) = (variable("RESUME_DIR"), variable("RESUME_PREFETCH"));
    let order = serde_json::from_str(&variable("RESUME_ORDER")).unwrap();
    let dir = Path::new(&dir);
    let (state, log) = (dir.join("state.json"), dir.join("delivered.txt"));
    let mut run = loader(spec(order), prefetch.parse().unwrap());
    if let Ok(text) = std::fs::read_to_string(&state) {
        run = run.resume(&LoaderState::from_json(&text).unwrap()).unwrap();
    }
    let mut left: usize = variable("RESUME_BATCHES").parse().unwrap();
    let mut lines = std::fs::read_to_string(&log).unwrap_or_default();
    for _ in next_epoch(&run.state(), &run)..EPOCHS {
        for batch in run.iter() {
            writeln!(lines, "{}", line(&batch.unwrap())).unwrap();
            std::fs::write(&log, &lines).unwrap();
            std::fs::write(&state, run.state().to_json()).unwrap();
            left -= 1;
            if left == 0 {
                // No destructor runs: the reader is in the middle of whatever it does.
                std::process::abort();
            }
        }
    }
    std::fs::write(dir.join("finished"), "").unwrap();
}

#[test]
fn a_killed_process_goes_on_in_a_new_one() {
    // Every k: k = 1 dies after every batch, 6 at the ends of epochs, 2 and 3 twice in one epoch.
    for (order, each) in [
        (Order::Shuffled, &[1, 2, 4, 5, 6, 7, 11][..]),
        (orders().remove(3), &[3, 6, 8][..]),
    ] {
        let whole = rest(&loader(spec(order.clone()), 2));
        assert_eq!(whole.len(), 18);
        for &k in each {
            let dir = tempfile::tempdir().unwrap();
            let mut processes = 0;
            while !dir.path().join("finished").exists() {
                let status = child(
                    "child_delivers_and_dies",
                    dir.path(),
                    &[
                        ("RESUME_ORDER", serde_json::to_string(&order).unwrap()),
                        ("RESUME_BATCHES", k.to_string()),
                        ("RESUME_PREFETCH", (processes % 4).to_string()),
                        (READERS_VARIABLE, (1 + processes % 3).to_string()),
                    ],
                );
                processes += 1;
                let killed = processes * k <= whole.len();
                assert_eq!(status.success(), !killed, "process {processes}, k = {k}");
            }
            assert_eq!(processes, whole.len() / k + 1);
            let text = std::fs::read_to_string(dir.path().join("delivered.txt")).unwrap();
            assert_eq!(text.lines().collect::<Vec<_>>(), whole, "k = {k}");
        }
    }
}

fn written(dir: &Path) -> OceanDataset {
    let options = DatasetOptions::new(
        parse_channels("thetao_0,thetao_1,zos").unwrap(),
        parse_channels("hfds").unwrap(),
    )
    .with_window(WindowOptions::default().with_steps(2));
    OceanDataset::open(&Om4Paths::in_dir(dir), &options).unwrap()
}

#[test]
#[ignore = "run by order_and_values_are_the_same_for_any_number_of_readers"]
fn child_reads() {
    let dir = variable("RESUME_DIR");
    let dataset = written(Path::new(&dir));
    let mut found = String::new();
    for prefetch in 0..=8 {
        let run = loader_of(dataset.clone(), spec(Order::Shuffled), prefetch);
        let mut digest = FingerprintBuilder::default();
        for text in rest(&run) {
            let (windows, values) = text.rsplit_once(' ').unwrap();
            digest.part("order").text(windows);
            digest.part("values").text(values);
        }
        let digest = digest.finish();
        let [order, values] = ["order", "values"].map(|p| digest.part(p).unwrap());
        writeln!(found, "{order} {values}").unwrap();
    }
    let readers = burn_om4::store::reader_threads().unwrap().to_string();
    assert_eq!(readers, variable(READERS_VARIABLE));
    std::fs::write(Path::new(&dir).join("found.txt"), found).unwrap();
}

#[test]
fn order_and_values_are_the_same_for_any_number_of_readers() {
    let dir = tempfile::tempdir().unwrap();
    SynthOptions::new(6, 8)
        .with_levels(2)
        .with_rows(24)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .write(dir.path())
        .unwrap();
    // The order of three epochs, frozen. Values are the same each time, but not on every platform:
    // the store is made of sines.
    const ORDER: &str = "8f68653701ed7c5c7a647da6859153a4";
    let mut values = None;
    for readers in 1..=16 {
        let readers = [(READERS_VARIABLE, readers.to_string())];
        assert!(child("child_reads", dir.path(), &readers).success());
        let found = std::fs::read_to_string(dir.path().join("found.txt")).unwrap();
        assert_eq!(found.lines().count(), 9);
        for line in found.lines() {
            let (order, digest) = line.split_once(' ').unwrap();
            assert_eq!(order, ORDER, "{readers:?}");
            let first = values.get_or_insert_with(|| digest.to_owned());
            assert_eq!(digest, first, "{readers:?}");
        }
    }
}
