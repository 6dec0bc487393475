//! What wet cells hold that they should not: said once with its place, counted the same on every way to
//! a device, and an error where it would spoil a training.

use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device, Tensor};
use burn_om4::dataset::{ChannelValues, OceanPair};
use burn_om4::ocean::{PlaneShape, WetMask};
use burn_om4::prepare::{ChannelConstants, DevicePath, OddCounts};
use burn_om4::synth::SynthOptions;
use burn_om4::testing::{MemorySource, ocean_on};
use burn_om4::{
    DatasetOptions, Error, ErrorKind, LoaderCounters, MaskOrder, OceanDataset, OceanLoader,
    Om4Paths, Om4Source, Precision, Strictness, Transfer, parse_channels,
};
use om4_test_support::inputs::unpack;
use om4_test_support::own_error;
use std::path::Path;
use std::sync::{Arc, Mutex};

const SHAPE: PlaneShape = PlaneShape { ny: 5, nx: 7 };
const ROWS: usize = 10;
const LAND: usize = 4;
const WET: usize = 28;
const INF: f32 = f32::INFINITY;

/// Cells in which the channel at a position has another value at a row; land is NaN throughout.
type Odd = &'static [(usize, usize, usize, f32)];

/// A prognostic channel `name`, and boundary channel hfds. Every fifth cell is land.
fn dataset(name: &str, odd: Odd, options: DatasetOptions) -> OceanDataset {
    let value = move |row: usize, channel: usize, cell: usize| {
        let here = odd
            .iter()
            .find(|(r, c, at, _)| (*r, *c, *at) == (row, channel, cell));
        match here {
            Some((.., value)) => *value,
            None if cell % 5 == LAND => f32::NAN,
            None => (row + channel + cell) as f32 * 0.5,
        }
    };
    let channels = parse_channels(&format!("{name}, hfds")).unwrap();
    let source = MemorySource::new(channels, ROWS, SHAPE, value);
    let wet: Vec<bool> = (0..SHAPE.cells()).map(|cell| cell % 5 != LAND).collect();
    assert_eq!(wet.iter().filter(|wet| **wet).count(), WET);
    let constants = ChannelConstants {
        mean: 5.0,
        std: 2.0,
        wet: Arc::new(WetMask::new(SHAPE, wet).unwrap()),
    };
    let input = ocean_on(source, vec![constants; 2]).unwrap();
    OceanDataset::from_oceans(vec![OceanPair { input, label: None }], &options).unwrap()
}

fn options(name: &str) -> DatasetOptions {
    let channels = |list: &str| parse_channels(list).unwrap();
    DatasetOptions::new(channels(name), channels("hfds"))
}

fn lenient(name: &str) -> DatasetOptions {
    options(name).with_strictness(Strictness::Lenient)
}

/// A way to a device.
#[derive(Clone, Copy, Debug)]
struct Way {
    path: DevicePath,
    transfer: Transfer,
    precision: Precision,
}

/// Every way: on the CPU, and where there is a Vulkan device by kernel and operations, raw and
/// prepared, in every element type.
fn ways() -> Vec<(Device, Way)> {
    let mut ways = Vec::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        let way = Way {
            path: DevicePath::Auto,
            transfer: Transfer::Raw,
            precision,
        };
        ways.push((Device::flex(), way));
        #[cfg(feature = "vulkan")]
        if let Some(device) = om4_test_support::vulkan()
            && device.supports_dtype(precision.dtype())
        {
            for path in [DevicePath::Kernel, DevicePath::Operations] {
                for transfer in [Transfer::Raw, Transfer::Prepared] {
                    let way = Way {
                        path,
                        transfer,
                        precision,
                    };
                    ways.push((device.clone(), way));
                }
            }
        }
    }
    ways
}

fn loader(dataset: OceanDataset, (device, way): &(Device, Way)) -> OceanLoader {
    OceanLoader::builder(dataset)
        .batch_size(2)
        .precision(way.precision)
        .transfer(way.transfer)
        .device_path(way.path)
        .build(device)
        .unwrap()
}

fn on_cpu(dataset: OceanDataset) -> OceanLoader {
    loader(dataset, &ways()[0])
}

