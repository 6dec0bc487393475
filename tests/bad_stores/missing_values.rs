//! Which values are missing: every number that people take for it, in every place that can name one.

use crate::{CELLS, NX, NY, ROWS, TestStore, refused, strict, warned};
use burn_om4::store::WetMasks;
use burn_om4::{Channel, ErrorKind};
use om4_test_support::stores::{Bend, field, read_all};
use serde_json::{Value, json};

const SHAPE: [u64; 3] = [ROWS as u64, NY as u64, NX as u64];
const CHUNK: [u64; 3] = [1, NY as u64, NX as u64];
const DIMS: [&str; 3] = ["time", "y", "x"];

/// The numbers, and their doubles in base64 as xarray writes them in v3.
const NUMBERS: [(f32, &str); 6] = [
    (0.0, "AAAAAAAAAAA="),
    (100.0, "AAAAAAAAWUA="),
    (-999.99, "AAAAgOs/j8A="),
    (-9999.0, "AAAAAICHw8A="),
    (1e20, "AAAAgB2vFUQ="),
    (f32::NAN, "AAAAAAAA+H8="),
];

/// Where a number stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Nowhere,
    FillValueOfV2,
    FillValueOfV3,
    FillAttribute(bool),
    MissingAttribute(bool),
    Listed(bool),
    Base64OfV3,
    Base64Listed,
}

impl Place {
    fn v3(self) -> bool {
        match self {
            Self::FillValueOfV3 | Self::Base64OfV3 | Self::Base64Listed => true,
            Self::Nowhere | Self::FillValueOfV2 => false,
            Self::FillAttribute(v3) | Self::MissingAttribute(v3) | Self::Listed(v3) => v3,
        }
    }

    /// Whether a number here means "missing".
    fn names(self, number: f32) -> bool {
        match self {
            Self::Nowhere | Self::FillValueOfV3 => false,
            // Zarr's own default.
            Self::FillValueOfV2 => number != 0.0,
            _ => true,
        }
    }

    fn bend(self, number: f32, base64: &str) -> Bend {
        let plain = match number.is_nan() {
            true => json!("NaN"),
            false => json!(f64::from(number)),
        };
        let (fill, attributes) = match self {
            Self::Nowhere => (Value::Null, json!({})),
            Self::FillValueOfV2 | Self::FillValueOfV3 => (plain, json!({})),
            Self::FillAttribute(_) => (Value::Null, json!({"_FillValue": plain})),
            Self::MissingAttribute(_) => (Value::Null, json!({"missing_value": plain})),
            Self::Listed(_) => (Value::Null, json!({"missing_value": [-5.5e9, plain]})),
            Self::Base64OfV3 => (Value::Null, json!({"_FillValue": base64})),
            Self::Base64Listed => (Value::Null, json!({"missing_value": [base64, 7e8]})),
        };
        // A fill value that is no value of the array.
        let other = if self.v3() {
            json!(-3.25e7)
        } else {
            Value::Null
        };
        Bend {
            fields: json!({"fill_value": if fill.is_null() { other } else { fill }}),
            attributes,
            unnamed: false,
        }
    }
}

#[test]
fn a_number_is_missing_where_it_is_named_and_data_everywhere_else() {
    let mut places = vec![
        Place::Nowhere,
        Place::FillValueOfV2,
        Place::FillValueOfV3,
        Place::Base64OfV3,
        Place::Base64Listed,
    ];
    for v3 in [false, true] {
        places.extend([
            Place::FillAttribute(v3),
            Place::MissingAttribute(v3),
            Place::Listed(v3),
        ]);
    }
    for place in places {
        for (number, base64) in NUMBERS {
            let what = format!("{number} in {place:?}");
            let store = TestStore::timed(place.v3());
            let mut values = field("zos", 0, ROWS, NY, NX);
            for at in [1, CELLS, CELLS + 2, 4 * CELLS + 3] {
                values[at] = number;
            }
            let bend = place.bend(number, base64);
            store
                .writer
                .array("zos", &DIMS, &SHAPE, &CHUNK, "float32", &bend, &values);
            let open = store.open().unwrap();
            let (found, _) = read_all(&open).unwrap();
            for (at, (found, stored)) in std::iter::zip(found.concat(), &values).enumerate() {
                let found = f32::from_bits(found);
                match stored.is_nan() || (*stored == number && place.names(number)) {
                    true => assert!(found.is_nan(), "{what}: value {at} is {found}"),
                    false => assert_eq!(found.to_bits(), stored.to_bits(), "{what}: value {at}"),
                }
            }
            if place.names(number) && !number.is_nan() {
                warned(
                    &open,
                    &["array zos", "named as missing", &format!("{number:?}")],
                );
            }
        }
    }
}

#[test]
fn fill_value_and_attributes_count_together() {
    let store = TestStore::timed(false);
    let mut values = field("zos", 0, ROWS, NY, NX);
    values[..4].copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    let bend = Bend {
        fields: json!({"fill_value": 1.0}),
        attributes: json!({"_FillValue": 2.0, "missing_value": [3.0, 4.0]}),
        unnamed: false,
    };
    store
        .writer
        .array("zos", &DIMS, &SHAPE, &CHUNK, "float32", &bend, &values);
    let (found, _) = read_all(&store.open().unwrap()).unwrap();
    assert!(
        found[0][..4]
            .iter()
            .all(|bits| f32::from_bits(*bits).is_nan())
    );
    assert_eq!(
        found[1],
        values[CELLS..2 * CELLS]
            .iter()
            .map(|v| v.to_bits())
            .collect::<Vec<_>>()
    );
}

