//! Keyed picks: every window k times, keys that depend on nothing but seed, epoch, window and pick,
//! and the two transforms.

use burn::Tensor;
use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::augment::{EquatorMirror, Noise, Transform};
use burn_om4::order::Pick;
use burn_om4::synth::{SynthOptions, field};
use burn_om4::{
    BatchContext, Channel, DatasetOptions, Error, LoaderState, ModelBatch, OceanBatcher,
    OceanDataset, OceanLoader, Om4Paths, Order, PrefetchOptions, Result, Role, Schedule,
    ScheduleOptions, WindowOptions, parse_channels,
};
use om4_test_support::memory::{memory_dataset, memory_source};
use std::collections::BTreeMap;
use std::path::Path;

/// Adds each pick's key, cut to what a float holds, to everything.
struct AddKey;

impl Transform for AddKey {
    fn name(&self) -> String {
        "add key".to_owned()
    }

    fn check(&self, _: &BatchContext) -> Result<()> {
        Ok(())
    }

    fn apply(&self, batch: ModelBatch, picks: &[Pick]) -> Result<ModelBatch> {
        Ok(batch.map(|_, _, tensor| {
            let samples = tensor.split(1, 0).into_iter().zip(picks);
            let moved = samples.map(|(t, p)| t.add_scalar((p.key % 1024) as f32));
            Tensor::cat(moved.collect(), 0)
        }))
    }
}

