//! Small stores that people's reports led to: each opens and reads as it should, or is refused in words that
//! say why. What a store holds when it is read right lies beside it, and is compared bit for bit.

use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Statistics, Store};
use burn_om4::{
    Channel, DatasetOptions, Error, ErrorKind, OceanDataset, Om4Paths, Strictness, parse_channels,
};
use om4_test_support::inputs::{Right, unpack};
use om4_test_support::own_error;
use std::path::Path;

/// What is expected of one store.
struct Line {
    /// The archive, and the folder in it where it has several.
    folder: &'static str,
    outcome: Outcome,
    /// Words of which each is in a warning of the store or its statistics, or in a line of missing chunks.
    says: &'static [&'static str],
}

enum Outcome {
    /// Equal to what is right, strict and lenient.
    Reads,
    /// An error with these words, strict and lenient.
    Refused(&'static [&'static str]),
    /// An error with these words in strict mode; lenient it reads, whatever comes of it.
    RefusedStrictly(&'static [&'static str]),
}

const fn reads(folder: &'static str) -> Line {
    Line {
        folder,
        outcome: Outcome::Reads,
        says: &[],
    }
}

const fn refused(folder: &'static str, words: &'static [&'static str]) -> Line {
    Line {
        folder,
        outcome: Outcome::Refused(words),
        says: &[],
    }
}

const fn refused_strictly(folder: &'static str, words: &'static [&'static str]) -> Line {
    Line {
        folder,
        outcome: Outcome::RefusedStrictly(words),
        says: &[],
    }
}

impl Line {
    const fn saying(mut self, words: &'static [&'static str]) -> Self {
        self.says = words;
        self
    }
}

/// In the order of the archives' names.
#[rustfmt::skip]
const TABLE: &[Line] = &[
    reads("a01_append_first_time_zero").saying(&["array time, chunk", "a chunk is not there", "read as the fill value 0"]),
    reads("a02_land_tiles"),
    reads("a03_all_land_level"),
    reads("a04_one_level_at_zero"),
    refused("a05_junk_first_time", &["array time", "time row 0", "out of range"]),
    reads("a06_two_missing_values_v2").saying(&["named as missing"]),
    reads("a06c_fill_and_missing_differ").saying(&["named as missing"]),
    refused("a06d_fill_as_text", &["Metadata", "array ", "_FillValue", "\"1e20\""]),
    reads("a07_small_sentinel_v2").saying(&["named as missing", "-999.99"]),
    reads("a08_bitround_v2"),
    reads("a09_zstd_without_size"),
    reads("a10_shuffle_zlib_v2"),
    reads("a10b_shuffle_elementsize_text"),
    refused("a11_levels_from_the_bottom", &["array lev", "surface"]),
    reads("a12_calendars/00"),
    reads("a12_calendars/01"),
    reads("a12_calendars/02"),
    reads("a12_calendars/03"),
    reads("a12_calendars/04"),
    reads("a12_calendars/05"),
    reads("a12_calendars/06"),
    reads("a12_calendars/07"),
    reads("a12_calendars/08"),
    reads("a12_calendars/09"),
    reads("a12_calendars/10"),
    reads("a12_calendars/11"),
    reads("a12_calendars/12"),
    reads("a12_calendars/13"),
    reads("a12_calendars/14"),
    // cftime drops the zone; another one than UTC is not dropped here.
    refused("a12_calendars/15", &["array time", "UTC", "-6:00"]),
    // cftime drops the hour, others take it.
    refused("a12_calendars/16", &["array time", "hour without minutes"]),
    refused("a12_calendars/17", &["array time", "units", "%Y%m%d"]),
    reads("a12_calendars/18"),
    refused("a12_calendars/19", &["array time", "does not exist", "2001-02-29"]),
    refused("a12_calendars/20", &["array time", "calendar", "none"]),
    reads("a13_mask_with_missing_land/1e20").saying(&["mask mask_0", "missing cells"]),
    refused_strictly("a13_mask_with_missing_land/2", &["Values", "array mask_0", "wet and dry", "[2.0]"]).saying(&["[2.0]", "taken as wet"]),
    reads("a13_mask_with_missing_land/i1").saying(&["mask mask_0", "missing cells"]),
    reads("a13_mask_with_missing_land/m9999").saying(&["mask mask_0", "missing cells"]),
    reads("a13_mask_with_missing_land/nan").saying(&["mask mask_0", "missing cells"]),
    refused("a14_mixed_groups", &["array time", "both formats", "zarr.json", ".zgroup"]),
    reads("a15_no_dimension_names_v3").saying(&["dimensions without names"]),
    refused("a16_rectilinear", &["array zos", "rectilinear"]),
    reads("a17_fixedscaleoffset_v2"),
    refused("a17b_delta_v2", &["codec", "found delta"]),
    refused("a17d_lzma_bz2_v2", &["codec", "found lzma"]),
    reads("a18_float32_time"),
    refused("a19_time_missing/attr", &["Values", "array time", "time row", "missing", "-9999"]),
    refused("a19_time_missing/last", &["array time", "time row"]),
    refused("a19_time_missing/min", &["array time", "time row"]),
    refused("a19_time_missing/nan", &["array time", "time row"]),
    reads("a22_flipped_label_store/flipped"),
    reads("a22_flipped_label_store/in"),
    reads("a22_flipped_label_store/rolled"),
    reads("a25_zero_lat_fill_zero"),
    reads("a29_no_latitude"),
    reads("a30_areacello"),
    reads("b30_plain"),
    refused("e01_must_understand/array", &["array zos", "must be understood", "new_thing"]),
    reads("e01_must_understand/array_false"),
    refused("e01_must_understand/group", &["must be understood", "new_thing"]),
    reads("e01_must_understand/group_false"),
    reads("e02_boundary_with_digits"),
    reads("e03_company/broken_json_of_another").saying(&["junk is not used"]),
    reads("e03_company/datetime"),
    reads("e03_company/empty"),
    reads("e03_company/empty_json_of_another").saying(&["junk is not used"]),
    reads("e03_company/float16"),
    reads("e03_company/nested"),
    reads("e03_company/rectilinear").saying(&["other is not used", "rectilinear"]),
    reads("e03_company/scalar_string"),
    reads("e03_company/stray_files"),
    reads("e03_company/string"),
];

#[test]
fn every_store_reads_as_it_should_or_says_why_not() {
    let mut failures = Vec::new();
    let mut of_archive = TABLE.chunk_by(|a, b| archive(a) == archive(b));
    for lines in &mut of_archive {
        let Some(input) = unpack(archive(&lines[0])) else {
            return;
        };
        for line in lines {
            let inside = line.folder.split_once('/').map_or("", |(_, inside)| inside);
            if let Err(text) = check(line, &input.root.join(inside)) {
                failures.push(format!("{}: {text}", line.folder));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn a_boundary_takes_the_mask_of_the_surface_whatever_its_name() {
    let Some(input) = unpack("e02_boundary_with_digits") else {
        return;
    };
    let paths = Om4Paths::in_dir(&input.root);
    let channels = |names: &str| burn_om4::parse_channels(names).unwrap();
    let options = DatasetOptions::new(channels("thetao_1, zos"), channels("u_10"));
    let dataset = OceanDataset::open(&paths, &options).unwrap();
    let right = Right::read(&input.root);
    let context = dataset.context(0);
    assert_eq!(
        context.boundary_constants(0).wet.as_slice(),
        right.masks[&0]
    );
    // As a prognostic channel it would have to have one of its own.
    let options = DatasetOptions::new(channels("thetao_1, u_10"), channels("u_10"));
    let e = OceanDataset::open(&paths, &options).err().unwrap();
    assert!(e.to_string().contains("expected mask_10"), "{e}");
}

#[test]
fn the_table_is_in_order() {
    assert!(TABLE.is_sorted_by(|a, b| a.folder < b.folder));
}

/// Labels that lie elsewhere than inputs: refused by their coordinates.
#[test]
fn labels_turned_over_or_moved_are_refused() {
    let Some(input) = unpack("a22_flipped_label_store") else {
        return;
    };
    let paths = |folder: &str| Om4Paths::in_dir(input.root.join(folder));
    let options = DatasetOptions::new(
        parse_channels("zos").unwrap(),
        parse_channels("hfds").unwrap(),
    );
    let open = |labels| OceanDataset::open_with_labels(&paths("in"), &paths(labels), &options);
    open("in").unwrap();
    for (labels, words) in [
        ("flipped", "latitude of labels runs against"),
        ("rolled", "longitude of labels begins elsewhere"),
    ] {
        let e = open(labels).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Values, "{e}");
        assert!(e.to_string().contains(words), "{e}");
    }
}

/// Latitude and cell areas are for whoever weighs; without them the grid says so.
#[test]
fn a_store_without_latitude_cannot_weigh_its_cells() {
    let Some(input) = unpack("a29_no_latitude") else {
        return;
    };
    let paths = Om4Paths::in_dir(&input.root);
    let store = Store::open(&paths.data, &OpenOptions::default()).unwrap();
    let e = store.grid().cell_area_weights().unwrap_err().to_string();
    assert!(e.contains("areacello, lat or latitude"), "{e}");
}

fn archive(line: &Line) -> &'static str {
    line.folder.split('/').next().unwrap_or(line.folder)
}

fn check(line: &Line, dir: &Path) -> Result<(), String> {
    let right = Right::read(dir);
    let strict = read(dir, &right, Strictness::Strict);
    let lenient = read(dir, &right, Strictness::Lenient);
    match line.outcome {
        Outcome::Reads => {
            equal(&strict, &right, line.says).map_err(|e| format!("strict: {e}"))?;
            equal(&lenient, &right, line.says).map_err(|e| format!("lenient: {e}"))
        }
        Outcome::RefusedStrictly(words) => {
            fails(&strict, words).map_err(|e| format!("strict: {e}"))?;
            let read = lenient.as_ref().map_err(|e| format!("lenient: {e:?}"))?;
            said(read, line.says)
        }
        Outcome::Refused(words) => {
            fails(&strict, words).map_err(|e| format!("strict: {e}"))?;
            fails(&lenient, words).map_err(|e| format!("lenient: {e}"))
        }
    }
}

/// What was read, and what was said about it.
struct Found {
    right: Right,
    said: Vec<String>,
}

/// Reads what `right` has, and the statistics of its channels.
fn read(dir: &Path, right: &Right, strictness: Strictness) -> Result<Found, Error> {
    let channels = right.planes.keys().map(|name| name.parse());
    let channels: Vec<Channel> = channels.collect::<Result<_, _>>()?;
    let options = OpenOptions::default()
        .with_strictness(strictness)
        .with_channels(channels.clone());
    let paths = Om4Paths::in_dir(dir);
    let store = Store::open(&paths.data, &options)?;
    // Those of a channel that has only land are NaN: what is asked for is whether they can be read.
    let any = OpenOptions::default().with_strictness(strictness);
    let statistics = Statistics::open(&paths.means, &paths.stds, &any)?;
    let mut found = Right::default();
    for channel in &channels {
        let mut planes = Vec::new();
        for row in 0..store.rows() {
            planes.extend(store.read_plane(channel, row)?);
        }
        found.planes.insert(channel.name().to_owned(), planes);
    }
    for level in right.masks.keys() {
        let wet = store.wet_mask(*level)?.as_slice().to_vec();
        found.masks.insert(*level, wet);
    }
    // To the minute, which is what is written beside the stores.
    let minute = |row| store.time().label(row).chars().take(16).collect();
    found.times = (0..store.rows()).map(minute).collect();
    let said = [
        store.warnings(),
        statistics.warnings(),
        &store.missing_chunks(),
    ];
    Ok(Found {
        right: found,
        said: said.concat(),
    })
}

fn equal(found: &Result<Found, Error>, right: &Right, words: &[&str]) -> Result<(), String> {
    let found = found.as_ref().map_err(|e| format!("{e:?}"))?;
    if found.right.times != right.times {
        return Err(format!(
            "times {:?}, right {:?}",
            found.right.times, right.times
        ));
    }
    if found.right.masks != right.masks {
        return Err(format!(
            "masks {:?}, right {:?}",
            found.right.masks, right.masks
        ));
    }
    for (channel, planes) in &right.planes {
        let own = &found.right.planes[channel];
        if own.len() != planes.len() {
            return Err(format!(
                "{channel}: {} values, right {}",
                own.len(),
                planes.len()
            ));
        }
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        if let Some(at) = (0..own.len()).find(|&at| !same(own[at], planes[at])) {
            return Err(format!(
                "{channel} value {at}: {:?}, right {:?}",
                own[at], planes[at]
            ));
        }
    }
    said(found, words)
}

fn said(found: &Found, words: &[&str]) -> Result<(), String> {
    let all = found.said.join("\n");
    match words.iter().find(|word| !all.contains(*word)) {
        None => Ok(()),
        Some(word) => Err(format!("`{word}` is not said: {all}")),
    }
}

fn fails(found: &Result<Found, Error>, words: &[&str]) -> Result<(), String> {
    let Err(e) = found else {
        return Err("reads, but should not".to_owned());
    };
    let text = format!("{:?}", own_error(e));
    match words.iter().find(|word| !text.contains(*word)) {
        None => Ok(()),
        Some(word) => Err(format!("`{word}` is not said: {text}")),
    }
}
