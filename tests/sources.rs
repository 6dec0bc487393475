//! Several sources and strides in one index space.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn_om4::dataset::OceanPair;
use burn_om4::ocean::PlaneShape;
use burn_om4::order::GroupOrder;
use burn_om4::synth::SynthOptions;
use burn_om4::testing::MemorySource;
use burn_om4::{
    DatasetOptions, ErrorKind, ModelBatch, OceanBatcher, OceanDataset, OceanLoader, Om4Paths,
    Om4Source, Order, PrefetchOptions, Schedule, ScheduleOptions, Window, WindowOptions,
    parse_channels,
};
use om4_test_support::memory::{memory_ocean, memory_options};
use std::collections::BTreeSet;
use std::path::Path;

/// An ocean whose every value is `number * 100 000 + row`, on a grid of `ny` rows.
fn pair(number: usize, ny: usize, days: Vec<i64>) -> OceanPair {
    let channels = ["thetao_0", "zos", "hfds"].map(|n| n.parse().unwrap());
    let shape = PlaneShape { ny, nx: 3 };
    let value = move |row, _, _| (number * 100_000 + row) as f32;
    let source = MemorySource::new(channels.into(), days.len(), shape, value);
    OceanPair {
        input: memory_ocean(source, days).unwrap(),
        label: None,
    }
}

fn daily(rows: i64) -> Vec<i64> {
    (0..rows).collect()
}

fn deliver(dataset: &OceanDataset, order: Order, batch_size: usize) -> Vec<ModelBatch> {
    let spec = ScheduleOptions::default()
        .with_order(order)
        .with_batch_size(batch_size);
    let schedule = Schedule::new(spec, dataset.groups()).unwrap();
    let batcher = OceanBatcher::new(dataset.clone());
    let prefetch = PrefetchOptions::default();
    let loader = OceanLoader::new(batcher, schedule, prefetch, &Device::flex()).unwrap();
    loader.iter().map(|b| b.unwrap()).collect()
}

/// The row each value of a tensor was read from, one per sample and time; the source is the same.
fn rows(tensor: burn::Tensor<4>, source: usize, times: usize) -> Vec<Vec<usize>> {
    let [samples, planes, ny, nx] = tensor.dims();
    let values: Vec<f32> = tensor.into_data().try_to_vec().unwrap();
    let (per_time, cells) = (planes / times, ny * nx);
    let row = |sample: usize, time: usize| {
        let first = (sample * planes + time * per_time) * cells;
        let values = &values[first..first + per_time * cells];
        assert!(values.iter().all(|v| *v == values[0]));
        (values[0] as usize).checked_sub(source * 100_000).unwrap()
    };
    (0..samples)
        .map(|s| (0..times).map(|t| row(s, t)).collect())
        .collect()
}

#[test]
fn windows_cross_no_source_and_no_gap() {
    // Source 0 lacks days 6 to 10; source 1 follows it at once; both under two strides.
    let gappy: Vec<i64> = (0..6).chain(11..20).collect();
    let pairs = [pair(0, 2, gappy), pair(1, 2, daily(9))];
    let strides = [1, 2];
    let dataset =
        OceanDataset::from_oceans_with_strides(&pairs, &strides, &memory_options(1)).unwrap();
    // A window spans 3 strides and 1 row: 4 or 7.
    let expected = [
        (0, vec![0, 1, 2, 6, 7, 8, 9, 10, 11]),
        (1, vec![0, 1, 2, 3, 4, 5]),
        (2, vec![6, 7, 8]),
        (3, vec![0, 1, 2]),
    ];
    let expected: Vec<Window> = expected
        .into_iter()
        .flat_map(|(source, starts)| {
            starts
                .into_iter()
                .map(move |start| Window { source, start })
        })
        .collect();
    let windows: Vec<Window> = (0..).map_while(|i| dataset.window(i)).collect();
    assert_eq!(windows, expected);
    assert_eq!(dataset.windows(), expected.len());
    assert_eq!(dataset.groups().len(), 4);

    let mut seen = BTreeSet::new();
    let shuffled = Order::Blocks { block: 2, pool: 3 };
    for order in [Order::Sequential, Order::Shuffled, shuffled] {
        seen.clear();
        for batch in deliver(&dataset, order, 4) {
            let Window { source, .. } = batch.windows()[0];
            let stride = strides[source / 2];
            assert_eq!(batch.context().window().stride, stride);
            let input = rows(batch.input(0).unwrap(), source % 2, 2);
            let boundary = rows(batch.boundary(0), source % 2, 2);
            let label = rows(batch.label(0), source % 2, 2);
            for (i, window) in batch.windows().iter().enumerate() {
                assert_eq!(window.source, source, "one source per batch");
                let w = window.start;
                assert_eq!(input[i], [w, w + stride]);
                assert_eq!(boundary[i], [w, w + stride]);
                assert_eq!(label[i], [w + 2 * stride, w + 3 * stride]);
                seen.insert((source, w));
            }
        }
        assert_eq!(seen.len(), expected.len(), "every window once");
    }
}

