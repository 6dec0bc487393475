//! Chunkings, codecs, key encodings and shards that the test writes itself.

use crate::{NX, NY, ROWS, strict};
use burn_om4::ReadMethod;
use burn_om4::store::Store;
use om4_test_support::stores::{Bend, Writer, field, methods, plane_bits, read, read_all, value};
use serde_json::{Value, json};
use std::path::Path;

const LEVELS: usize = 4;

/// `(time, level, y, x)` or `(level, time, y, x)` of the test field.
fn compact_field(name: &str, level_first: bool) -> Vec<f32> {
    let mut values = Vec::new();
    let (outer, inner) = if level_first {
        (LEVELS, ROWS)
    } else {
        (ROWS, LEVELS)
    };
    for a in 0..outer {
        for b in 0..inner {
            let (row, level) = if level_first { (b, a) } else { (a, b) };
            values.extend((0..NY * NX).map(|cell| value(name, level, row, cell)));
        }
    }
    values
}

/// A store with a flat array, and compact ones in both orders, all chunked and encoded as told.
fn write_store(writer: &Writer, chunk: [u64; 4], bend: &Bend) {
    let [t, l, y, x] = chunk;
    writer.steady_time(ROWS);
    let (rows, levels, ny, nx) = (ROWS as u64, LEVELS as u64, NY as u64, NX as u64);
    let mut flat = bend.clone();
    let mut level_first = bend.clone();
    // Shards and their inner chunks have the array's dimension order.
    if let Some(inner) = bend.fields.pointer("/codecs/0/configuration/chunk_shape") {
        let inner: Vec<u64> = serde_json::from_value(inner.clone()).unwrap();
        let at = "/codecs/0/configuration/chunk_shape";
        *flat.fields.pointer_mut(at).unwrap() = json!([inner[0], inner[2], inner[3]]);
        *level_first.fields.pointer_mut(at).unwrap() =
            json!([inner[1], inner[0], inner[2], inner[3]]);
    }
    let values = field("zos", 0, ROWS, NY, NX);
    let dims = ["time", "lat", "lon"];
    writer.array(
        "zos",
        &dims,
        &[rows, ny, nx],
        &[t, y, x],
        "float32",
        &flat,
        &values,
    );
    let dims = ["time", "z_l", "yh", "xh"];
    let shape = [rows, levels, ny, nx];
    let values = compact_field("so", false);
    writer.array("so", &dims, &shape, &[t, l, y, x], "float32", bend, &values);
    let dims = ["lev", "time", "latitude", "longitude"];
    let shape = [levels, rows, ny, nx];
    let values = compact_field("uo", true);
    writer.array(
        "uo",
        &dims,
        &shape,
        &[l, t, y, x],
        "float32",
        &level_first,
        &values,
    );
}

fn expected(store: &Store, rows: &[usize], positions: &[usize]) -> Vec<Vec<u32>> {
    let plane = |row: usize, position: usize| {
        let channel = &store.channels()[position];
        plane_bits(
            channel.variable(),
            channel.level().unwrap_or(0),
            row,
            NY * NX,
        )
    };
    rows.iter()
        .flat_map(|&row| positions.iter().map(move |&p| (row, p)))
        .map(|(row, p)| plane(row, p))
        .collect()
}

/// Reads everything, and awkward selections, and compares with the test field.
fn check(store: &Store, what: &str) {
    assert_eq!(store.channels().len(), 1 + 2 * LEVELS);
    let all_rows: Vec<usize> = (0..ROWS).collect();
    let all: Vec<usize> = (0..store.channels().len()).collect();
    let reverse: Vec<usize> = all.iter().rev().copied().collect();
    let selections: [(&[usize], &[usize]); 8] = [
        (&all_rows, &all),
        (&all_rows, &reverse),
        (&[9, 0, 9, 4], &[2, 1, 8]),
        (&[4], &[3]),
        (&[3, 4], &[1, 2, 3, 4]),
        (&[8, 9], &[0]),
        (&[0, 1, 2, 3], &[5]),
        (&[], &all),
    ];
    for (rows, channels) in selections {
        let (found, counts) =
            read(store, rows, channels).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert!(
            found == expected(store, rows, channels),
            "{what}: {rows:?} {channels:?}"
        );
        assert_eq!(counts.missing_chunks, 0);
    }
}

