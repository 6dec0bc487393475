//! The device lane on a Vulkan device, software or not: the kernel against the host's arithmetic,
//! leases, failures, early drops, prefetch policies.
#![cfg(feature = "vulkan")]

use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device, Tensor};
use burn_om4::dataset::{Ocean, OceanPair};
use burn_om4::host::{HostPool, HostPoolOptions, OrdinaryMemory};
use burn_om4::ocean::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts, WetMask};
use burn_om4::prepare::{ChannelConstants, DevicePath, Preparation};
use burn_om4::testing::{Fault, FaultySource, MemorySource, PoisonedMemory, ocean_on, ulps};
use burn_om4::{
    Channel, DatasetOptions, Inputs, MaskOrder, OceanBatcher, OceanDataset, OceanLoader, Order,
    Precision, PrefetchOptions, PrefetchTo, Result, Schedule, ScheduleOptions, Strictness,
    Timeline, WindowOptions,
};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const SHAPE: PlaneShape = PlaneShape { ny: 5, nx: 7 };
const CELLS: usize = 35;
const ROWS: usize = 24;

fn value(row: usize, channel: usize, cell: usize) -> f32 {
    match (row + channel * 3 + cell) % 11 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => 1e30,
        _ => (row * 100 + channel * 10 + cell) as f32 * 0.37 - 300.0,
    }
}

fn wet(channel: usize, cell: usize) -> bool {
    !(cell + channel).is_multiple_of(4)
}

/// Two prognostic channels, of which one has a deviation of 0, and a boundary channel.
fn constants(channel: usize, shape: PlaneShape) -> ChannelConstants {
    let mask = (0..shape.cells()).map(|cell| wet(channel % 2, cell));
    ChannelConstants {
        mean: [3.7, value(4, 1, 8), -120.0][channel],
        std: [12.3, 0.0, 0.003][channel],
        wet: Arc::new(WetMask::new(shape, mask.collect()).unwrap()),
    }
}

fn options(order: MaskOrder, steps: usize) -> DatasetOptions {
    let names = |list: &[&str]| list.iter().map(|n| n.parse().unwrap()).collect();
    DatasetOptions::new(names(&["thetao_0", "thetao_1"]), names(&["hfds"]))
        .with_window(WindowOptions::default().with_steps(steps))
        .with_mask_order(order)
        .with_masked_fill_value(-0.5)
        // Infinities are among the values.
        .with_strictness(Strictness::Lenient)
}

fn ocean_of(source: impl PlaneSource + 'static) -> Ocean {
    let shape = source.shape();
    let constants = (0..source.channels().len()).map(|channel| constants(channel, shape));
    ocean_on(source, constants.collect()).unwrap()
}

fn dataset_of(source: impl PlaneSource + 'static, options: &DatasetOptions) -> OceanDataset {
    let pair = OceanPair {
        input: ocean_of(source),
        label: None,
    };
    OceanDataset::from_oceans(vec![pair], options).unwrap()
}

fn memory_of(shape: PlaneShape) -> MemorySource {
    let channels = ["thetao_0", "thetao_1", "hfds"].map(|n| n.parse().unwrap());
    MemorySource::new(channels.into(), ROWS, shape, value)
}

fn memory() -> MemorySource {
    memory_of(SHAPE)
}

fn batcher(dataset: OceanDataset) -> OceanBatcher {
    let pool = HostPool::new(
        PoisonedMemory(OrdinaryMemory),
        HostPoolOptions::default().with_keep(9),
    );
    OceanBatcher::new(dataset).with_host_pool(pool)
}

fn loader(
    batcher: OceanBatcher,
    order: Order,
    prefetch: PrefetchOptions,
    device: &Device,
) -> OceanLoader {
    let spec = ScheduleOptions::default()
        .with_order(order)
        .with_seed(5)
        .with_batch_size(3);
    let schedule = Schedule::new(spec, batcher.dataset().groups()).unwrap();
    OceanLoader::new(batcher, schedule, prefetch, device).unwrap()
}

fn prefetch(batches: usize, to: PrefetchTo) -> PrefetchOptions {
    PrefetchOptions::default().with_batches(batches).with_to(to)
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().iter::<f32>().collect()
}

/// Everything a batch shows.
fn shown(loader: &OceanLoader) -> Vec<Vec<f32>> {
    let batches = loader.iter().map(|batch| {
        let batch = batch.unwrap();
        let steps = 0..batch.steps();
        let inputs = steps.clone().map(|k| batch.input(k).unwrap());
        let boundaries = steps.clone().map(|k| batch.boundary(k));
        let labels = steps.map(|k| batch.label(k));
        inputs
            .chain(boundaries)
            .chain(labels)
            .flat_map(values)
            .collect()
    });
    batches.collect()
}