#[test]
fn groups_come_as_listed_or_by_grid() {
    // Grids of 4, 2 and 4 rows.
    let pairs = [
        pair(0, 4, daily(9)),
        pair(1, 2, daily(8)),
        pair(2, 4, daily(7)),
    ];
    let dataset = OceanDataset::from_oceans(pairs.to_vec(), &memory_options(1)).unwrap();
    let sources = |groups| {
        let order = Order::Samudra {
            shuffle: false,
            groups,
        };
        let batches = deliver(&dataset, order, 2);
        let mut sources: Vec<usize> = batches.iter().map(|b| b.windows()[0].source).collect();
        for batch in &batches {
            let ny = batch.input(0).unwrap().dims()[2];
            assert_eq!(ny, [4, 2, 4][batch.windows()[0].source]);
        }
        sources.dedup();
        sources
    };
    assert_eq!(sources(GroupOrder::FirstSeen), [0, 1, 2]);
    assert_eq!(sources(GroupOrder::Sorted), [1, 0, 2]);
}

fn write(dir: &Path, ny: usize, rows: usize) {
    SynthOptions::new(ny, 8)
        .with_levels(1)
        .with_rows(rows)
        .with_variables(&["thetao"], &["zos", "hfds"])
        .write(dir)
        .unwrap();
}

#[test]
fn stores_open_for_all_strides_with_labels_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let [coarse, fine, other] = ["coarse", "fine", "other"].map(|n| dir.path().join(n));
    write(&coarse, 4, 14);
    write(&fine, 6, 14);
    write(&other, 4, 10);
    let options = DatasetOptions::new(
        parse_channels("thetao_0,zos").unwrap(),
        parse_channels("hfds").unwrap(),
    )
    // The list of strides decides.
    .with_window(WindowOptions::default().with_stride(5));
    let sources = [
        Om4Source::new(Om4Paths::in_dir(&coarse)).with_labels(Om4Paths::in_dir(&fine)),
        Om4Source::new(Om4Paths::in_dir(&other)),
    ];
    let text = serde_json::to_string(&sources).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<Om4Source>>(&text).unwrap(),
        sources
    );
    let dataset = OceanDataset::open_many(&sources, &[2, 1], &options).unwrap();
    // Stride 2 spans 7 rows, stride 1 spans 4.
    let windows = [8, 4, 11, 7];
    let of_source = |s| {
        (0..dataset.windows())
            .filter(|i| dataset.window(*i).unwrap().source == s)
            .count()
    };
    assert_eq!([0, 1, 2, 3].map(of_source), windows);
    let batches = deliver(&dataset, Order::Shuffled, 3);
    assert_eq!(batches.iter().map(|b| b.len()).sum::<usize>(), 30);
    for batch in &batches {
        let own = batch.windows()[0].source % 2 == 0;
        assert_eq!(batch.context().has_own_labels(), own);
        assert_eq!(batch.input(0).unwrap().dims()[2], 4);
        assert_eq!(batch.label(0).dims()[2], if own { 6 } else { 4 });
    }

    // Another order of strides is another data set.
    let turned = OceanDataset::open_many(&sources, &[1, 2], &options).unwrap();
    assert!(turned.fingerprint().check(dataset.fingerprint()).is_err());
    for (sources, strides, word) in [
        (&sources[..], &[][..], "stride"),
        (&[][..], &[1][..], "source"),
        (&sources[..], &[1, 0][..], "stride"),
        (&sources[..], &[1, 9][..], "no window fits"),
    ] {
        let error = OceanDataset::open_many(sources, strides, &options)
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(word), "{error}");
    }
}