fn check_store(v3: bool, chunk: [u64; 4], bend: &Bend, what: &str) {
    check_store_by(|_| vec![ReadMethod::default()], v3, chunk, bend, what);
}

/// As `check_store`, by every way of reading. They differ in how bytes are had and not in how they are
/// decoded, so this is for chunkings and shards, and not for codecs.
fn check_store_by_all(v3: bool, chunk: [u64; 4], bend: &Bend, what: &str) {
    check_store_by(methods, v3, chunk, bend, what);
}

fn check_store_by(
    methods: impl Fn(&Path) -> Vec<ReadMethod>,
    v3: bool,
    chunk: [u64; 4],
    bend: &Bend,
    what: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::new(dir.path().join("s.zarr"), v3);
    write_store(&writer, chunk, bend);
    for method in methods(&writer.root) {
        let what = format!("{what} by {method}");
        let store = Store::open(&writer.root, &strict().with_io(method));
        check(&store.unwrap_or_else(|e| panic!("{what}: {e:?}")), &what);
    }
}

const PLANE: [u64; 4] = [1, 1, NY as u64, NX as u64];

const CHUNKINGS: [[u64; 4]; 8] = [
    PLANE,
    [1, LEVELS as u64, NY as u64, NX as u64],
    [4, 1, NY as u64, NX as u64],
    [4, 3, NY as u64, NX as u64],
    [ROWS as u64, LEVELS as u64, NY as u64, NX as u64],
    // Many chunks per plane, at the edges beyond the grid; and larger than the whole array.
    [1, 1, 2, 3],
    [3, 2, 2, 4],
    [16, 8, 8, 8],
];

#[test]
fn every_chunking_gives_the_same_planes_stored_plainly_or_compressed() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": true}});
    let blosc = json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0});
    for chunk in CHUNKINGS {
        check_store_by_all(
            false,
            chunk,
            &Bend::default(),
            &format!("v2 plain {chunk:?}"),
        );
        check_store(
            true,
            chunk,
            &Bend::default(),
            &format!("v3 plain {chunk:?}"),
        );
        let codecs = Bend::fields(json!({"codecs": [little, zstd]}));
        check_store_by_all(true, chunk, &codecs, &format!("v3 zstd {chunk:?}"));
        let compressor = Bend::fields(json!({"compressor": blosc}));
        check_store(false, chunk, &compressor, &format!("v2 blosc {chunk:?}"));
    }
}

#[test]
fn every_v2_compressor_and_byte_order() {
    let mut bends: Vec<Value> = vec![
        json!({"compressor": {"id": "zstd", "level": 3}}),
        json!({"compressor": {"id": "zstd", "level": 3, "checksum": true}}),
        json!({"compressor": {"id": "zlib", "level": 4}}),
        json!({"compressor": {"id": "gzip", "level": 4}}),
        json!({"compressor": {"id": "zstd", "level": 3}, "order": "F"}),
        json!({"order": "F"}),
        json!({"dtype": ">f4"}),
        json!({"dtype": ">f4", "order": "F", "compressor": {"id": "zlib", "level": 1}}),
        json!({"dimension_separator": "/"}),
        json!({"dimension_separator": ".", "fill_value": 0.0}),
        json!({"fill_value": null}),
    ];
    for cname in ["lz4", "lz4hc", "blosclz", "zlib", "zstd", "snappy"] {
        for shuffle in [0, 1, 2] {
            bends.push(json!({"compressor":
                {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}}));
        }
    }
    for fields in bends {
        let bend = Bend::fields(fields.clone());
        check_store(false, PLANE, &bend, &format!("v2 {fields}"));
        check_store(false, [4, 3, 3, 7], &bend, &format!("v2 cut {fields}"));
    }
}

