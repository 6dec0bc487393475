//! Every layout, format and codec holds the same values.

use crate::{
    LAYOUTS, NX, NY, PLANE, ROWS, bits, check_values, dir, document, expected_plane, small,
};
use burn_om4::synth::{Chunking, Codec, Format};
use serde_json::{Value, json};
use std::fs;

#[test]
fn every_form_holds_the_same_values() {
    let codecs = [
        Codec::None,
        Codec::BloscLz4,
        Codec::BloscZstd,
        Codec::Zstd,
        // Which zarrs can read because the writer has made it known to this process.
        Codec::Lz4,
        Codec::Gzip,
    ];
    // Three rows to a chunk of four: the last chunk is partly empty.
    let chunkings = [Chunking::OneRow, Chunking::Rows(3), Chunking::Shards(3)];
    let mut forms = 0;
    for layout in LAYOUTS {
        for format in [Format::V2, Format::V3] {
            for codec in codecs {
                for chunking in chunkings {
                    if (format, chunking) == (Format::V2, Chunking::Shards(3)) {
                        continue;
                    }
                    let dir = dir();
                    let options = small()
                        .with_variables(&["uo"], &["zos"])
                        .with_layout(layout)
                        .with_format(format)
                        .with_codec(codec)
                        .with_chunking(chunking);
                    options.write(&dir).unwrap();
                    let form = format!("{layout:?} {format:?} {codec:?} {chunking:?}");
                    check_values(&dir.path().join("OM4.zarr"), &options, layout, &form);
                    forms += 1;
                }
            }
        }
    }
    assert_eq!(forms, 4 * 6 * (2 + 3));
}

#[test]
fn lz4_chunks_are_those_of_numcodecs() {
    for (format, key) in [(Format::V2, "2.0.0"), (Format::V3, "c/2/0/0")] {
        let dir = dir();
        let options = small().with_format(format).with_codec(Codec::Lz4);
        options.write(&dir).unwrap();
        let array = dir.path().join("OM4.zarr/so_1");
        let chunk = fs::read(array.join(key)).unwrap();
        // Four bytes of length, then one block.
        let length = u32::from_le_bytes(chunk[..4].try_into().unwrap());
        assert_eq!(length as usize, 4 * PLANE);
        let plain = lz4_flex::block::decompress(&chunk[4..], length as usize).unwrap();
        let words = plain.chunks_exact(4);
        let found: Vec<u32> = words
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let channel = "so_1".parse().unwrap();
        let expected = expected_plane(&mut options.waves(), &channel, 2);
        assert_eq!(found, bits(&expected));
        let codec = match format {
            Format::V2 => document(array.join(".zarray"))["compressor"]["id"].clone(),
            Format::V3 => document(array.join("zarr.json"))["codecs"][1]["name"].clone(),
        };
        let name = if format == Format::V2 {
            "lz4"
        } else {
            "numcodecs.lz4"
        };
        assert_eq!(codec, name);
    }
    // In v2 a single number is stored as it is.
    let dir = dir();
    small().with_codec(Codec::Lz4).write(&dir).unwrap();
    let mean = dir.path().join("OM4_means.zarr/so_1");
    assert_eq!(document(mean.join(".zarray"))["compressor"], Value::Null);
    assert_eq!(fs::metadata(mean.join("0")).unwrap().len(), 4);
}

#[test]
fn the_default_is_the_published_form() {
    let dir = dir();
    small().write(&dir).unwrap();
    let store = dir.path().join("OM4.zarr");
    assert_eq!(
        document(store.join("thetao_1/.zarray")),
        json!({
            "chunks": [1, NY, NX], "compressor": null, "dtype": "<f4", "fill_value": "NaN",
            "filters": null, "order": "C", "shape": [ROWS, NY, NX], "zarr_format": 2
        })
    );
    assert_eq!(
        document(store.join("thetao_1/.zattrs")),
        json!({
            "_ARRAY_DIMENSIONS": ["time", "y", "x"], "coordinates": "areacello lat lon",
            "long_name": "Sea Water Potential Temperature level-1", "units": "degC"
        })
    );
    assert_eq!(
        document(store.join("mask_2/.zarray")),
        json!({
            "chunks": [NY, NX], "compressor": null, "dtype": "|i1", "fill_value": null,
            "filters": null, "order": "C", "shape": [NY, NX], "zarr_format": 2
        })
    );
    assert_eq!(document(store.join("mask_2/.zattrs"))["dtype"], "bool");
    let blosc = json!({"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 1});
    assert_eq!(
        document(store.join("time/.zarray")),
        json!({
            "chunks": [ROWS], "compressor": blosc, "dtype": "<i8", "fill_value": null,
            "filters": null, "order": "C", "shape": [ROWS], "zarr_format": 2
        })
    );
    assert_eq!(
        document(store.join("time/.zattrs")),
        json!({
            "_ARRAY_DIMENSIONS": ["time"], "calendar": "julian",
            "units": "days since 1958-01-03 12:00:00.000000"
        })
    );
    assert_eq!(document(store.join("lat/.zarray"))["compressor"], blosc);
    for row in 0..ROWS {
        let chunk = store.join(format!("zos/{row}.0.0"));
        assert_eq!(fs::metadata(chunk).unwrap().len() as usize, 4 * PLANE);
    }
    for name in ["thetao_0", "zos", "mask_0"] {
        let document = document(dir.path().join("OM4_means.zarr").join(name).join(".zarray"));
        let dtype = if name == "mask_0" { "<f8" } else { "<f4" };
        assert_eq!(
            document,
            json!({
                "chunks": [], "compressor": null, "dtype": dtype, "fill_value": "NaN",
                "filters": null, "order": "C", "shape": [], "zarr_format": 2
            })
        );
    }
    // Three stores, and nothing left over from writing them.
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["OM4.zarr", "OM4_means.zarr", "OM4_stds.zarr"]);
}
