//! What is asked of a field, and the masks and statistics that follow from it.

use crate::{LAYOUTS, LEVELS, NX, NY, PLANE, ROWS, dir, expected_plane, read, small};
use burn_om4::Channel;
use burn_om4::synth::{
    Chunking, Codec, Field, Format, Land, Layout, MaskType, SynthOptions, field,
};

#[test]
fn masks_say_where_the_ocean_is() {
    let ones = |options: &SynthOptions| -> Vec<Vec<u8>> {
        let waves = options.waves();
        let cell = |k, i: usize| u8::from(waves.is_ocean(k, i / NX, i % NX));
        (0..LEVELS)
            .map(|k| (0..PLANE).map(|i| cell(k, i)).collect())
            .collect()
    };
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            for masks in [MaskType::Int8, MaskType::Bool] {
                let dir = dir();
                let options = small()
                    .with_layout(layout)
                    .with_format(format)
                    .with_masks(masks);
                options.write(&dir).unwrap();
                let store = dir.path().join("OM4.zarr");
                let read_mask = |name: &str| -> Vec<u8> {
                    match masks {
                        MaskType::Int8 => read::<i8>(&store, name)
                            .1
                            .iter()
                            .map(|v| *v as u8)
                            .collect(),
                        MaskType::Bool => read::<bool>(&store, name)
                            .1
                            .iter()
                            .map(|v| u8::from(*v))
                            .collect(),
                    }
                };
                let expected = ones(&options);
                if layout == Layout::Flat {
                    assert!(!store.join("wetmask").exists());
                    for (k, expected) in expected.iter().enumerate() {
                        assert_eq!(&read_mask(&format!("mask_{k}")), expected);
                    }
                } else {
                    assert!(!store.join("mask_0").exists());
                    assert_eq!(read_mask("wetmask"), expected.concat());
                }
            }
        }
    }
}

/// Mean and population standard deviation of the ocean cells, the slow and plain way.
fn moments(options: &SynthOptions, channel: &Channel) -> (f64, f64) {
    let mut waves = options.waves();
    let values: Vec<f64> = (0..ROWS)
        .flat_map(|row| expected_plane(&mut waves, channel, row))
        .filter(|v| !v.is_nan())
        .map(f64::from)
        .collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[test]
fn statistics_are_masked_and_by_name() {
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            let dir = dir();
            // Values on land must not count.
            let options = small()
                .with_layout(layout)
                .with_format(format)
                .with_codec(Codec::Zstd)
                .with_land(Land::AsGiven);
            options.write(&dir).unwrap();
            let statistic = |store: &str, channel: &Channel| -> f64 {
                let store = dir.path().join(store);
                let compact = matches!(layout, Layout::CompactLevTime | Layout::CompactTimeLev);
                let (name, at) = match (layout, channel.level()) {
                    (Layout::FlatDepthNames, Some(k)) => {
                        let depth = ["2_5", "10_0", "22_5"][k];
                        (format!("{}_lev_{depth}", channel.variable()), 0)
                    }
                    (_, Some(k)) if compact => (channel.variable().to_string(), k),
                    _ => (channel.name().to_string(), 0),
                };
                let (shape, values) = read::<f32>(&store, &name);
                let expected = if compact && channel.level().is_some() {
                    vec![3]
                } else {
                    vec![]
                };
                assert_eq!(shape, expected);
                values[at].into()
            };
            for channel in options.channels() {
                let (mean, std) = moments(&options, &channel);
                let found = statistic("OM4_means.zarr", &channel);
                assert!(
                    (found - mean).abs() <= 1e-6 * mean.abs().max(std),
                    "{channel}: {found} {mean}"
                );
                let found = statistic("OM4_stds.zarr", &channel);
                assert!(
                    std > 0.0 && (found / std - 1.0).abs() < 1e-6,
                    "{channel}: {found} {std}"
                );
            }
        }
    }
    // Of the flat layout's masks: the share of ocean, over all cells.
    let dir = dir();
    let options = small();
    options.write(&dir).unwrap();
    let waves = options.waves();
    let ocean = (0..PLANE)
        .filter(|i| waves.is_ocean(1, i / NX, i % NX))
        .count();
    let share = ocean as f64 / PLANE as f64;
    let means = read::<f64>(&dir.path().join("OM4_means.zarr"), "mask_1").1;
    let stds = read::<f64>(&dir.path().join("OM4_stds.zarr"), "mask_1").1;
    assert!((means[0] - share).abs() < 1e-12);
    assert!((stds[0] - (share * (1.0 - share)).sqrt()).abs() < 1e-12);
}

#[test]
fn a_field_is_asked_in_order_and_once() {
    let mut asked = Vec::new();
    let dir = dir();
    let options = small()
        .with_variables(&["thetao"], &["zos", "hfds"])
        .with_chunking(Chunking::Rows(3));
    let mut ocean = field(
        |level, y, x| (y + x) % (level + 2) > 0,
        |channel, row, out| {
            asked.push(format!("{channel} {row}"));
            out.fill(row as f32);
        },
    );
    options.write_field(&dir, &mut ocean).unwrap();
    drop(ocean);
    let names = ["thetao_0", "thetao_1", "thetao_2", "zos", "hfds"];
    let expected: Vec<String> = (0..ROWS)
        .flat_map(|r| names.map(|n| format!("{n} {r}")))
        .collect();
    assert_eq!(asked, expected);
    let (_, values) = read::<f32>(&dir.path().join("OM4.zarr"), "zos");
    for (i, value) in values.iter().enumerate() {
        let ocean = !(i / NX % NY + i % NX).is_multiple_of(2);
        assert!(if ocean {
            *value == (i / PLANE) as f32
        } else {
            value.is_nan()
        });
    }
}

#[test]
fn ocean_nans_stay_and_do_not_count() {
    let dir = dir();
    let options = small().with_variables(&[], &["zos"]).with_rows(2);
    let mut ocean = field(
        |_, _, _| true,
        |_, row, out| {
            out.fill(1.0);
            out[3] = if row == 0 { f32::NAN } else { 1.0 };
        },
    );
    options.write_field(&dir, &mut ocean).unwrap();
    let (_, values) = read::<f32>(&dir.path().join("OM4.zarr"), "zos");
    assert!(values[3].is_nan() && values[PLANE + 3] == 1.0);
    assert_eq!(
        read::<f32>(&dir.path().join("OM4_means.zarr"), "zos").1,
        [1.0]
    );
    assert_eq!(
        read::<f32>(&dir.path().join("OM4_stds.zarr"), "zos").1,
        [0.0]
    );
}