#[test]
fn the_kernel_equals_the_cpu_on_every_kind_of_value() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
        // Shuffled windows of 2 steps lie apart or overlap; sequential ones always overlap.
        for schedule in [Order::Sequential, Order::Shuffled] {
            let dataset = dataset_of(memory(), &options(order, 2));
            let on = |device: &Device, path: DevicePath| {
                let batcher = batcher(dataset.clone()).with_device_path(path);
                shown(&loader(
                    batcher,
                    schedule.clone(),
                    PrefetchOptions::default(),
                    device,
                ))
            };
            let cpu = on(&Device::flex(), DevicePath::Auto);
            assert!(cpu.iter().flatten().any(|&v| v == f32::MAX));
            assert!(cpu.iter().flatten().any(|&v| v == f32::MIN));
            for path in [DevicePath::Kernel, DevicePath::Operations] {
                assert_near(&on(&device, path), &cpu, &format!("{order:?} {path:?}"));
            }
        }
    }
}

/// Within the 3 ulp that a device's division may cost.
fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    let lengths = |of: &[Vec<f32>]| of.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(found), lengths(expected), "{what}");
    for (f, e) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!(ulps(*f, *e) <= 3, "{what}: expected {e}, found {f}");
    }
}

#[test]
fn labels_of_a_store_of_their_own_are_a_third_group_on_their_own_grid() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let label_shape = PlaneShape { ny: 3, nx: 13 };
    for (order, inputs) in [
        (MaskOrder::NormaliseFirst, Inputs::All),
        (MaskOrder::MaskFirst, Inputs::First),
    ] {
        let pair = OceanPair {
            input: ocean_of(memory()),
            label: Some(ocean_of(memory_of(label_shape))),
        };
        let steps = if inputs == Inputs::All { 2 } else { 1 };
        let options = options(order, steps).with_inputs(inputs);
        let dataset = OceanDataset::from_oceans(vec![pair], &options).unwrap();
        let on = |device: &Device, path: DevicePath| {
            let batcher = batcher(dataset.clone()).with_device_path(path);
            let loader = loader(batcher, Order::Shuffled, PrefetchOptions::default(), device);
            (shown(&loader), loader.counters())
        };
        let (cpu, _) = on(&Device::flex(), DevicePath::Auto);
        for path in [DevicePath::Kernel, DevicePath::Operations] {
            let (found, counters) = on(&device, path);
            assert_near(&found, &cpu, &format!("{order:?} {path:?}"));
            assert_eq!(counters.uploads, 3 * counters.batches, "one per read group");
        }
    }
}

#[test]
fn narrow_types_are_rounded_after_normalising_and_stay_finite() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    for precision in [Precision::F16, Precision::Bf16] {
        let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 1));
        let on = |device: &Device| {
            let batcher = batcher(dataset.clone()).with_precision(precision);
            let loader = loader(
                batcher,
                Order::Sequential,
                PrefetchOptions::default(),
                device,
            );
            let batch = loader.iter().next().unwrap().unwrap();
            let label = batch.label(0);
            assert_eq!(label.dtype(), DType::from(precision.dtype()));
            label.into_data().iter::<f32>().collect::<Vec<f32>>()
        };
        if om4_test_support::lacks(&device, precision) {
            continue;
        }
        let (cpu, found) = (on(&Device::flex()), on(&device));
        assert!(cpu.iter().all(|v| v.is_finite()));
        assert!(
            cpu.iter().any(|&v| v == precision.largest()),
            "the clamp is met"
        );
        let (step, smallest) = match precision {
            Precision::F16 => (half::f16::EPSILON.to_f32(), 2f32.powi(-24)),
            _ => (half::bf16::EPSILON.to_f32(), f32::MIN_POSITIVE),
        };
        for (f, c) in found.iter().zip(&cpu) {
            // 3 ulp of float32 move a value by one step of the narrow type at most.
            assert!(
                (f - c).abs() <= c.abs() * step + smallest,
                "{precision:?}: expected {c}, found {f}"
            );
        }
    }
}

#[test]
fn every_policy_delivers_the_same_batches_and_all_leases_come_home() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 2));
    let policies = [
        prefetch(0, PrefetchTo::Auto),
        prefetch(1, PrefetchTo::Host),
        prefetch(1, PrefetchTo::Device),
        prefetch(3, PrefetchTo::Device),
    ];
    let mut expected = None;
    for policy in policies {
        let loader = loader(batcher(dataset.clone()), Order::Shuffled, policy, &device);
        let found = shown(&loader);
        assert_eq!(
            &found,
            expected.get_or_insert_with(|| found.clone()),
            "{policy:?}"
        );
        assert_eq!(loader.batcher().host_pool().leased, 0, "{policy:?}");
        let counters = loader.counters();
        assert_eq!(
            counters.uploads,
            2 * counters.batches,
            "one copy per read group"
        );
    }
}