struct Nothing(&'static str);

impl Transform for Nothing {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn check(&self, _: &BatchContext) -> Result<()> {
        Ok(())
    }

    fn apply(&self, batch: ModelBatch, _: &[Pick]) -> Result<ModelBatch> {
        match self.0 {
            "fails" => Err(Error::config("it cannot")),
            "panics" => panic!("it panics"),
            _ => Ok(batch),
        }
    }
}

fn loader_of(dataset: OceanDataset, spec: ScheduleOptions, prefetch: usize) -> OceanLoader {
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let prefetch = PrefetchOptions::default().with_batches(prefetch);
    let batcher = OceanBatcher::new(dataset);
    OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
}

/// 9 windows of one step.
fn loader(spec: ScheduleOptions, prefetch: usize) -> OceanLoader {
    loader_of(memory_dataset(memory_source(12), 1), spec, prefetch)
}

fn spec(order: Order) -> ScheduleOptions {
    ScheduleOptions::default()
        .with_order(order)
        .with_seed(21)
        .with_batch_size(4)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

type Shown = BTreeMap<(u64, u64), (u64, Vec<f32>)>;

/// (window, number) to (key, first input) of a pass.
fn shown(loader: &OceanLoader) -> Shown {
    let mut shown = Shown::new();
    for batch in loader.iter() {
        let batch = batch.unwrap();
        assert_eq!(batch.picks().len(), batch.len());
        let inputs = batch.input(0).unwrap().split(1, 0);
        for ((pick, window), input) in batch.picks().iter().zip(batch.windows()).zip(inputs) {
            assert_eq!(pick.window as usize, window.start);
            let before = shown.insert((pick.window, pick.number), (pick.key, values(input)));
            assert!(before.is_none(), "{pick:?} twice");
        }
    }
    shown
}

#[test]
fn keys_depend_on_seed_epoch_window_and_pick_alone() {
    let orders = [
        Order::Sequential,
        Order::Shuffled,
        Order::Blocks { block: 4, pool: 2 },
    ];
    let mut expected: Option<[Shown; 2]> = None;
    for order in orders {
        for (batch_size, world, prefetch) in [(4, 1, 0), (3, 1, 2), (1, 3, 1), (3, 3, 4)] {
            let mut epochs = [Shown::new(), Shown::new()];
            for rank in 0..world {
                let spec = spec(order.clone())
                    .with_batch_size(batch_size)
                    .with_world(world)
                    .with_rank(rank);
                let loader = loader(spec, prefetch).augment(3, AddKey).unwrap();
                for epoch in &mut epochs {
                    epoch.append(&mut shown(&loader));
                }
            }
            // 9 windows, 3 picks each, none lost and none twice (27 divides evenly).
            assert!(epochs.iter().all(|e| e.len() == 27));
            let expected = expected.get_or_insert_with(|| epochs.clone());
            assert_eq!(&epochs, expected, "{order:?} {batch_size} {world}");
        }
    }
    let [first, second] = expected.unwrap();
    let mut keys: Vec<u64> = first.values().chain(second.values()).map(|v| v.0).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 54, "another key for each pick and epoch");
    // The key is what moved the values: the first input value of window w is 100 w.
    for ((window, _), (key, input)) in &first {
        assert_eq!(input[0], (window * 100 + key % 1024) as f32);
    }
    let other = spec(Order::Sequential).with_seed(22);
    let other = shown(&loader(other, 0).augment(3, AddKey).unwrap());
    assert!(other.iter().zip(&first).all(|(a, b)| a.1.0 != b.1.0));
}

#[test]
fn picks_resume_in_the_middle_of_an_epoch() {
    let make = || loader(spec(Order::Shuffled), 2).augment(2, AddKey).unwrap();
    let lines = |loader: &OceanLoader| -> Vec<_> {
        let line = |b: ModelBatch| (b.picks().to_vec(), values(b.label(0)));
        loader.iter().map(|b| line(b.unwrap())).collect()
    };
    let straight = make();
    let whole: Vec<_> = (0..2).map(|_| lines(&straight)).collect();
    assert_eq!(straight.num_items(), 18);
    assert_eq!(whole[0].len(), 5);
    for k in 0..5 {
        let run = make();
        run.iter().take(k).for_each(|b| drop(b.unwrap()));
        let state = LoaderState::from_json(&run.state().to_json()).unwrap();
        let run = make().resume(&state).unwrap();
        assert_eq!(lines(&run), whole[0][k..]);
        assert_eq!(lines(&run), whole[1]);
        // Other picks, another transform or none are other runs.
        let plain = || loader(spec(Order::Shuffled), 2);
        for other in [
            plain(),
            plain().augment(3, AddKey).unwrap(),
            plain().augment(2, Nothing("other")).unwrap(),
        ] {
            let error = other.resume(&state).err().unwrap();
            assert!(error.to_string().contains("picks"), "{error}");
        }
        assert!(run.augment(2, AddKey).is_err(), "resumed already");
    }
}

#[test]
fn a_transform_that_fails_does_so_in_its_place() {
    for what in ["fails", "panics"] {
        let loader = loader(spec(Order::Sequential), 2)
            .augment(1, Nothing(what))
            .unwrap();
        let results: Vec<_> = loader.iter().collect();
        assert_eq!(results.len(), 1);
        let error = format!("{:?}", results[0].as_ref().err().unwrap());
        assert!(error.contains("it "), "{error}");
    }
    assert!(
        loader(spec(Order::Sequential), 0)
            .augment(0, AddKey)
            .is_err()
    );
}

#[test]
fn picks_of_a_batch_share_their_planes() {
    let plain = loader(spec(Order::Sequential), 0);
    plain.iter().for_each(|b| drop(b.unwrap()));
    let twice = spec(Order::Sequential).with_batch_size(8);
    let twice = loader(twice, 0).augment(2, Nothing("same")).unwrap();
    twice.iter().for_each(|b| drop(b.unwrap()));
    let (plain, twice) = (plain.counters(), twice.counters());
    assert_eq!(twice.windows, 2 * plain.windows);
    assert_eq!(twice.planes_read, plain.planes_read);
}

const NY: usize = 6;
const NX: usize = 8;

/// A store whose land and values differ between north and south.
fn store(dir: &Path) -> OceanDataset {
    let wet = |level: usize, y: usize, x: usize| y > 0 && !(x + y + level).is_multiple_of(5);
    let plane = |channel: &Channel, row: usize, out: &mut [f32]| {
        let shift = channel.name().bytes().map(usize::from).sum::<usize>() % 17;
        for (i, value) in out.iter_mut().enumerate() {
            *value = ((i * 7 + row * 13 + shift) % 29) as f32 - 9.0;
        }
    };
    SynthOptions::new(NY, NX)
        .with_levels(2)
        .with_rows(10)
        .with_variables(&["thetao", "vo"], &["zos", "hfds", "tauvo"])
        .write_field(dir, &mut field(wet, plane))
        .unwrap();
    open(dir)
}

fn open(dir: &Path) -> OceanDataset {
    let options = DatasetOptions::new(
        parse_channels("thetao_0,vo_0,vo_1,zos").unwrap(),
        parse_channels("hfds,tauvo").unwrap(),
    )
    .with_window(WindowOptions::default().with_steps(2))
    .with_masked_fill_value(-3.0);
    OceanDataset::open(&Om4Paths::in_dir(dir), &options).unwrap()
}

fn batches(loader: &OceanLoader) -> Vec<ModelBatch> {
    loader.iter().map(|b| b.unwrap()).collect()
}

/// Every tensor a training step reads: (role, step, values).
fn tensors(batch: &ModelBatch) -> Vec<(Role, Vec<f32>)> {
    (0..batch.steps())
        .flat_map(|k| {
            [
                (Role::Input, values(batch.input(k).unwrap())),
                (Role::Boundary, values(batch.boundary(k))),
                (Role::Label, values(batch.label(k))),
            ]
        })
        .collect()
}

fn wet(batch: &ModelBatch) -> (Vec<bool>, Vec<bool>) {
    let label = batch.label_mask().into_data().try_to_vec().unwrap();
    let boundary = batch.boundary_mask().into_data().try_to_vec().unwrap();
    (label, boundary)
}

#[test]
fn noise_moves_the_ocean_of_the_first_input_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = store(dir.path());
    let plain = batches(&loader_of(dataset.clone(), spec(Order::Sequential), 1));
    let noisy = loader_of(dataset, spec(Order::Sequential), 1);
    let noisy = batches(&noisy.augment(1, Noise::new(0.5).unwrap()).unwrap());
    for (plain, noisy) in plain.iter().zip(&noisy) {
        let (mask, _) = wet(plain);
        assert_eq!(wet(noisy), wet(plain));
        for (i, (a, b)) in tensors(plain).iter().zip(tensors(noisy)).enumerate() {
            if i > 0 {
                assert_eq!(*a, b, "tensor {i}");
                continue;
            }
            let moved = a.1.iter().zip(&b.1).map(|(a, b)| b - a);
            for (cell, moved) in moved.enumerate() {
                let ocean = mask[cell % mask.len()];
                assert_eq!(moved != 0.0, ocean, "cell {cell}: {moved}");
                assert!(moved.abs() < 0.5 * 3.47);
            }
        }
    }
    assert!(Noise::new(-1.0).is_err() && Noise::new(f32::NAN).is_err());
}