#[test]
fn every_v3_codec_key_encoding_and_byte_order() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let gzip = json!({"name": "gzip", "configuration": {"level": 4}});
    let crc = json!({"name": "crc32c"});
    let zlib = json!({"name": "numcodecs.zlib", "configuration": {"level": 4}});
    let blosc = json!({"name": "blosc", "configuration": {"cname": "zstd", "clevel": 5,
        "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}});
    let transpose = json!({"name": "transpose", "configuration": {"order": [2, 0, 1]}});
    let bends = [
        json!({"codecs": [little, gzip]}),
        json!({"codecs": [little, zlib]}),
        json!({"codecs": [little, crc]}),
        json!({"codecs": [little, zstd, crc]}),
        json!({"codecs": [little, crc, zstd]}),
        json!({"codecs": [little, blosc]}),
        json!({"codecs": [little, blosc, crc]}),
        json!({"codecs": [big]}),
        json!({"codecs": [big, zstd]}),
        json!({"codecs": [big, blosc]}),
        json!({"data_type": {"name": "float32"}}),
        json!({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}),
        json!({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}),
        json!({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}}),
        json!({"fill_value": 0.0}),
    ];
    for fields in bends {
        let bend = Bend::fields(fields.clone());
        check_store(true, PLANE, &bend, &format!("v3 {fields}"));
        check_store(true, [4, 3, 3, 7], &bend, &format!("v3 cut {fields}"));
    }
    // Transposed: one array, whose rank the order has.
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::new(dir.path().join("s.zarr"), true);
    writer.steady_time(3);
    let bend = Bend::fields(json!({"codecs": [transpose, little, zstd]}));
    writer.flat("zos", 3, NY, NX, &bend);
    let store = Store::open(&writer.root, &strict()).unwrap();
    let (found, _) = read_all(&store).unwrap();
    let expected: Vec<_> = (0..3)
        .map(|row| plane_bits("zos", 0, row, NY * NX))
        .collect();
    assert!(found == expected);
}

#[test]
fn numcodecs_lz4_in_both_formats() {
    // zarrs knows the codec once a store was opened; until then a test cannot write with it.
    let lz4 = |bytes: &[u8]| {
        let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
        out.extend(lz4_flex::block::compress(bytes));
        out
    };
    for v3 in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("s.zarr"), v3);
        writer.steady_time(3);
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let codec = json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}});
        let bend = Bend::fields(match v3 {
            true => json!({"codecs": [little, codec]}),
            false => json!({"compressor": {"id": "lz4", "acceleration": 1}}),
        });
        let shape = [3, NY as u64, NX as u64];
        writer.document(
            "zos",
            &["time", "y", "x"],
            &shape,
            &[1, 3, 7],
            "float32",
            &bend,
        );
        for row in 0..3 {
            for part in 0..2 {
                let cells = part * 21..part * 21 + 21;
                let inside = |c: usize| {
                    if c < NY * NX {
                        value("zos", 0, row, c)
                    } else {
                        0.0
                    }
                };
                let bytes: Vec<u8> = cells.flat_map(|c| inside(c).to_le_bytes()).collect();
                let key = match v3 {
                    true => format!("zos/c/{row}/{part}/0"),
                    false => format!("zos/{row}.{part}.0"),
                };
                let path = writer.root.join(key);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, lz4(&bytes)).unwrap();
            }
        }
        let store = Store::open(&writer.root, &strict()).unwrap();
        let (found, _) = read_all(&store).unwrap();
        let expected: Vec<_> = (0..3)
            .map(|row| plane_bits("zos", 0, row, NY * NX))
            .collect();
        assert!(found == expected, "v3 {v3}");
        // Coordinates and masks go through zarrs itself, which has the codec now.
        writer.array(
            "mask_0",
            &["y", "x"],
            &[NY as u64, NX as u64],
            &[3, 3],
            "int8",
            &bend,
            &[1i8; NY * NX],
        );
        let store = Store::open(&writer.root, &strict()).unwrap();
        assert_eq!(store.wet_mask(0).unwrap().wet_count(), NY * NX);
    }
}