/// The first failure of a pass, and how many batches came before it.
fn failure(loader: &OceanLoader) -> (usize, Error) {
    let mut batches = 0;
    for batch in loader.iter() {
        match batch {
            Ok(_) => batches += 1,
            Err(e) => {
                let e = own_error(&e);
                let copy = Error::new(e.kind(), e.to_string());
                let copy = copy.array(e.array_name().unwrap_or_default());
                return (batches, copy.row(e.time_row().unwrap_or(usize::MAX)));
            }
        }
    }
    panic!("no failure in {batches} batches");
}

fn counts(counters: &LoaderCounters) -> OddCounts {
    OddCounts {
        nan: counters.nan_in_ocean,
        infinite: counters.infinite_in_ocean,
        extreme: counters.extreme_in_ocean,
    }
}

fn floats(tensor: Tensor<4>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().iter::<f32>().collect()
}

const EVERYTHING: Odd = &[
    (2, 0, 0, f32::NAN),
    (2, 0, 1, f32::NAN),
    (2, 0, 4, INF), // land
    (3, 0, 7, INF),
    (3, 0, 8, -3e38),
    (3, 0, 9, 20_100.0), // land
    (5, 0, 8, f32::NAN),
    (6, 1, 34, 1e12), // land
    (7, 1, 33, 1e12),
    (7, 1, 32, 20_006.0),
    (7, 1, 31, 20_000.0), // 9997.5 deviations
];

