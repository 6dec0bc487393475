//! One loader for several devices: shares, equal steps, failing together, and Burn's own strategy.

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::split::split_dataloader;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{LossMetric, MetricDefinition};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn::train::{
    ExecutionStrategy, InferenceStep, Learner, MultiDeviceOptim, RegressionOutput,
    SupervisedTraining, TrainOutput, TrainStep,
};
use burn_om4::order::Position;
use burn_om4::testing::{Fault, FaultySource};
use burn_om4::{
    ErrorKind, LoaderState, ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Order,
    PrefetchOptions, Schedule, ScheduleOptions,
};
use om4_test_support::memory::{memory_dataset, memory_source};
use om4_test_support::own_error;
use std::sync::{Arc, Mutex};

fn loader_of(dataset: OceanDataset, order: Order, prefetch: usize) -> OceanLoader {
    let spec = ScheduleOptions::default()
        .with_order(order)
        .with_seed(3)
        .with_batch_size(2);
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let prefetch = PrefetchOptions::default().with_batches(prefetch);
    let batcher = OceanBatcher::new(dataset);
    OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
}

fn loader(windows: usize) -> Arc<OceanLoader> {
    // A window of one step spans 4 rows.
    let dataset = memory_dataset(memory_source(windows + 3), 1);
    Arc::new(loader_of(dataset, Order::Shuffled, 2))
}

fn pass(loader: &dyn DataLoader<ModelBatch>) -> Vec<Vec<usize>> {
    let starts = |b: ModelBatch| b.windows().iter().map(|w| w.start).collect();
    loader.iter().map(|b| starts(b.unwrap())).collect()
}

fn split(loader: &Arc<OceanLoader>, devices: usize) -> Vec<Arc<dyn DataLoader<ModelBatch>>> {
    split_dataloader(loader.clone(), &vec![Device::flex(); devices])
}

#[test]
fn shares_are_disjoint_equally_long_and_dealt_anew() {
    for windows in [1, 3, 8, 16, 23, 27] {
        for devices in [2, 3, 4, 8] {
            let loader = loader(windows);
            // Splitting twice gives the same, and so does another number of devices in between.
            split(&loader, devices + 1);
            for slices in [split(&loader, devices), split(&loader, devices)] {
                let mut first = None;
                for _ in 0..2 {
                    let shares: Vec<_> = slices.iter().map(|s| pass(&**s)).collect();
                    let steps = windows.div_ceil(2).div_ceil(devices);
                    assert!(
                        shares.iter().all(|s| s.len() == steps),
                        "{windows}/{devices}"
                    );
                    let mut all: Vec<usize> = shares.concat().concat();
                    let shown = all.len();
                    all.sort_unstable();
                    all.dedup();
                    assert_eq!(all, (0..windows).collect::<Vec<_>>());
                    if windows == 16 && devices != 3 {
                        assert_eq!(shown, windows, "no window twice");
                    }
                    for (slice, share) in slices.iter().zip(&shares) {
                        assert_eq!(slice.num_items(), 2 * share.len());
                    }
                    let anew = first.replace(shares.clone()) != Some(shares);
                    assert!(anew || windows < 8);
                }
            }
            assert_eq!(
                loader.counters().batches as usize,
                4 * devices * windows.div_ceil(2).div_ceil(devices)
            );
        }
    }
}

