//! Reading planes and making batches, on small stores of its own. As a test, everything runs once.
//!
//! The stores fit the cache, so this tells one version from another. What reading costs at real
//! sizes, against the codecs alone, is measured by the program `om4`.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::host::HostPlanes;
use burn_om4::ocean::{PlaneRequest, PlaneSource};
use burn_om4::store::{OpenOptions, Store};
use burn_om4::synth::{Codec, Layout, SynthOptions};
use burn_om4::{
    DatasetOptions, OceanBatcher, OceanDataset, OceanLoader, Om4Paths, Order, PrefetchOptions,
    Schedule, ScheduleOptions, WindowOptions, parse_channels,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;

const NY: usize = 45;
const NX: usize = 90;
const ROWS: usize = 12;
const FORMS: [(&str, Layout, Codec); 4] = [
    ("flat-none", Layout::Flat, Codec::None),
    ("flat-blosc", Layout::Flat, Codec::BloscLz4),
    ("flat-zstd", Layout::Flat, Codec::Zstd),
    ("compact-blosc", Layout::CompactLevTime, Codec::BloscLz4),
];

fn write(dir: &Path, layout: Layout, codec: Codec) {
    let options = SynthOptions::new(NY, NX).with_levels(3).with_rows(ROWS);
    let options = options.with_layout(layout).with_codec(codec);
    options.write(dir).expect("a store can be written");
}

fn planes(c: &mut Criterion) {
    let mut group = c.benchmark_group("planes");
    for (name, layout, codec) in FORMS {
        let dir = tempfile::tempdir().expect("a temporary folder");
        write(dir.path(), layout, codec);
        let store = Store::open(dir.path().join("OM4.zarr"), &OpenOptions::default());
        let store = store.expect("the store opens");
        let rows: Vec<usize> = (0..ROWS).collect();
        let channels: Vec<usize> = (0..store.channels().len()).collect();
        let request = PlaneRequest {
            rows: &rows,
            channels: &channels,
        };
        let mut memory = vec![0.0; request.planes() * NY * NX];
        group.throughput(Throughput::Bytes((memory.len() * 4) as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                let counts = store.read(&request, &HostPlanes::new(&mut memory, NY * NX));
                black_box(counts.expect("the planes are there"))
            })
        });
    }
}

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("batches");
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), Layout::Flat, Codec::None);
    let channels = |text| parse_channels(text).expect("channels");
    let options = DatasetOptions::new(channels("thetao_0,thetao_1,so_0,zos"), channels("tau_hfds"))
        .with_window(WindowOptions::default().with_steps(2));
    let dataset = OceanDataset::open(&Om4Paths::in_dir(dir.path()), &options);
    let dataset = dataset.expect("the data set opens");
    for (name, order) in [
        ("shuffled", Order::Shuffled),
        ("sequential", Order::Sequential),
    ] {
        let spec = ScheduleOptions::default()
            .with_order(order)
            .with_batch_size(2);
        let schedule = Schedule::new(spec, dataset.groups()).expect("a schedule");
        let batcher = OceanBatcher::new(dataset.clone());
        let device = Device::flex();
        let loader = OceanLoader::new(batcher, schedule, PrefetchOptions::default(), &device);
        let loader = loader.expect("a loader");
        group.bench_function(name, |b| {
            b.iter_batched(
                || (),
                |()| {
                    loader
                        .iter()
                        .map(|b| b.expect("a batch").len())
                        .sum::<usize>()
                },
                BatchSize::PerIteration,
            )
        });
    }
}

criterion_group!(benches, planes, batches);
criterion_main!(benches);