/// Lets as many reads through as it has been told to.
struct Gate<S> {
    inner: S,
    turnstile: Arc<Turnstile>,
}

#[derive(Default)]
struct Turnstile {
    state: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    allowed: usize,
    waiting: usize,
}

impl Turnstile {
    fn allow(&self, reads: usize) {
        self.state.lock().unwrap().allowed += reads;
        self.changed.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().waiting
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        state = self.changed.wait_while(state, |s| s.allowed == 0).unwrap();
        state.waiting -= 1;
        state.allowed -= 1;
    }
}

impl<S: PlaneSource> PlaneSource for Gate<S> {
    fn channels(&self) -> &[Channel] {
        self.inner.channels()
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn shape(&self) -> PlaneShape {
        self.inner.shape()
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        self.turnstile.pass();
        self.inner.read(request, sink)
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        self.inner.planned_chunks(request)
    }
}

/// Opens a turnstile for good when a test ends, also where it fails: a reader that waits for ever
/// would keep it from ending.
struct OpenAtLast(Arc<Turnstile>);

impl Drop for OpenAtLast {
    fn drop(&mut self) {
        self.0.allow(usize::MAX / 2);
    }
}

/// Waits for other threads to get there. A minute is a failure.
fn until(what: &str, reached: impl Fn() -> bool) {
    let asked = Instant::now();
    while !reached() {
        assert!(asked.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn while_one_batch_is_in_use_the_next_is_uploaded_and_the_one_after_is_read() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let turnstile = Arc::new(Turnstile::default());
    let source = Gate {
        inner: memory(),
        turnstile: turnstile.clone(),
    };
    let dataset = dataset_of(source, &options(MaskOrder::NormaliseFirst, 1));
    // Without carrying, every batch is two reads: one per read group.
    let prefetch = prefetch(3, PrefetchTo::Device).with_carry(0);
    let loader = loader(batcher(dataset), Order::Sequential, prefetch, &device);
    let uploads = || loader.counters().uploads;
    let mut iter = loader.iter();
    let at_last = OpenAtLast(turnstile.clone());

    turnstile.allow(2 + 2);
    let first = iter.next().unwrap().unwrap();
    until("batch 1 is uploaded", || uploads() == 4);
    until("batch 2 is being read", || turnstile.waiting() == 1);
    assert_eq!(loader.counters().batches, 1, "batch 0 is still in use");

    // Batch 2 waits in host memory: one batch is ahead on the device, not two.
    let planes = loader.counters().planes_read;
    turnstile.allow(2);
    until("batch 2 is read", || loader.counters().planes_read > planes);
    until("batch 2 waits in line", || turnstile.waiting() == 1);
    assert_eq!(uploads(), 4);
    let second = iter.next().unwrap().unwrap();
    until("batch 2 is uploaded", || uploads() == 6);
    assert_eq!(loader.counters().batches, 2);

    drop(at_last);
    assert_eq!(iter.count() as u64, loader.batches() - 2);
    drop((first, second));
    assert_home(&loader);
}

#[test]
fn a_batch_through_the_batcher_uses_the_same_lane() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let dataset = dataset_of(memory(), &options(MaskOrder::MaskFirst, 1));
    let batcher = batcher(dataset.clone()).with_device_path(DevicePath::Kernel);
    let windows = vec![dataset.window(3).unwrap(), dataset.window(9).unwrap()];
    let batch = batcher
        .try_batch(windows.clone(), &device.clone().autodiff())
        .unwrap();
    let cpu = OceanBatcher::new(dataset)
        .try_batch(windows, &Device::flex())
        .unwrap();
    for (f, c) in values(batch.label(0)).iter().zip(values(cpu.label(0))) {
        assert!(ulps(*f, c) <= 3, "expected {c}, found {f}");
    }
    assert_eq!(batcher.host_pool().leased, 0);
}

#[test]
fn a_device_that_cannot_serve_a_policy_is_refused_when_the_loader_is_made() {
    let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 1));
    let make = |batcher: OceanBatcher, prefetch: PrefetchOptions, device: &Device| {
        let schedule =
            Schedule::new(ScheduleOptions::default(), batcher.dataset().groups()).unwrap();
        OceanLoader::new(batcher, schedule, prefetch, device)
            .err()
            .map(|e| e.to_string())
    };
    let refused = |error: Option<String>| error.is_some_and(|e| e.contains("prefetch"));
    let plain = || OceanBatcher::new(dataset.clone());
    assert!(refused(make(
        plain(),
        prefetch(2, PrefetchTo::Device),
        &Device::flex()
    )));
    assert_eq!(
        make(plain(), prefetch(2, PrefetchTo::Auto), &Device::flex()),
        None
    );
    let kernel = make(
        plain().with_device_path(DevicePath::Kernel),
        PrefetchOptions::default(),
        &Device::flex(),
    );
    assert!(kernel.unwrap().contains("no upload thread"));
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    assert_eq!(
        make(plain(), prefetch(2, PrefetchTo::Device), &device),
        None
    );
    assert!(refused(make(
        plain(),
        prefetch(0, PrefetchTo::Device),
        &device
    )));
    let operations = plain().with_device_path(DevicePath::Operations);
    assert!(refused(make(
        operations,
        prefetch(2, PrefetchTo::Device),
        &device
    )));
}

