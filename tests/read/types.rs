//! Values of every number type, packed and not, in either byte order and in order F, are what xarray makes of
//! them: `xr.conventions.decode_cf_variable` of xarray 2026.9, then `astype("float32")`.

use burn_om4::store::{OpenOptions, Store};
use om4_test_support::stores::{Bend, Writer, read};
use serde_json::{Value, json};
use zarrs::array::Element;

const NY: usize = 2;
const NX: usize = 3;
const ROWS: usize = 4;

/// How an array may lie.
struct Form {
    v3: bool,
    big: bool,
    fields: Value,
    chunk: [u64; 3],
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    let chunks = [[1, 2, 3], [3, 2, 3], [1, 1, 2], [2, 2, 2]];
    for (big, chunk) in [false, true]
        .into_iter()
        .flat_map(|b| chunks.map(|c| (b, c)))
    {
        for order in ["C", "F"] {
            for compressor in [Value::Null, json!({"id": "zlib", "level": 1})] {
                let fields = json!({"order": order, "compressor": compressor});
                forms.push(Form {
                    v3: false,
                    big,
                    fields,
                    chunk,
                });
            }
        }
        let endian = if big { "big" } else { "little" };
        let bytes = json!({"name": "bytes", "configuration": {"endian": endian}});
        let transpose = json!({"name": "transpose", "configuration": {"order": [2, 0, 1]}});
        let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let shard = json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, chunk[1], chunk[2]], "codecs": [bytes, zstd],
            "index_codecs": [little], "index_location": "end"}});
        for codecs in [
            json!([bytes]),
            json!([bytes, zstd]),
            json!([transpose, bytes]),
            json!([shard]),
        ] {
            let fields = json!({"codecs": codecs});
            forms.push(Form {
                v3: true,
                big,
                fields,
                chunk,
            });
        }
    }
    forms
}

/// Writes the six values as planes, each row one further, and reads them back in every form.
fn check<T: Element>(dtype: &str, attributes: &Value, stored: [T; 6], expected: [u32; 6]) {
    for (number, form) in forms().iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("s.zarr"), form.v3);
        writer.steady_time(ROWS);
        let mut bend = Bend::fields(form.fields.clone());
        bend.attributes = attributes.clone();
        // None of the values: inner chunks that hold nothing else are left out.
        bend.fields["fill_value"] = json!(77);
        let order = match (form.big, dtype.ends_with('1')) {
            (_, true) => '|',
            (true, _) => '>',
            (false, _) => '<',
        };
        let v2 = format!("{order}{dtype}");
        let kind = match &dtype[..1] {
            "i" => "int",
            "u" => "uint",
            _ => "float",
        };
        let bits = 8 * dtype[1..].parse::<u32>().unwrap();
        let name = if form.v3 {
            format!("{kind}{bits}")
        } else {
            v2.clone()
        };
        let at = |row: usize, cell: usize| (row + cell) % 6;
        let cells = |row: usize| (0..6).map(move |cell| at(row, cell));
        let values: Vec<T> = (0..ROWS)
            .flat_map(cells)
            .map(|at| stored[at].clone())
            .collect();
        let shape = [ROWS as u64, NY as u64, NX as u64];
        writer.array(
            "zos",
            &["time", "y", "x"],
            &shape,
            &form.chunk,
            &name,
            &bend,
            &values,
        );
        let store = Store::open(&writer.root, &OpenOptions::default()).unwrap();
        for rows in [&[0, 1, 2, 3][..], &[2], &[3, 0], &[1, 2]] {
            let (found, _) =
                read(&store, rows, &[0]).unwrap_or_else(|e| panic!("{v2} {number}: {e:?}"));
            for (row, found) in std::iter::zip(rows, found) {
                for (cell, bits) in found.into_iter().enumerate() {
                    let expected = expected[at(*row, cell)];
                    let both_nan =
                        f32::from_bits(bits).is_nan() && f32::from_bits(expected).is_nan();
                    let value = f32::from_bits(bits);
                    assert!(
                        both_nan || bits == expected,
                        "{v2} {attributes} form {number}: {value} in cell {cell}"
                    );
                }
            }
        }
    }
}

