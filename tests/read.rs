//! Reading planes: every fixture bit for bit, every codec and chunking, counts, errors in order.

use burn_om4::ocean::{PlaneRequest, PlaneSink, PlaneSource};
use burn_om4::store::{OpenOptions, Store};
use burn_om4::{Channel, Error, ErrorKind, ReadMethod, Result, Strictness};
use om4_test_support::shared;
use om4_test_support::stores::{
    Bend, Planes, Writer, field, methods, plane_bits, read, read_all, value,
};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

fn strict() -> OpenOptions {
    OpenOptions::default()
}

fn open_fixture(name: &str) -> Option<Store> {
    let path = shared(&format!("fixtures/batches/stores/{name}/OM4.zarr"))?;
    Some(Store::open(path, &strict()).unwrap())
}

#[test]
fn uncompressed_planes_are_the_bytes_of_their_files() {
    for dataset in ["A", "B", "D", "E"] {
        let Some(store) = open_fixture(&format!("{dataset}/flat_v2_none")) else {
            return;
        };
        let (planes, counts) = read_all(&store).unwrap();
        let channels = store.channels().to_vec();
        for (i, plane) in planes.iter().enumerate() {
            let (row, channel) = (i / channels.len(), &channels[i % channels.len()]);
            let file = store.path().join(format!("{channel}/{row}.0.0"));
            let bytes = std::fs::read(file).unwrap();
            let bits: Vec<u32> = bytes
                .chunks(4)
                .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
                .collect();
            assert_eq!(*plane, bits, "{dataset} {channel} row {row}");
        }
        let cells = store.grid().ny() * store.grid().nx();
        assert_eq!(counts.stored_bytes, (planes.len() * cells * 4) as u64);
        assert_eq!(counts.missing_chunks, 0);
    }
}

#[test]
fn every_layout_and_codec_gives_the_same_planes() {
    let siblings = [
        ("A/flat_v2_none", "A/flat_v2_blosc"),
        ("A/flat_v2_none", "A/flat_v3_zstd"),
        ("A/flat_v2_none", "A/flatlev_v2_blosc"),
        ("A/flat_v2_none", "A/compact_v2_none_timelev"),
        ("A/flat_v2_none", "A/compact_v2_blosc"),
        ("A/flat_v2_none", "A/compact_v3_zstd"),
        ("B/flat_v2_none", "B/flat_v3_zstd"),
        ("B/flat_v2_none", "B/compact_v2_blosc"),
        ("C/flat_v2_blosc", "C/compact_v3_zstd"),
        ("E/flat_v2_none", "E/compact_v3_zstd"),
    ];
    for (one, other) in siblings {
        let (Some(one), Some(other)) = (open_fixture(one), open_fixture(other)) else {
            return;
        };
        let (expected, _) = read_all(&one).unwrap();
        let (found, _) = read_all(&other).unwrap();
        assert!(
            expected == found,
            "{} and {}",
            one.path().display(),
            other.path().display()
        );
        // Some levels in another order, rows repeated and going back: scattered planes.
        let rows = [3, 0, 3, 7];
        let names = ["so_1", "thetao_1", "thetao_0", "zos", "so_0", "uo_1"];
        let names: Vec<Channel> = names.iter().map(|n| n.parse().unwrap()).collect();
        let some = |s: &Store| read(s, &rows, &s.positions(&names).unwrap()).unwrap().0;
        assert_eq!(some(&one), some(&other), "{}", other.path().display());
    }
}

#[test]
fn the_real_data_is_the_same_in_both_formats() {
    let stores = ["ersst_2deg_v2", "ersst_2deg_v3"].map(|f| shared(&format!("data/{f}/OM4.zarr")));
    let [Some(v2), Some(v3)] = stores else {
        return;
    };
    let all = |p: PathBuf| read_all(&Store::open(p, &strict()).unwrap()).unwrap().0;
    assert!(all(v2) == all(v3));
}

#[test]
fn a_compact_chunk_is_read_once_for_all_its_levels() {
    let Some(store) = open_fixture("A/compact_v3_zstd") else {
        return;
    };
    let levels: Vec<Channel> = (0..6).map(|k| Channel::at_level("thetao", k)).collect();
    let positions = store.positions(&levels).unwrap();
    let (_, counts) = read(&store, &[0, 1, 2], &positions).unwrap();
    assert_eq!((counts.planes, counts.chunks), (18, 3));
    let (_, counts) = read(&store, &[0, 1, 2], &positions[1..2]).unwrap();
    assert_eq!((counts.planes, counts.chunks), (3, 3));
}

const ROWS: usize = 10;
const LEVELS: usize = 4;
const NY: usize = 5;
const NX: usize = 7;

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

fn plain_store(rows: usize) -> (tempfile::TempDir, Writer) {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::new(dir.path().join("s.zarr"), false);
    writer.steady_time(rows);
    writer.flat("zos", rows, NY, NX, &Bend::default());
    writer.flat("hfds", rows, NY, NX, &Bend::default());
    (dir, writer)
}

#[test]
fn a_request_is_validated_before_anything_is_read() {
    let (_dir, writer) = plain_store(4);
    let store = Store::open(&writer.root, &strict()).unwrap();
    for (rows, channels) in [(vec![0, 4], vec![0]), (vec![0], vec![0, 2])] {
        let sink = Planes::new(rows.len() * channels.len(), NY * NX);
        let request = PlaneRequest {
            rows: &rows,
            channels: &channels,
        };
        let e = store.read(&request, &sink).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains("s.zarr"), "{e}");
        assert_eq!(sink.filled(), 0);
        assert!(store.planned_chunks(&request).is_err());
    }
    let e = store.positions(&["nope".parse().unwrap()]).unwrap_err();
    assert!(
        e.to_string().contains("nope") && e.to_string().contains("zos"),
        "{e}"
    );
}