#[test]
fn text_that_is_no_number_is_refused_by_the_attribute_s_name() {
    for v3 in [false, true] {
        for (name, value) in [
            ("_FillValue", json!("1e20")),
            ("_FillValue", json!("none")),
            ("missing_value", json!(["NaN", "-9999.0f"])),
            ("missing_value", json!({"value": 0})),
            ("missing_value", json!([[0.0]])),
        ] {
            let store = TestStore::timed(v3);
            store.flat("zos", &Bend::attributes(json!({name: value})));
            refused(
                &store,
                ErrorKind::Metadata,
                &["array zos", name, "a number"],
            );
        }
        // Nothing is named.
        let nothing = json!({"_FillValue": null, "missing_value": []});
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::attributes(nothing));
        store.open().unwrap();
    }
}

#[test]
fn unnamed_sentinels_are_data_and_reported_as_extreme() {
    let store = TestStore::timed(false);
    let mut values = field("zos", 0, ROWS, NY, NX);
    values[CELLS + 1] = 1e20;
    let none = Bend::default();
    store
        .writer
        .array("zos", &DIMS, &SHAPE, &CHUNK, "float32", &none, &values);
    let wet = [1i8; CELLS];
    let plane = [NY as u64, NX as u64];
    store
        .writer
        .array("mask_0", &["y", "x"], &plane, &plane, "int8", &none, &wet);
    let open = store.open().unwrap();
    let zos: Channel = "zos".parse().unwrap();
    let report = open.check_mask(&zos, 1).unwrap();
    assert_eq!(report.extreme_in_ocean, 1);
    assert!(!report.is_clean());
}

#[test]
fn missing_cells_of_a_mask_are_dry_and_other_values_are_listed() {
    let plane = [NY as u64, NX as u64];
    let masks = |values: &[f32], bend: &Bend, v3: bool| {
        let store = TestStore::good(v3);
        store.writer.array(
            "mask_0",
            &["y", "x"],
            &plane,
            &plane,
            "float32",
            bend,
            values,
        );
        store
    };
    for v3 in [false, true] {
        for missing in [-9999.0, 1e20, 2.0, f32::NAN] {
            let mut values = [1.0f32; CELLS];
            values[3] = 0.0;
            values[5] = missing;
            let named = match missing.is_nan() {
                true => Bend::default(),
                false => Bend::attributes(json!({"missing_value": f64::from(missing)})),
            };
            let store = masks(&values, &named, v3);
            let open = store.open().unwrap();
            let wet = open.wet_mask(0).unwrap();
            assert_eq!(wet.wet_count(), CELLS - 2, "{missing}");
            assert!(!wet.as_slice()[3] && !wet.as_slice()[5], "{missing}");
            warned(&open, &["mask mask_0", "1 missing cells"]);
            if missing.is_nan() {
                continue;
            }
            let store = masks(&values, &Bend::default(), v3);
            let words = [
                "array mask_0",
                "wet and dry",
                &format!("{:?}", f64::from(missing)),
            ];
            refused(&store, ErrorKind::Values, &words);
            let masks = WetMasks::open(store.root(), &crate::lenient()).unwrap();
            assert_eq!(masks.level(0).unwrap().wet_count(), CELLS - 1);
            let warnings = masks.warnings().join("\n");
            assert!(
                words.iter().all(|word| warnings.contains(word)),
                "{warnings}"
            );
        }
        // A mask's chunk that is not there is its fill value.
        let store = TestStore::good(v3);
        let fill = Bend::fields(json!({"fill_value": 0}));
        let writer = &store.writer;
        writer.array(
            "mask_0",
            &["y", "x"],
            &plane,
            &[1, NX as u64],
            "int8",
            &fill,
            &[1i8; CELLS],
        );
        let key = if v3 { "mask_0/c/1/0" } else { "mask_0/1.0" };
        std::fs::remove_file(store.file(key)).unwrap();
        let open = store.open().unwrap();
        let wet = open.wet_mask(0).unwrap();
        let dry = |at: usize| (NX..2 * NX).contains(&at);
        assert!((0..CELLS).all(|at| wet.as_slice()[at] != dry(at)));
        warned(
            &open,
            &["array mask_0", "a chunk is not there", "fill value 0"],
        );
    }
}

#[test]
fn coordinates_and_statistics_know_missing_and_packed_values() {
    for v3 in [false, true] {
        let store = TestStore::good(v3);
        let writer = &store.writer;
        let packed = json!({"scale_factor": 0.5, "add_offset": -45.0, "units": "degrees_north"});
        let lat = |values: &[i16], attributes: Value| {
            let bend = Bend::attributes(attributes);
            writer.array(
                "lat",
                &["y"],
                &[NY as u64],
                &[NY as u64],
                "int16",
                &bend,
                values,
            );
        };
        lat(&[0, 90, 180], packed.clone());
        let open = store.open().unwrap();
        let latitude = open.grid().latitude().unwrap();
        assert_eq!(format!("{latitude:?}"), "Line([-45.0, 0.0, 45.0])");
        // Named as it is stored, not as it is unpacked.
        let mut named = packed;
        named["missing_value"] = json!(90);
        lat(&[0, 90, 180], named);
        refused(&store, ErrorKind::Values, &["array lat", "value 1", "NaN"]);
    }
    let store = TestStore::bare(false);
    let bend = Bend::attributes(json!({"_FillValue": -1.0}));
    store
        .writer
        .array("zos", &[], &[], &[], "float32", &bend, &[-1.0f32]);
    let statistics =
        burn_om4::store::Statistics::open(store.root(), store.root(), &strict()).unwrap();
    let e = statistics.get(&"zos".parse().unwrap()).unwrap_err();
    assert!(e.to_string().contains("found NaN"), "{e}");
}