#[test]
fn failures_arrive_in_their_place_and_leave_no_lease_behind() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    for fault in [Fault::ErrorAt(13), Fault::PanicAt(13)] {
        for to in [PrefetchTo::Host, PrefetchTo::Device] {
            let source = FaultySource::new(memory(), fault);
            let dataset = dataset_of(source, &options(MaskOrder::NormaliseFirst, 2));
            let loader = loader(
                batcher(dataset),
                Order::Sequential,
                prefetch(2, to),
                &device,
            );
            let results: Vec<_> = loader.iter().collect();
            assert_eq!(
                results.len(),
                3,
                "two good batches, then the failure, then the end"
            );
            assert!(results[..2].iter().all(|r| r.is_ok()) && results[2].is_err());
            drop(results);
            assert_home(&loader);
        }
    }
}

/// The read or the upload in flight may still have to end.
fn assert_home(loader: &OceanLoader) {
    let leased = || loader.batcher().host_pool().leased;
    until("all leases are home", || leased() == 0);
}

#[test]
fn memory_of_the_host_is_bounded_by_the_prefetch() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    for (batches, to) in [
        (1, PrefetchTo::Host),
        (2, PrefetchTo::Host),
        (2, PrefetchTo::Device),
    ] {
        let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 2));
        let loader = loader(
            batcher(dataset),
            Order::Sequential,
            prefetch(batches, to),
            &device,
        );
        for batch in loader.iter() {
            batch.unwrap();
        }
        let counters = loader.counters();
        let per_batch = (counters.bytes_uploaded / counters.batches) as usize;
        let peak = loader.batcher().host_pool().peak_bytes;
        assert!(
            peak <= (batches + 2) * per_batch,
            "{peak} bytes for batches of {per_batch}"
        );
    }
}

#[test]
fn a_thousand_batches_from_poisoned_buffers() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 1));
    let prefetch = prefetch(2, PrefetchTo::Device);
    let loader = loader(batcher(dataset), Order::Sequential, prefetch, &device);
    // Reading a tensor back is slow on software devices: one per batch, with planes of every row.
    let labels = || loader.iter().map(|b| values(b.unwrap().label(0)));
    let expected: Vec<_> = labels().collect();
    let mut batches = expected.len();
    while batches < 1000 {
        assert!(labels().eq(expected.iter().cloned()));
        batches += expected.len();
    }
    assert_home(&loader);
}

#[test]
fn the_timeline_has_all_lanes() {
    let Some(device) = om4_test_support::vulkan() else {
        return;
    };
    let dataset = dataset_of(memory(), &options(MaskOrder::NormaliseFirst, 1));
    let timeline = Timeline::start();
    let loader = loader(
        batcher(dataset),
        Order::Sequential,
        PrefetchOptions::default(),
        &device,
    )
    .with_timeline(&timeline);
    let batches = loader.iter().count();
    let json = timeline.to_json();
    let spans = |lane: &str| {
        let events = json["traceEvents"].as_array().unwrap().iter();
        events.filter(|e| e["cat"] == lane).count()
    };
    for lane in ["host read", "upload", "prepare", "model"] {
        assert_eq!(spans(lane), batches, "{lane}");
    }
}

#[test]
fn the_reference_is_the_arithmetic_of_the_host() {
    // Guards this file's own data: land, NaN, infinities and a deviation of 0 are all met.
    let preparation = Preparation {
        order: MaskOrder::NormaliseFirst,
        fill: -0.5,
    };
    let mut plane: Vec<f32> = (0..CELLS).map(|cell| value(4, 1, cell)).collect();
    preparation.prepare(&mut plane, &constants(1, SHAPE));
    assert!(plane.contains(&-0.5) && plane.contains(&0.0) && plane.contains(&f32::MAX));
}