#[test]
fn the_first_failure_in_the_order_of_the_request_is_returned() {
    let (_dir, writer) = plain_store(40);
    let store = Store::open(&writer.root, &strict()).unwrap();
    for row in [35, 17, 22] {
        std::fs::write(writer.root.join(format!("zos/{row}.0.0")), b"short").unwrap();
    }
    let rows: Vec<usize> = (0..40).collect();
    for _ in 0..20 {
        let e = read(&store, &rows, &[0, 1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert_eq!(
            (e.array_name(), e.chunk_key(), e.time_row()),
            (Some("zos"), Some("17.0.0"), Some(17))
        );
        assert_eq!(e.store_path(), Some(writer.root.as_path()));
        assert!(
            e.to_string().contains("expected 140 bytes, found 5 bytes"),
            "{e}"
        );
    }
    let backwards: Vec<usize> = rows.iter().rev().copied().collect();
    let e = read(&store, &backwards, &[1]).unwrap_err();
    assert_eq!(e.time_row(), Some(35));
}

/// A sink whose `fill` fails, panics or lends the wrong memory at one plane.
struct Faulty {
    at: usize,
    fault: Fault,
    running: AtomicUsize,
}

enum Fault {
    Error,
    Panic,
    WrongSize,
}

impl PlaneSink for Faulty {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let mut memory = vec![0.0; planes.len() * NY * NX];
        let outcome = match (&self.fault, planes.contains(&self.at)) {
            (Fault::Error, true) => Err(Error::new(ErrorKind::Device, "no memory to lend")),
            (Fault::WrongSize, true) => fill(&mut memory[1..]),
            (Fault::Panic, true) => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                panic!("the sink gave up")
            }
            _ => fill(&mut memory),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

#[test]
fn faults_of_the_sink_are_errors_and_no_thread_still_writes() {
    let (_dir, writer) = plain_store(30);
    let store = Store::open(&writer.root, &strict()).unwrap();
    let rows: Vec<usize> = (0..30).collect();
    let request = PlaneRequest {
        rows: &rows,
        channels: &[0, 1],
    };
    let run = |fault| {
        let sink = Faulty {
            at: 31,
            fault,
            running: AtomicUsize::new(0),
        };
        let e = store.read(&request, &sink).unwrap_err();
        assert_eq!(sink.running.load(Ordering::SeqCst), 0);
        e
    };
    assert_eq!(run(Fault::Error).kind(), ErrorKind::Device);
    let e = run(Fault::WrongSize);
    assert!(
        e.to_string()
            .contains("expected 35 values, found 34 values"),
        "{e}"
    );
    let e = run(Fault::Panic);
    assert_eq!(e.kind(), ErrorKind::Interrupted);
    assert!(e.to_string().contains("the sink gave up"), "{e}");
    assert_eq!((e.array_name(), e.time_row()), (Some("zos"), Some(15)));
    // The pool and its scratch are fit for the next read.
    read_all(&store).unwrap();
}

/// A sink that works with Rayon while memory is lent.
struct Nested<'a>(&'a Planes);

impl PlaneSink for Nested<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        use rayon::prelude::*;
        self.0.fill(planes, &mut |out| {
            fill(out)?;
            let sum: usize = (0..500usize).into_par_iter().map(|i| i % 7).sum();
            assert!(sum > 0);
            Ok(())
        })
    }
}

#[test]
fn reads_from_inside_other_rayon_work_come_back() {
    use rayon::prelude::*;
    let Some(store) = open_fixture("A/compact_v3_zstd") else {
        return;
    };
    let (expected, _) = read_all(&store).unwrap();
    let rows: Vec<usize> = (0..store.rows()).collect();
    let channels: Vec<usize> = (0..store.channels().len()).collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    pool.install(|| {
        (0..8).into_par_iter().for_each(|_| {
            let shape = store.shape();
            let planes = Planes::new(rows.len() * channels.len(), shape.ny * shape.nx);
            let request = PlaneRequest {
                rows: &rows,
                channels: &channels,
            };
            store.read(&request, &Nested(&planes)).unwrap();
            assert!(planes.bits() == expected);
        });
    });
}

#[test]
fn missing_chunks_are_errors_or_counted_and_listed() {
    let (_dir, writer) = plain_store(6);
    std::fs::remove_file(writer.root.join("zos/3.0.0")).unwrap();
    let store = Store::open(&writer.root, &strict()).unwrap();
    let e = read_all(&store).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::MissingChunk);
    assert_eq!(
        (e.array_name(), e.chunk_key(), e.time_row()),
        (Some("zos"), Some("3.0.0"), Some(3))
    );
    let options = strict().with_strictness(Strictness::Lenient);
    let store = Store::open(&writer.root, &options).unwrap();
    for _ in 0..2 {
        let (found, counts) = read_all(&store).unwrap();
        assert_eq!(counts.missing_chunks, 1);
        let zos = store.positions(&["zos".parse().unwrap()]).unwrap()[0];
        let fill = f32::NAN.to_bits();
        assert!(found[3 * 2 + zos].iter().all(|bits| *bits == fill));
        assert!(found[4 * 2 + zos] == plane_bits("zos", 0, 4, NY * NX));
    }
    let listed = store.missing_chunks();
    assert!(
        listed.len() == 1 && listed[0].contains("zos") && listed[0].contains("3.0.0"),
        "{listed:?}"
    );
}