/// Rows are read once in a pass, because neighbours carry them over; boundaries of the last two rows
/// are in no window.
#[test]
fn every_way_finds_the_same_cells_in_every_pass() {
    let expected = OddCounts {
        nan: 3,
        infinite: 1,
        extreme: 3,
    };
    for way in ways() {
        for order in [MaskOrder::NormaliseFirst, MaskOrder::MaskFirst] {
            let dataset = dataset(
                "thetao_0",
                EVERYTHING,
                lenient("thetao_0").with_mask_order(order),
            );
            let loader = loader(dataset.clone(), &way);
            let mut planes = OddCounts::default();
            for pass in 1..=2 {
                loader.iter().for_each(|batch| drop(batch.unwrap()));
                let found = counts(&loader.counters());
                // Batches share rows, and each counts what its own planes hold.
                assert!(
                    found.nan >= 3 * pass && found.infinite >= pass,
                    "{way:?} {found:?}"
                );
                if pass == 1 {
                    planes = found;
                }
                let each = [found.nan, found.infinite, found.extreme];
                let once = [planes.nan, planes.infinite, planes.extreme];
                assert_eq!(each, once.map(|n| n * pass), "{way:?}");
            }
            let [prognostic, boundary] = &dataset.values()[..] else {
                panic!("{way:?}: {:?}", dataset.values());
            };
            let mut total = prognostic.cells;
            total.add(&boundary.cells);
            assert_eq!(total, expected, "each plane once, {way:?}");
            let ChannelValues {
                planes,
                worst_row,
                worst,
                group,
                ..
            } = prognostic;
            assert_eq!(
                (*planes, *worst_row, *group),
                (3, 2, "prognostic"),
                "{way:?}"
            );
            assert_eq!((worst.nan, worst.infinite), (2, 0), "{way:?}");
            let text = boundary.to_string();
            for part in ["hfds", "boundary", "2 extreme", "row 7"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}

#[test]
fn counts_of_all_ways_agree() {
    let of_way = |way: &(Device, Way)| {
        let loader = loader(dataset("thetao_0", EVERYTHING, lenient("thetao_0")), way);
        loader.iter().for_each(|batch| drop(batch.unwrap()));
        counts(&loader.counters())
    };
    let ways = ways();
    let first = of_way(&ways[0]);
    for way in &ways {
        assert_eq!(of_way(way), first, "{way:?}");
    }
}

#[test]
fn an_infinity_in_a_wet_cell_is_an_error_with_its_place() {
    for way in ways() {
        for (value, text) in [(INF, "inf at"), (-INF, "-inf at")] {
            let odd: Odd = match value > 0.0 {
                true => &[(5, 0, 15, INF), (4, 0, 4, INF), (5, 0, 20, 1e20)],
                false => &[(5, 0, 15, -INF)],
            };
            let loader = loader(dataset("zos", odd, options("zos")), &way);
            // Windows 0 and 1 show rows 0 to 4.
            let (before, error) = failure(&loader);
            assert_eq!(
                (before, error.kind()),
                (1, ErrorKind::Values),
                "{way:?} {error}"
            );
            assert_eq!(
                (error.array_name(), error.time_row()),
                (Some("zos"), Some(5))
            );
            let words = error.to_string();
            for part in [text, "(y, x) = (2, 1)", "1 such cell"] {
                assert!(words.contains(part), "{way:?} {words}");
            }
        }
    }
}

#[test]
fn a_lenient_data_set_takes_the_largest_float_for_an_infinity() {
    let odd: Odd = &[(0, 0, 15, INF), (0, 0, 16, -INF)];
    for way in ways() {
        let loader = loader(dataset("zos", odd, lenient("zos")), &way);
        let batch = loader.iter().next().unwrap().unwrap();
        let input = floats(batch.input(0).unwrap());
        let largest = way.1.precision.largest();
        assert_eq!((input[15], input[16]), (largest, -largest), "{way:?}");
        assert_eq!(loader.counters().infinite_in_ocean, 2, "{way:?}");
    }
}

/// 8 of 28 wet cells of row 1.
const MANY: Odd = &[
    (1, 1, 0, f32::NAN),
    (1, 1, 1, f32::NAN),
    (1, 1, 2, f32::NAN),
    (1, 1, 3, f32::NAN),
    (1, 1, 5, f32::NAN),
    (1, 1, 6, f32::NAN),
    (1, 1, 7, f32::NAN),
    (1, 1, 8, f32::NAN),
];

#[test]
fn too_many_nan_in_a_plane_are_an_error_and_the_share_is_an_option() {
    for way in ways() {
        let try_with = |options: DatasetOptions| {
            let loader = loader(dataset("zos", MANY, options), &way);
            let batch = loader.iter().next().unwrap();
            batch.map(drop).map_err(|e| own_error(&e).to_string())
        };
        let error = try_with(options("zos")).unwrap_err();
        for part in ["NaN", "mask", "array hfds", "time row 1", "25 %", "8 of 28"] {
            assert!(error.contains(part), "{way:?} {error}");
        }
        try_with(options("zos").with_max_nan_share(8.0 / 28.0)).unwrap();
        try_with(options("zos").with_max_nan_share(7.5 / 28.0)).unwrap_err();
        try_with(options("zos").with_max_nan_share(1.0)).unwrap();
        try_with(lenient("zos").with_max_nan_share(0.0)).unwrap();
    }
    let one: Odd = &[(0, 0, 0, f32::NAN)];
    let strictest = on_cpu(dataset("zos", one, options("zos").with_max_nan_share(0.0)));
    for _ in 0..2 {
        let (before, error) = failure(&strictest);
        assert_eq!((before, error.time_row()), (0, Some(0)), "in every pass");
        strictest.batcher().dataset().values();
    }
    for share in [-0.1, 1.1, f64::NAN] {
        let dir = tempfile::tempdir().unwrap();
        let refused = OceanDataset::open(
            &Om4Paths::in_dir(dir.path()),
            &options("zos").with_max_nan_share(share),
        );
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Config);
    }
}

/// What was logged.
struct Logged(Mutex<Vec<String>>);

impl log::Log for Logged {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Warn {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

static LOGGED: Logged = Logged(Mutex::new(Vec::new()));

/// Warnings that name `array`.
fn logged(array: &str) -> Vec<String> {
    // Whoever is first sets it.
    let _ = log::set_logger(&LOGGED);
    log::set_max_level(log::LevelFilter::Warn);
    let logged = LOGGED.0.lock().unwrap();
    let name = format!("array {array},");
    logged
        .iter()
        .filter(|w| w.contains(&name))
        .cloned()
        .collect()
}

#[test]
fn every_kind_is_said_once_for_each_channel_with_its_first_place() {
    for (i, way) in ways().iter().enumerate() {
        let name = format!("said_{i}");
        assert_eq!(logged(&name), [""; 0]);
        let odd: Odd = &[
            (1, 0, 0, f32::NAN),
            (1, 0, 1, f32::NAN),
            (3, 0, 0, f32::NAN),
            (4, 0, 8, 1e12),
            (4, 0, 10, -3e38),
            (6, 0, 10, 1e12),
        ];
        let loader = loader(dataset(&name, odd, options(&name)), way);
        loader.iter().next().unwrap().unwrap();
        // The first batch shows rows 0 to 4, and the one read ahead may be read by now.
        let found = logged(&name);
        assert!(
            found[0].contains("time row 1: 2 of 28 wet cells are NaN"),
            "{way:?} {found:?}"
        );
        loader.iter().for_each(|batch| drop(batch.unwrap()));
        loader.iter().for_each(|batch| drop(batch.unwrap()));
        let found = logged(&name);
        let [nan, extreme] = &found[..] else {
            panic!("{way:?} {found:?}");
        };
        assert!(nan.contains("NaN") && !nan.contains("extreme"), "{nan}");
        for part in [
            "time row 4",
            "extreme: 2",
            "-3e38 at (y, x) = (1, 3)",
            "mean is 5",
        ] {
            assert!(extreme.contains(part), "{way:?} {extreme}");
        }
    }
}

const NY: usize = 6;
const NX: usize = 12;

/// A store whose chunks are as they lie in memory, one plane each.
fn store(dir: &Path) {
    SynthOptions::new(NY, NX)
        .with_levels(2)
        .with_rows(12)
        .write(dir)
        .unwrap();
}

fn stored() -> DatasetOptions {
    let channels = |list: &str| parse_channels(list).unwrap();
    DatasetOptions::new(channels("thetao_0, thetao_1, zos"), channels("hfds"))
}

fn invert_masks(dir: &Path) {
    for level in 0..2 {
        let chunk = dir.join(format!("OM4.zarr/mask_{level}/0.0"));
        let mut cells = std::fs::read(&chunk).unwrap();
        assert_eq!(cells.len(), NY * NX);
        cells.iter_mut().for_each(|cell| *cell = 1 - *cell);
        std::fs::write(&chunk, cells).unwrap();
    }
}

/// The first wet cell of a plane becomes `value`; returns where it is.
fn plant(dir: &Path, array: &str, row: usize, value: f32) -> usize {
    let chunk = dir.join(format!("OM4.zarr/{array}/{row}.0.0"));
    let mut bytes = std::fs::read(&chunk).unwrap();
    let mut cells = bytes.chunks_exact_mut(4).enumerate();
    let wet = |cell: &[u8]| f32::from_le_bytes(cell.try_into().unwrap()).is_finite();
    let (at, cell) = cells.find(|(_, cell)| wet(cell)).unwrap();
    cell.copy_from_slice(&value.to_le_bytes());
    std::fs::write(&chunk, bytes).unwrap();
    at
}

#[test]
fn inverted_masks_are_found_when_the_store_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let paths = Om4Paths::in_dir(dir.path());
    assert_eq!(
        OceanDataset::open(&paths, &stored())
            .unwrap()
            .warnings()
            .count(),
        0
    );
    invert_masks(dir.path());
    let error = OceanDataset::open(&paths, &stored()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Values);
    assert_eq!(
        (error.array_name(), error.time_row()),
        (Some("thetao_0"), Some(0))
    );
    for part in ["OM4.zarr", "inverted", "max_nan_share"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let source = Om4Source::new(paths.clone());
    let many = OceanDataset::open_many(std::slice::from_ref(&source), &[1, 2], &stored());
    assert_eq!(many.err().unwrap().kind(), ErrorKind::Values);
    let labels = OceanDataset::open_with_labels(&paths, &paths, &stored());
    assert_eq!(labels.err().unwrap().kind(), ErrorKind::Values);

    let lenient = stored().with_strictness(Strictness::Lenient);
    let opened = OceanDataset::open_many(&[source], &[1, 2], &lenient).unwrap();
    let warnings: Vec<&str> = opened.warnings().collect();
    // Both levels, and the boundary's surface; once, although there are two strides.
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, array) in warnings.iter().zip(["thetao_0", "thetao_1", "hfds"]) {
        let place = format!("OM4.zarr: array {array}, time row 0: ");
        assert!(
            warning.contains(&place) && warning.contains("are NaN"),
            "{warning}"
        );
    }
}

#[test]
fn what_a_store_holds_is_said_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let paths = Om4Paths::in_dir(dir.path());
    plant(dir.path(), "thetao_1", 0, f32::NAN);
    let at = plant(dir.path(), "zos", 4, INF);
    let dataset = OceanDataset::open(&paths, &stored()).unwrap();
    let warnings: Vec<&str> = dataset.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("array thetao_1, time row 0: 1 of "),
        "{warnings:?}"
    );
    for way in ways() {
        let (_, error) = failure(&loader(dataset.clone(), &way));
        assert_eq!(
            (error.array_name(), error.time_row()),
            (Some("zos"), Some(4))
        );
        let cell = format!("inf at (y, x) = ({}, {})", at / NX, at % NX);
        let words = error.to_string();
        assert!(
            words.contains("OM4.zarr") && words.contains(&cell),
            "{words}"
        );
    }
}

/// The first look is no reason to fail: the batch that wants the plane is.
#[test]
fn a_first_plane_that_cannot_be_read_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let chunk = dir.path().join("OM4.zarr/thetao_0/0.0.0");
    std::fs::write(&chunk, [0; 5]).unwrap();
    let dataset = OceanDataset::open(&Om4Paths::in_dir(dir.path()), &stored()).unwrap();
    let warnings: Vec<&str> = dataset.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["cannot be looked at", "thetao_0", "0.0.0"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    let (before, error) = failure(&on_cpu(dataset));
    assert_eq!((before, error.kind()), (0, ErrorKind::Corrupt));
}

/// The inputs' channels, from the folder of a store.
fn reported(dir: &Path, strictness: Strictness) -> burn_om4::Result<OceanDataset> {
    let channels = |list: &str| parse_channels(list).unwrap();
    let options = DatasetOptions::new(
        channels("thetao_0, thetao_1, thetao_2, zos"),
        channels("hfds"),
    )
    .with_strictness(strictness);
    OceanDataset::open(&Om4Paths::in_dir(dir), &options)
}

#[test]
fn one_infinite_or_extreme_cell_among_thousands_is_named() {
    let Some(input) = unpack("a20_infinite") else {
        return;
    };
    for way in ways() {
        let dataset = reported(&input.root.join("inf"), Strictness::Strict).unwrap();
        let (_, error) = failure(&loader(dataset, &way));
        assert_eq!(error.kind(), ErrorKind::Values, "{way:?} {error}");
        assert_eq!(
            (error.array_name(), error.time_row()),
            (Some("zos"), Some(5))
        );
        assert!(
            error.to_string().contains("inf at (y, x) = (1, 3)"),
            "{error}"
        );
        for extreme in ["1e12", "3e38"] {
            let dataset = reported(&input.root.join(extreme), Strictness::Strict).unwrap();
            let loader = loader(dataset.clone(), &way);
            loader.iter().for_each(|batch| drop(batch.unwrap()));
            let [found] = &dataset.values()[..] else {
                panic!("{way:?} {:?}", dataset.values());
            };
            assert_eq!(
                (found.channel.name(), found.worst_row),
                ("zos", 5),
                "{way:?}"
            );
            assert_eq!(
                (found.planes, found.cells.total(), found.cells.extreme),
                (1, 1, 1)
            );
        }
    }
}

#[test]
fn reported_inverted_masks_are_refused_before_training() {
    let Some(input) = unpack("a27_inverted_mask") else {
        return;
    };
    let error = reported(&input.root, Strictness::Strict).err().unwrap();
    assert_eq!(
        (error.kind(), error.time_row()),
        (ErrorKind::Values, Some(0))
    );
    assert!(error.to_string().contains("found 4 of 4"), "{error}");
    let lenient = reported(&input.root, Strictness::Lenient).unwrap();
    let warnings: Vec<&str> = lenient.warnings().collect();
    let nan = warnings.iter().filter(|w| w.contains("wet cells are NaN"));
    assert_eq!(
        nan.count(),
        4,
        "three levels and the boundary: {warnings:?}"
    );
}