#[test]
fn ranks_take_equal_steps_whatever_the_length() {
    for windows in [1, 2, 5, 13, 40] {
        let dataset = memory_dataset(memory_source(windows + 3), 1);
        for (world, drop_last) in [1, 2, 3, 8]
            .into_iter()
            .flat_map(|w| [(w, false), (w, true)])
        {
            let rank = |rank| {
                let spec = ScheduleOptions::default()
                    .with_seed(8)
                    .with_batch_size(2)
                    .with_world(world)
                    .with_rank(rank)
                    .with_drop_last(drop_last);
                let schedule = Schedule::new(spec, dataset.groups()).unwrap();
                let batcher = OceanBatcher::new(dataset.clone());
                let prefetch = PrefetchOptions::default();
                OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap()
            };
            let loaders: Vec<OceanLoader> = (0..world).map(rank).collect();
            let ranks: Vec<_> = loaders.iter().map(|l| pass(l)).collect();
            let full = match drop_last {
                true => windows / 2 / world,
                false => windows.div_ceil(2).div_ceil(world),
            };
            assert!(ranks.iter().all(|r| r.len() == full), "{windows} {world}");
            let mut all: Vec<usize> = ranks.concat().concat();
            let delivered = all.len();
            all.sort_unstable();
            all.dedup();
            if drop_last {
                assert_eq!((all.len(), delivered), (2 * full * world, 2 * full * world));
            } else {
                assert_eq!(all, (0..windows).collect::<Vec<_>>(), "nothing is lost");
            }
        }
    }
}

#[test]
fn the_state_is_what_every_slice_has_delivered() {
    let whole = loader(16);
    let slices = split(&whole, 2);
    let mut iters: Vec<_> = slices.iter().map(|s| s.iter()).collect();
    let at = |epoch, delivered| Position { epoch, delivered };
    assert_eq!(whole.state().position(), at(0, 0));
    for _ in 0..3 {
        iters[0].next().unwrap().unwrap();
    }
    assert_eq!(whole.state().position(), at(0, 0));
    iters[1].next().unwrap().unwrap();
    assert_eq!(whole.state().position(), at(0, 1));
    iters[1].next().unwrap().unwrap();
    let saved = LoaderState::from_json(&whole.state().to_json()).unwrap();
    assert_eq!(saved.position(), at(0, 2));

    // Two devices go on as two, or as one.
    let two = |resumed: bool| -> Vec<_> {
        let whole = match resumed {
            true => {
                let dataset = memory_dataset(memory_source(19), 1);
                Arc::new(
                    loader_of(dataset, Order::Shuffled, 1)
                        .resume(&saved)
                        .unwrap(),
                )
            }
            false => loader(16),
        };
        let slices = split(&whole, 2);
        (0..2)
            .map(|_| slices.iter().map(|s| pass(&**s)).collect::<Vec<_>>())
            .collect()
    };
    let (resumed, mut straight) = (two(true), two(false));
    for share in &mut straight[0] {
        share.drain(..2);
    }
    assert_eq!(resumed, straight);
    let one = loader_of(memory_dataset(memory_source(19), 1), Order::Shuffled, 1);
    assert_eq!(pass(&one.resume(&saved).unwrap()), pass(&*loader(16))[4..]);
    // At the end of all slices the next epoch is next.
    drop(iters);
    let slices = split(&whole, 2);
    slices.iter().for_each(|s| drop(pass(&**s)));
    let store = whole.batcher().dataset().fingerprint();
    let next = whole.state().resume(whole.schedule(), store).unwrap();
    assert_eq!(next, at(1, 0));
}