fn sharding(inner: [u64; 4], codecs: Value, checksum: bool, location: &str) -> Bend {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let index = match checksum {
        true => json!([little, {"name": "crc32c"}]),
        false => json!([little]),
    };
    Bend::fields(
        json!({"codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": location,
        }}]}),
    )
}

#[test]
fn shards_with_every_index_and_inner_codec() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let gzip = json!({"name": "gzip", "configuration": {"level": 4}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let crc = json!({"name": "crc32c"});
    let blosc = json!({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5,
        "shuffle": "shuffle", "typesize": 4, "blocksize": 0}});
    let codecs = [
        json!([little]),
        json!([little, gzip]),
        json!([big, zstd, crc]),
        json!([little, blosc]),
    ];
    let (ny, nx) = (NY as u64, NX as u64);
    let shapes: [([u64; 4], [u64; 4]); 4] = [
        ([4, 2, ny, nx], [1, 1, ny, nx]),
        ([4, 4, ny, nx], [2, 2, ny, nx]),
        ([5, 2, 6, 8], [1, 1, 3, 4]),
        ([6, 2, 6, 8], [3, 1, 2, 8]),
    ];
    for codecs in &codecs {
        for (checksum, location) in [
            (true, "end"),
            (false, "end"),
            (true, "start"),
            (false, "start"),
        ] {
            for (shard, inner) in shapes {
                let bend = sharding(inner, codecs.clone(), checksum, location);
                let what = format!("{shard:?} {inner:?} {codecs} {checksum} {location}");
                // One kind of index, as it lies and compressed.
                let few = *codecs == json!([little]) || *codecs == json!([big, zstd, crc]);
                if few && checksum && location == "end" {
                    check_store_by_all(true, shard, &bend, &what);
                } else {
                    check_store(true, shard, &bend, &what);
                }
            }
        }
    }
}

#[test]
fn inner_chunks_may_lie_in_any_order_and_only_wanted_ones_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::new(dir.path().join("s.zarr"), true);
    let little = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    let mut bend = sharding([1, 0, 0, 0], little, false, "end");
    let at = "/codecs/0/configuration/chunk_shape";
    *bend.fields.pointer_mut(at).unwrap() = json!([1, NY, NX]);
    writer.steady_time(4);
    let shape = [4, NY as u64, NX as u64];
    writer.document("zos", &["time", "y", "x"], &shape, &shape, "float32", &bend);
    let cells = NY * NX;
    let (mut bytes, mut index) = (vec![0xAAu8; 13], [[0u64; 2]; 4]);
    for row in [2, 0, 3, 1] {
        index[row] = [bytes.len() as u64, cells as u64 * 4];
        bytes.extend((0..cells).flat_map(|c| value("zos", 0, row, c).to_le_bytes()));
        bytes.extend([0xAA; 5]);
    }
    bytes.extend(index.iter().flatten().flat_map(|n| n.to_le_bytes()));
    std::fs::create_dir_all(writer.root.join("zos/c/0/0")).unwrap();
    std::fs::write(writer.root.join("zos/c/0/0/0"), &bytes).unwrap();
    let store = Store::open(&writer.root, &strict()).unwrap();
    let (found, _) = read_all(&store).unwrap();
    let expected: Vec<_> = (0..4).map(|row| plane_bits("zos", 0, row, cells)).collect();
    assert!(found == expected);
    let (found, counts) = read(&store, &[3], &[0]).unwrap();
    assert!(found[0] == expected[3]);
    assert_eq!(
        counts.stored_bytes,
        (4 * 16 + cells * 4) as u64,
        "the index and one inner chunk"
    );
}
