//! Synthetic stores, read back with nothing but zarrs and JSON.

mod fields;
mod forms;
mod metadata;
mod writing;

use burn_om4::Channel;
use burn_om4::synth::{Field, Layout, SynthOptions, Waves};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use zarrs::array::{Array, ElementOwned};
use zarrs::filesystem::FilesystemStore;

const NY: usize = 5;
const NX: usize = 7;
const LEVELS: usize = 3;
const ROWS: usize = 4;
const PLANE: usize = NY * NX;

const LAYOUTS: [Layout; 4] = [
    Layout::Flat,
    Layout::FlatDepthNames,
    Layout::CompactLevTime,
    Layout::CompactTimeLev,
];

fn small() -> SynthOptions {
    SynthOptions::new(NY, NX)
        .with_levels(LEVELS)
        .with_rows(ROWS)
        .with_seed(7)
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn read<T: ElementOwned>(store: &Path, name: &str) -> (Vec<u64>, Vec<T>) {
    let storage = Arc::new(FilesystemStore::new(store).unwrap());
    let array = Array::open(storage, &format!("/{name}")).unwrap();
    let values = array.retrieve_array_subset(&array.subset_all()).unwrap();
    (array.shape().to_vec(), values)
}

fn document(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Every plane of a store by channel and row, whatever its layout.
fn planes(
    store: &Path,
    options: &SynthOptions,
    layout: Layout,
) -> BTreeMap<(String, usize), Vec<f32>> {
    let depth_names = ["2_5", "10_0", "22_5"];
    let mut out = BTreeMap::new();
    for channel in options.channels() {
        let level = channel.level();
        let stacked =
            level.filter(|_| matches!(layout, Layout::CompactLevTime | Layout::CompactTimeLev));
        let name = match (layout, level) {
            (Layout::Flat, _) | (_, None) => channel.name().to_string(),
            (Layout::FlatDepthNames, Some(k)) => {
                format!("{}_lev_{}", channel.variable(), depth_names[k])
            }
            _ => channel.variable().to_string(),
        };
        let (shape, values) = read::<f32>(store, &name);
        let (rows, levels, plane) = (ROWS as u64, LEVELS as u64, [NY as u64, NX as u64]);
        let expected = match (layout, stacked) {
            (_, None) => vec![rows],
            (Layout::CompactLevTime, _) => vec![levels, rows],
            _ => vec![rows, levels],
        };
        assert_eq!(shape, [expected, plane.to_vec()].concat(), "{name}");
        for row in 0..ROWS {
            let at = match (layout, stacked) {
                (_, None) => row,
                (Layout::CompactLevTime, Some(k)) => k * ROWS + row,
                (_, Some(k)) => row * LEVELS + k,
            };
            let key = (channel.name().to_string(), row);
            out.insert(key, values[at * PLANE..(at + 1) * PLANE].to_vec());
        }
    }
    out
}

fn expected_plane(waves: &mut Waves, channel: &Channel, row: usize) -> Vec<f32> {
    let mut out = vec![0.0; PLANE];
    waves.plane(channel, row, &mut out);
    for (i, value) in out.iter_mut().enumerate() {
        if !waves.is_ocean(channel.mask_level(), i / NX, i % NX) {
            *value = f32::NAN;
        }
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check_values(store: &Path, options: &SynthOptions, layout: Layout, form: &str) {
    let found = planes(store, options, layout);
    let mut waves = options.waves();
    for channel in options.channels() {
        for row in 0..ROWS {
            let expected = expected_plane(&mut waves, &channel, row);
            let found = &found[&(channel.name().to_string(), row)];
            assert_eq!(bits(found), bits(&expected), "{form}: {channel} row {row}");
        }
    }
}
