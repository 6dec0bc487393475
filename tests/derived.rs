//! Channels that a store lacks and that are derived: against an independent computation over planes in
//! memory (the batches of the original are in `fixtures`), in every form of store, kept and found
//! again.

use burn_om4::dataset::Ocean;
use burn_om4::ocean::{Calendar, PlaneRequest};
use burn_om4::store::{OpenOptions, Store};
use burn_om4::synth::{Chunking, Codec, Format, Layout, SynthOptions};
use burn_om4::testing::check_source;
use burn_om4::{
    Channel, DatasetOptions, DeriveOptions, ErrorKind, OceanDataset, Om4Paths, Strictness,
    WindowOptions, parse_channels,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const ROWS: usize = 4 * 73;

/// Four years, so that most days of the year come more than once, and some after a leap day.
fn store() -> SynthOptions {
    SynthOptions::new(8, 10)
        .with_levels(2)
        .with_rows(ROWS)
        .with_variables(&["thetao"], &["zos", "hfds"])
}

fn channel(name: &str) -> Channel {
    name.parse().unwrap()
}

fn open(dir: &Path, channels: &str, derive: DeriveOptions) -> burn_om4::Result<Ocean> {
    let options = OpenOptions::default().with_derive(derive);
    Ocean::open(
        &Om4Paths::in_dir(dir),
        &parse_channels(channels).unwrap(),
        &options,
    )
}

fn plane(ocean: &Ocean, channel: &Channel, row: usize) -> Vec<f32> {
    let position = ocean.planes.channels().iter().position(|c| c == channel);
    let mut memory = vec![0.0; ocean.planes.shape().cells()];
    let sink = burn_om4::host::HostPlanes::new(&mut memory, ocean.planes.shape().cells());
    let request = PlaneRequest {
        rows: &[row],
        channels: &[position.unwrap()],
    };
    ocean.planes.read(&request, &sink).unwrap();
    drop(sink);
    memory
}

/// NumPy's sum (up to 2.2) of a contiguous float32 array.
fn numpy_sum(values: &[f32]) -> f32 {
    let buffers = values.chunks(8192).map(pairwise);
    buffers.fold(0.0, |sum, buffer| sum + buffer)
}

fn pairwise(values: &[f32]) -> f32 {
    if values.len() > 128 {
        let half = values.len() / 2;
        let (first, second) = values.split_at(half - half % 8);
        return pairwise(first) + pairwise(second);
    }
    if values.len() < 8 {
        return values.iter().fold(0.0, |sum, v| sum + v);
    }
    let whole = values.len() - values.len() % 8;
    let mut r = [0.0f32; 8];
    r.copy_from_slice(&values[..8]);
    for (i, value) in values[8..whole].iter().enumerate() {
        r[i % 8] += value;
    }
    let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    values[whole..].iter().fold(sum, |sum, v| sum + v)
}

/// What NumPy makes of a field `(time, cell)`: anomalies, their mean and their deviation.
fn expected(field: &[Vec<f32>], days: &[u16]) -> (Vec<Vec<f32>>, f32, f32) {
    let mut anomalies = field.to_vec();
    for day in days {
        let rows: Vec<usize> = (0..field.len()).filter(|r| days[*r] == *day).collect();
        for cell in 0..field[0].len() {
            let there = rows.iter().map(|r| field[*r][cell]);
            let there: Vec<f32> = there.filter(|v| !v.is_nan()).collect();
            let sum = there.iter().fold(0.0f32, |sum, v| sum + v);
            let mean = (f64::from(sum) / there.len() as f64) as f32;
            for row in &rows {
                anomalies[*row][cell] = field[*row][cell] - mean;
            }
        }
    }
    let flat: Vec<f32> = anomalies.iter().flatten().copied().collect();
    let count = flat.iter().filter(|v| !v.is_nan()).count() as f64;
    let of = |f: &dyn Fn(f32) -> f32| {
        let there = |v: &f32| if v.is_nan() { 0.0 } else { f(*v) };
        let terms: Vec<f32> = flat.iter().map(there).collect();
        (f64::from(numpy_sum(&terms)) / count) as f32
    };
    let mean = of(&|v| v);
    let std = of(&|v| (v - mean) * (v - mean)).sqrt();
    (anomalies, mean, std)
}

fn same_bits(found: &[f32], expected: &[f32], what: &str) {
    let bits = |values: &[f32]| -> Vec<Option<u32>> {
        let there = |v: &f32| (!v.is_nan()).then(|| v.to_bits());
        values.iter().map(there).collect()
    };
    assert_eq!(bits(found), bits(expected), "{what}");
}

/// Checks a derived channel of an ocean against its base in the store; the anomalies.
fn check(dir: &Path, ocean: &Ocean, base: &str, what: &str) -> Vec<Vec<f32>> {
    let store = Store::open(dir.join("OM4.zarr"), &OpenOptions::default()).unwrap();
    let rows = 0..store.time().len();
    let read = |row| store.read_plane(&channel(base), row).unwrap();
    let field: Vec<Vec<f32>> = rows.clone().map(read).collect();
    let days: Vec<u16> = rows.clone().map(|r| store.time().day_of_year(r)).collect();
    let (anomalies, mean, std) = expected(&field, &days);
    let derived = channel(&format!("{base}_anomalies"));
    for row in rows {
        same_bits(&plane(ocean, &derived, row), &anomalies[row], what);
    }
    let found = &ocean.channels[&derived];
    same_bits(
        &[found.constants.mean, found.constants.std],
        &[mean, std],
        what,
    );
    assert_eq!(found.unit.as_deref(), store.unit(&channel(base)), "{what}");
    anomalies
}

#[test]
fn anomalies_have_the_bits_of_numpy_in_every_calendar() {
    let calendars = [
        Calendar::Julian,
        Calendar::Standard,
        Calendar::NoLeap,
        Calendar::AllLeap,
        Calendar::Day360,
    ];
    for calendar in calendars {
        let dir = tempfile::tempdir().unwrap();
        store().with_calendar(calendar).write(dir.path()).unwrap();
        let ocean = open(dir.path(), "hfds_anomalies", DeriveOptions::default()).unwrap();
        let what = calendar.name();
        let anomalies = check(dir.path(), &ocean, "hfds", what);
        let land = anomalies[0].iter().filter(|v| v.is_nan()).count();
        assert!(0 < land && land < anomalies[0].len(), "{what}");
    }
}

#[test]
fn a_missing_value_of_the_base_is_missing_and_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    store().write(dir.path()).unwrap();
    // All rows of one day lack a cell, one row of another day does.
    let store = Store::open(dir.path().join("OM4.zarr"), &OpenOptions::default()).unwrap();
    let day = |row| store.time().day_of_year(row);
    let wet = store.wet_mask(0).unwrap();
    let cell = wet.as_slice().iter().position(|wet| *wet).unwrap();
    let rows = (0..store.time().len()).filter(|r| day(*r) == day(7));
    for row in rows.chain([20]) {
        let path = dir.path().join(format!("OM4.zarr/hfds/{row}.0.0"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[4 * cell..4 * cell + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        fs::write(&path, bytes).unwrap();
    }
    let ocean = open(dir.path(), "hfds_anomalies", DeriveOptions::default()).unwrap();
    let anomalies = check(dir.path(), &ocean, "hfds", "NaN in the ocean");
    assert!(anomalies[7][cell].is_nan() && anomalies[20][cell].is_nan());
    let other = (0..anomalies.len()).find(|r| *r != 20 && day(*r) == day(20));
    assert!(!anomalies[other.unwrap()][cell].is_nan());
}

#[test]
fn every_form_of_store_keeps_the_contract_and_reads_a_chunk_once() {
    let forms = [
        store(),
        store()
            .with_codec(Codec::BloscLz4)
            .with_chunking(Chunking::Rows(5)),
        store().with_layout(Layout::FlatDepthNames),
        store()
            .with_layout(Layout::CompactLevTime)
            .with_codec(Codec::Zstd),
        store()
            .with_layout(Layout::CompactTimeLev)
            .with_chunking(Chunking::Rows(3)),
        store()
            .with_format(Format::V3)
            .with_chunking(Chunking::Shards(4)),
    ];
    let names = "thetao_0, hfds, thetao_1, thetao_1_anomalies, zos, hfds_anomalies";
    for form in forms {
        let dir = tempfile::tempdir().unwrap();
        form.write(dir.path()).unwrap();
        let ocean = open(dir.path(), names, DeriveOptions::default()).unwrap();
        let what = format!("{form:?}");
        check(dir.path(), &ocean, "hfds", &what);
        check(dir.path(), &ocean, "thetao_1", &what);
        let planes = &*ocean.planes;
        check_source(planes).unwrap_or_else(|e| panic!("{what}: {e:?}"));

        let at = |names: &str| -> Vec<usize> {
            let wanted = parse_channels(names).unwrap();
            let position = |c: &Channel| planes.channels().iter().position(|p| p == c).unwrap();
            wanted.iter().map(position).collect()
        };
        let planned = |names: &str| {
            let channels = at(names);
            let request = PlaneRequest {
                rows: &[2, 3, 9],
                channels: &channels,
            };
            planes.planned_chunks(&request).unwrap()
        };
        assert_eq!(
            planned("hfds, thetao_1, thetao_1_anomalies, hfds_anomalies"),
            planned("hfds, thetao_1"),
            "{what}"
        );
        assert_eq!(planned("hfds_anomalies"), planned("hfds"), "{what}");
    }
}

#[test]
fn what_the_store_holds_is_not_derived() {
    let dir = tempfile::tempdir().unwrap();
    store()
        .with_variables(&["thetao"], &["hfds", "hfds_anomalies"])
        .write(dir.path())
        .unwrap();
    let told = Told::default();
    let ocean = open(dir.path(), "hfds, hfds_anomalies", told.options(None)).unwrap();
    assert_eq!(told.read(), 0);
    let derived = channel("hfds_anomalies");
    let store = Store::open(dir.path().join("OM4.zarr"), &OpenOptions::default()).unwrap();
    let held = store.read_plane(&derived, 5).unwrap();
    same_bits(&plane(&ocean, &derived, 5), &held, "as it is in the store");

    // Held by the store and not by its statistics: no other numbers are made up.
    fs::remove_dir_all(dir.path().join("OM4_stds.zarr/hfds_anomalies")).unwrap();
    let e = open(dir.path(), "hfds_anomalies", DeriveOptions::default());
    let e = e.err().unwrap();
    assert_eq!(
        (e.kind(), e.array_name()),
        (ErrorKind::Metadata, Some("hfds_anomalies"))
    );
}

#[test]
fn what_cannot_be_derived_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    store()
        .with_variables(&["thetao"], &["zos"])
        .write(dir.path())
        .unwrap();
    let e = open(dir.path(), "hfds_anomalies", DeriveOptions::default());
    let e = e.err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Metadata);
    assert!(e.to_string().contains("channel hfds_anomalies"), "{e}");
}

#[test]
fn a_year_of_single_days_has_no_deviation() {
    let dir = tempfile::tempdir().unwrap();
    store().with_rows(73).write(dir.path()).unwrap();
    let e = open(dir.path(), "hfds_anomalies", DeriveOptions::default());
    let e = e.err().unwrap();
    assert_eq!(
        (e.kind(), e.array_name()),
        (ErrorKind::Values, Some("hfds_anomalies"))
    );
    assert!(e.store_path().unwrap().ends_with("OM4.zarr"), "{e}");
    let options = OpenOptions::default().with_strictness(Strictness::Lenient);
    let wanted = [channel("hfds_anomalies")];
    let ocean = Ocean::open(&Om4Paths::in_dir(dir.path()), &wanted, &options).unwrap();
    assert_eq!(ocean.channels[&wanted[0]].constants.std, 0.0);
}

#[test]
fn a_slice_of_time_has_the_anomalies_of_the_whole_store() {
    let dir = tempfile::tempdir().unwrap();
    store().write(dir.path()).unwrap();
    let boundary = parse_channels("hfds, hfds_anomalies").unwrap();
    let options = DatasetOptions::new(parse_channels("zos").unwrap(), boundary)
        .with_window(WindowOptions::default().with_history(0));
    let paths = Om4Paths::in_dir(dir.path());
    let constants = |options: &DatasetOptions| {
        let dataset = OceanDataset::open(&paths, options).unwrap();
        let constants = dataset.context(0).boundary_constants(1);
        (constants.mean, constants.std)
    };
    let slice = options
        .clone()
        .with_time("1959-02-01..1959-06-30".parse().unwrap());
    assert_eq!(constants(&slice), constants(&options));
}

/// How far a computation says it is.
#[derive(Clone, Default)]
struct Told(Arc<AtomicU64>);

impl Told {
    fn options(&self, cache: Option<&Path>) -> DeriveOptions {
        let last = self.0.clone();
        let options = DeriveOptions::default().with_progress(move |channel, read, of| {
            assert_eq!((channel, of), ("hfds_anomalies", 3 * ROWS as u64));
            assert!(last.swap(read, Ordering::Relaxed) < read && read <= of);
        });
        match cache {
            Some(folder) => options.with_cache(folder),
            None => options,
        }
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every file below a folder, and when it was changed.
fn files(dir: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => {
                found.insert(entry.path(), entry.metadata().unwrap().modified().unwrap());
            }
        }
    }
    found
}

#[test]
fn a_climatology_is_kept_beside_the_run_and_computed_again_when_the_store_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (data, cache) = (dir.path().join("data"), dir.path().join("run/derived"));
    store().write(&data).unwrap();
    let before = files(&data);
    let all = 3 * ROWS as u64;
    let derived = channel("hfds_anomalies");
    let opened = |expected: u64| -> Ocean {
        let told = Told::default();
        let ocean = open(&data, "hfds_anomalies", told.options(Some(&cache))).unwrap();
        assert_eq!(told.read(), expected);
        ocean
    };
    let first = opened(all);
    assert_eq!(first.warnings, [""; 0]);
    assert_eq!(files(&data), before, "nothing is written to the store");
    assert_eq!(files(&cache).len(), 1);
    let second = opened(0);
    let numbers = |o: &Ocean| {
        let constants = &o.channels[&derived].constants;
        (constants.mean, constants.std)
    };
    assert_eq!(numbers(&second), numbers(&first));
    for row in [0, 100, 291] {
        let expected = plane(&first, &derived, row);
        same_bits(&plane(&second, &derived, row), &expected, "kept");
    }

    // A damaged file is said, and replaced.
    let kept = files(&cache).into_keys().next().unwrap();
    let mut bytes = fs::read(&kept).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&kept, bytes).unwrap();
    let third = opened(all);
    let [warning] = &third.warnings[..] else {
        panic!("{:?}", third.warnings);
    };
    assert!(warning.contains(kept.to_str().unwrap()), "{warning}");
    assert!(warning.contains("digest"), "{warning}");
    assert_eq!(numbers(&third), numbers(&first));
    opened(0);

    // Somebody writes one chunk of the base again: the same size, other values, another time.
    let chunk = data.join("OM4.zarr/hfds/30.0.0");
    let changed = fs::read(&chunk).unwrap();
    let changed: Vec<u8> = changed.chunks(4).rev().flatten().copied().collect();
    fs::write(&chunk, changed).unwrap();
    let later = before[&chunk] + Duration::from_secs(1);
    let file = fs::File::options().write(true).open(&chunk).unwrap();
    file.set_modified(later).unwrap();
    let fourth = opened(all);
    assert_ne!(numbers(&fourth), numbers(&first));
    check(&data, &fourth, "hfds", "a changed store");
    opened(0);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    store().write(dir.path()).unwrap();
    let file = dir.path().join("a file");
    fs::write(&file, "").unwrap();
    let derive = DeriveOptions::default().with_cache(&file);
    let ocean = open(dir.path(), "hfds_anomalies", derive).unwrap();
    let said = ocean.warnings.join("\n");
    assert!(said.contains("cannot write the climatology"), "{said}");
    assert!(said.contains("computed again"), "{said}");
    check(dir.path(), &ocean, "hfds", "without its file");
}