fn orders() -> Vec<Order> {
    let batches = (0..8).map(|k| vec![(k * 5) % 16, (k * 3 + 1) % 16]);
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

/// What is left of two epochs, per slice.
fn rest(loader: &Arc<OceanLoader>, devices: usize, first: u64) -> Vec<Vec<Vec<usize>>> {
    let slices = split(loader, devices);
    let epochs =
        |slice: &Arc<dyn DataLoader<ModelBatch>>| (first..2).flat_map(|_| pass(&**slice)).collect();
    slices.iter().map(epochs).collect()
}

#[test]
fn devices_go_on_after_any_batch_in_every_order() {
    // A window of one step spans 4 rows: 16 windows, 8 batches, 4 of them per device and epoch.
    let fresh = |order: &Order| {
        Arc::new(loader_of(
            memory_dataset(memory_source(19), 1),
            order.clone(),
            1,
        ))
    };
    for order in orders() {
        let whole = rest(&fresh(&order), 2, 0);
        assert!(whole.iter().all(|slice| slice.len() == 8), "{order:?}");
        for stop in 1..8 {
            let run = fresh(&order);
            let slices = split(&run, 2);
            for slice in &slices {
                let mut left = stop;
                while left > 0 {
                    left -= slice.iter().take(left).map(|b| drop(b.unwrap())).count();
                }
            }
            let state = LoaderState::from_json(&run.state().to_json()).unwrap();
            drop(slices);
            let resume = || {
                let spec = Arc::into_inner(fresh(&order)).unwrap();
                spec.resume(&state)
            };
            let resumed = Arc::new(resume().unwrap());
            let epoch = u64::from(stop >= 4);
            let tail: Vec<_> = whole.iter().map(|slice| slice[stop..].to_vec()).collect();
            assert_eq!(rest(&resumed, 2, epoch), tail, "{order:?} after {stop}");

            // Where the order depends on the number of ranks, nobody else goes on in mid-epoch, and the
            // state is what it was.
            let fixed = matches!(order, Order::Samudra { .. } | Order::Custom(_));
            let resumed = Arc::new(resume().unwrap());
            if fixed {
                assert_eq!(resumed.state(), state, "{order:?} after {stop}");
            }
            let three = split(&resumed, 3);
            for other in [&*resumed as &dyn DataLoader<ModelBatch>, &*three[0]] {
                let first = other.iter().next().unwrap().err();
                if fixed {
                    let error = first.unwrap();
                    let error = own_error(&error).to_string();
                    assert!(error.contains("world size"), "{order:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_slice_that_is_no_devices_share_says_so() {
    let loader = loader(20);
    let tenth = loader.slice(0, 2);
    let mut iter = tenth.iter();
    let error = iter.next().unwrap().err().unwrap();
    assert!(iter.next().is_none());
    assert!(format!("{error:?}").contains("0..2"), "{error:?}");
    let again = split(&loader, 2)[0].slice(0, 5);
    assert!(again.iter().next().unwrap().is_err());
}

#[test]
fn devices_fail_together_at_the_same_step() {
    for prefetch in [0, 1, 4] {
        // Windows of 4 rows, 2 to a batch: row 13 is first touched by batch 5 (windows 10 and 11),
        // which is step 1 of device 2 of 3 + ... in order: batch 5 = step 1 * 3 + device 2.
        let source = FaultySource::new(memory_source(27), Fault::ErrorAt(13));
        let loader = Arc::new(loader_of(
            memory_dataset(source, 1),
            Order::Sequential,
            prefetch,
        ));
        let slices = split(&loader, 3);
        let mut iters: Vec<_> = slices.iter().map(|s| s.iter()).collect();
        // All take a step; then device 2 is asked first, so that its failure is known.
        for iter in &mut iters {
            assert!(iter.next().unwrap().is_ok(), "step 0");
        }
        let mut kinds = Vec::new();
        for iter in iters.iter_mut().rev() {
            let error = iter.next().unwrap().err().unwrap();
            let error = own_error(&error);
            assert!(error.to_string().contains("13"), "names the cause: {error}");
            kinds.push(error.kind());
            assert!(iter.next().is_none(), "once");
        }
        let interrupted = ErrorKind::Interrupted;
        assert_eq!(kinds, [ErrorKind::Corrupt, interrupted, interrupted]);
        // Another pass does not get past it on any device, either.
        let pass: Vec<_> = slices[0].iter().collect();
        assert!(pass.len() == 1 && pass[0].is_err());
        // Without slices each iterator fails for itself.
        assert_eq!(loader.iter().filter(|b| b.is_ok()).count(), 5);
        assert_eq!(loader.iter().filter(|b| b.is_ok()).count(), 5);
    }
}

/// One convolution, and a note of what each device was given.
#[derive(Module, Debug)]
struct Tiny {
    conv: Conv2d,
}

type Seen = Vec<(std::thread::ThreadId, Vec<usize>)>;
static SEEN: Mutex<Seen> = Mutex::new(Vec::new());

impl Tiny {
    fn output(&self, batch: &ModelBatch) -> RegressionOutput {
        let [n, c, y, x] = batch.label(0).dims();
        let target = batch.label(0) / 1000.0;
        let predicted = self.conv.forward(batch.input(0).unwrap() / 1000.0);
        let loss = (predicted.clone() - target.clone()).powi_scalar(2).mean();
        RegressionOutput::new(
            loss,
            predicted.reshape([n, c * y * x]),
            target.reshape([n, c * y * x]),
        )
    }
}

impl TrainStep for Tiny {
    type Input = ModelBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: ModelBatch) -> TrainOutput<RegressionOutput> {
        let starts = batch.windows().iter().map(|w| w.start).collect();
        SEEN.lock()
            .unwrap()
            .push((std::thread::current().id(), starts));
        let output = self.output(&batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Tiny {
    type Input = ModelBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: ModelBatch) -> RegressionOutput {
        self.output(&batch)
    }
}

/// No display.
struct Quiet;

impl MetricsRendererTraining for Quiet {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for Quiet {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl TrainingProgressLogger for Quiet {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn start_split(&mut self, _: &str, _: usize) {}
    fn update_split(&mut self, _: usize) {}
    fn update_epoch(&mut self, _: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Quiet {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Quiet {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}

#[test]
fn two_devices_train_with_disjoint_shards() {
    let dir = tempfile::tempdir().unwrap();
    let (train, valid) = (loader(16), loader(4));
    let devices = vec![Device::flex(), Device::flex()];
    let autodiff = Device::flex().autodiff();
    let model = Tiny {
        conv: Conv2dConfig::new([4, 4], [1, 1]).init(&autodiff),
    };
    let before: Vec<f32> = model.conv.weight.val().into_data().try_to_vec().unwrap();
    let strategy = ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimMainDevice);
    let training = SupervisedTraining::<Tiny>::new(
        dir.path().to_str().unwrap(),
        train.clone() as Arc<dyn DataLoader<ModelBatch>>,
        valid as Arc<dyn DataLoader<ModelBatch>>,
    )
    .metric_train_numeric(LossMetric::new())
    .with_application_logger(None)
    .renderer(Box::new(Quiet))
    .num_epochs(3)
    .with_training_strategy(strategy.into());
    let result = training.launch(Learner::new(model, AdamConfig::new().init(), 1e-2));
    assert!(
        result.error.is_none(),
        "{:?}",
        result.error.map(|e| e.to_string())
    );
    let after: Vec<f32> = result
        .model
        .conv
        .weight
        .val()
        .into_data()
        .try_to_vec()
        .unwrap();
    assert_ne!(before, after, "it learned");

    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    // 16 windows are 8 batches: 4 steps on each of two devices, three times.
    assert_eq!(seen.len(), 3 * 8);
    let epochs: Vec<&[_]> = seen.chunks(8).collect();
    let mut shares = Vec::new();
    for epoch in epochs {
        let mut all: Vec<usize> = epoch
            .iter()
            .flat_map(|(_, starts)| starts.clone())
            .collect();
        all.sort_unstable();
        assert_eq!(
            all,
            (0..16).collect::<Vec<_>>(),
            "disjoint, and nothing lost"
        );
        let of_first: Vec<&(_, Vec<usize>)> =
            epoch.iter().filter(|(t, _)| *t == epoch[0].0).collect();
        assert_eq!(of_first.len(), 4, "equal steps");
        let mut share: Vec<usize> = of_first.iter().flat_map(|(_, s)| s.clone()).collect();
        share.sort_unstable();
        shares.push(share);
    }
    assert!(
        shares[0] != shares[1] || shares[1] != shares[2],
        "dealt anew"
    );
    let next = train
        .state()
        .resume(train.schedule(), train.batcher().dataset().fingerprint());
    assert_eq!(
        next.unwrap(),
        Position {
            epoch: 3,
            delivered: 0
        }
    );
}