#[test]
fn the_mirror_turns_rows_masks_and_northward_velocities() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = store(dir.path());
    let context = dataset.context(0).clone();
    let plain = loader_of(dataset.clone(), spec(Order::Shuffled), 1);
    let mirrored = loader_of(dataset, spec(Order::Shuffled), 1)
        .augment(1, EquatorMirror::default())
        .unwrap();
    let [mut as_is, mut turned] = [0, 0];
    for _ in 0..6 {
        for (plain, batch) in batches(&plain).iter().zip(batches(&mirrored)) {
            if batch.picks()[0].key & 1 == 0 {
                assert_eq!(tensors(plain), tensors(&batch));
                assert_eq!(wet(plain), wet(&batch));
                as_is += 1;
                continue;
            }
            turned += 1;
            let ((label, surface), (label_now, surface_now)) = (wet(plain), wet(&batch));
            for (before, now) in [(&label, &label_now), (&surface, &surface_now)] {
                for (i, wet) in now.iter().enumerate() {
                    assert_eq!(*wet, before[mirror_of(i)]);
                }
                assert_ne!(before, now);
            }
            for ((role, before), (_, now)) in tensors(plain).iter().zip(tensors(&batch)) {
                for (i, now) in now.iter().enumerate() {
                    let before = before[mirror_of(i)];
                    let (channel, wet) = match role {
                        Role::Boundary => (i / (NY * NX) % 2, surface_now[i % (NY * NX)]),
                        _ => (i / (NY * NX) % 4, label_now[i % label_now.len()]),
                    };
                    let constants = match (role, channel) {
                        (Role::Boundary, 1) => context.boundary_constants(1),
                        (Role::Input | Role::Label, 1 | 2) => context.constants(channel),
                        _ => {
                            assert_eq!(*now, before);
                            continue;
                        }
                    };
                    if !wet {
                        assert_eq!(*now, -3.0, "land keeps its value");
                        continue;
                    }
                    let physical = |x: f32| x * constants.std + constants.mean;
                    let sum = physical(*now) + physical(before);
                    assert!(
                        sum.abs() < 1e-3,
                        "{} and {}",
                        physical(*now),
                        physical(before)
                    );
                }
            }
        }
    }
    assert!(as_is > 2 && turned > 2, "{as_is} and {turned}");
}

/// The cell of the other hemisphere, in any stack of planes.
fn mirror_of(i: usize) -> usize {
    let (plane, y, x) = (i / (NY * NX), i / NX % NY, i % NX);
    (plane * NY + NY - 1 - y) * NX + x
}

#[test]
fn what_cannot_be_mirrored_is_refused() {
    // A grid of which nothing but the extent is known.
    let error = loader(spec(Order::Sequential), 0)
        .augment(1, EquatorMirror::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("latitudes"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let options = DatasetOptions::new(
        parse_channels("zos").unwrap(),
        parse_channels("hfds").unwrap(),
    );
    let paths = Om4Paths::in_dir(dir.path());
    let own = OceanDataset::open_with_labels(&paths, &paths, &options).unwrap();
    let own = || loader_of(own.clone(), spec(Order::Sequential), 0);
    assert!(own().augment(1, EquatorMirror::default()).is_err());
    assert!(own().augment(1, Noise::new(0.1).unwrap()).is_err());
}