#[test]
fn packed_integers() {
    check(
        "i2",
        &json!({"scale_factor": 0.001, "add_offset": 20.0, "_FillValue": -32768}),
        [-32768i16, -32767, 0, 1, 12345, 32767],
        [
            0x7fc00000, 0xc14c45a2, 0x41a00000, 0x41a0020c, 0x42016148, 0x42531168,
        ],
    );
    check(
        "i2",
        &json!({"scale_factor": [0.01]}),
        [-3000i16, -1, 0, 7, 2999, 32767],
        [
            0xc1f00000, 0xbc23d70a, 0, 0x3d8f5c29, 0x41efeb85, 0x43a3d5c3,
        ],
    );
    check(
        "i2",
        &json!({"add_offset": 273.15, "missing_value": -1}),
        [-1i16, 0, 1, 2, 3, 32767],
        [
            0x7fc00000, 0x43889333, 0x43891333, 0x43899333, 0x438a1333, 0x47011026,
        ],
    );
    check(
        "i4",
        &json!({"scale_factor": 1e-6, "add_offset": 0.1}),
        [-2147483648i32, 16777217, 0, 1, 123456789, 2147483647],
        [
            0xc5063623, 0x4187048a, 0x3dcccccd, 0x3dcccd53, 0x42f71d13, 0x45063957,
        ],
    );
    check(
        "u2",
        &json!({"scale_factor": 2, "add_offset": 1.0}),
        [0u16, 1, 2, 3, 65534, 65535],
        [
            0x3f800000, 0x40400000, 0x40a00000, 0x40e00000, 0x47fffe80, 0x47ffff80,
        ],
    );
}

#[test]
fn bytes() {
    check(
        "u1",
        &json!({"scale_factor": 0.1, "add_offset": -3.0, "_FillValue": 255}),
        [0u8, 1, 2, 100, 254, 255],
        [
            0xc0400000, 0xc039999a, 0xc0333333, 0x40e00000, 0x41b33333, 0x7fc00000,
        ],
    );
    check(
        "i1",
        &json!({"missing_value": -127}),
        [-127i8, -1, 0, 1, 126, 127],
        [
            0x7fc00000, 0xbf800000, 0, 0x3f800000, 0x42fc0000, 0x42fe0000,
        ],
    );
}

#[test]
fn plain_integers_and_floats_of_other_widths() {
    check(
        "i8",
        &json!({}),
        [
            -9007199254740993i64,
            16777217,
            16777219,
            0,
            33554435,
            i64::MAX,
        ],
        [
            0xda000000, 0x4b800000, 0x4b800002, 0, 0x4c000001, 0x5f000000,
        ],
    );
    check(
        "f8",
        &json!({"_FillValue": -999.99}),
        [-999.99f64, 0.1, 1e300, 1e-46, 16777217.0, -0.0],
        [
            0x7fc00000, 0x3dcccccd, 0x7f800000, 0, 0x4b800000, 0x80000000,
        ],
    );
    let half = |x: f64| half::f16::from_f64(x);
    check(
        "f2",
        &json!({}),
        [
            half(0.1),
            half(-0.0),
            half(65504.0),
            half(6e-8),
            half(1.0),
            half(-2.5),
        ],
        [
            0x3dccc000, 0x80000000, 0x477fe000, 0x33800000, 0x3f800000, 0xc0200000,
        ],
    );
    check(
        "f4",
        &json!({"scale_factor": 0.1, "add_offset": 0.3, "_FillValue": 1.0000000200408773e20}),
        [1e20f32, 0.1, -0.0, 3e38, 16777216.0, 1.5],
        [
            0x7fc00000, 0x3e9eb852, 0x3e99999a, 0x7db48e52, 0x49cccccf, 0x3ee66666,
        ],
    );
    check(
        "f4",
        &json!({"_FillValue": -999.99}),
        [-999.99f32, 0.1, -0.0, 3e38, 16777216.0, 1.5],
        [
            0x7fc00000, 0x3dcccccd, 0x80000000, 0x7f61b1e6, 0x4b800000, 0x3fc00000,
        ],
    );
}

#[test]
fn what_is_no_number_is_refused_and_says_so() {
    let refused = |dtype: &str, attributes: Value, words: &[&str]| {
        for v3 in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let writer = Writer::new(dir.path().join("s.zarr"), v3);
            writer.steady_time(ROWS);
            let shape = [ROWS as u64, NY as u64, NX as u64];
            let bend = Bend::attributes(attributes.clone());
            writer.document("zos", &["time", "y", "x"], &shape, &shape, dtype, &bend);
            let e = Store::open(&writer.root, &OpenOptions::default()).unwrap_err();
            let text = format!("{e:?}");
            for word in words.iter().chain(&["Metadata", "array zos", "s.zarr"]) {
                assert!(text.contains(word), "`{word}` is not in: {text}");
            }
        }
    };
    refused("bool", json!({}), &["integers", "floats"]);
    for packing in ["scale_factor", "add_offset"] {
        for value in [json!("0.1"), json!([1.0, 2.0]), json!(null)] {
            refused(
                "int16",
                json!({packing: value}),
                &[packing, "one finite number"],
            );
        }
    }
    refused("int8", json!({"_Unsigned": "true"}), &["_Unsigned", "true"]);
}
