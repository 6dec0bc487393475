//! Stores whose numbers ask for more than there is: an error that says so, in a process of its own that may
//! have 2 GiB, and never an abort or a wait.
#![cfg(target_os = "linux")]

use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Statistics, Store, WetMasks};
use burn_om4::{ErrorKind, ReadMethod, Result, StoreLimits, Strictness};
use om4_test_support::stores::{Bend, Writer, read};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const ROWS: usize = 3;
const NY: usize = 3;
const NX: usize = 4;

/// What the child may have.
const LIMIT: &str = "2097152";

#[test]
fn hostile_stores_are_errors_within_2_gib() {
    let exe = std::env::current_exe().unwrap();
    let script =
        format!("ulimit -v {LIMIT} && exec \"$0\" --exact child_opens_them --ignored --nocapture");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(exe)
        .env("BURN_OM4_READERS", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by hostile_stores_are_errors_within_2_gib"]
fn child_opens_them() {
    let mut failures = Vec::new();
    for (what, kinds, build) in hostile() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s.zarr");
        build(&root);
        for strictness in [Strictness::Strict, Strictness::Lenient] {
            println!("{what}");
            match open_and_read(&root, strictness) {
                Ok(()) => failures.push(format!("{what}: reads")),
                Err(e) if !kinds.contains(&e.kind()) => failures.push(format!("{what}: {e:?}")),
                Err(e) => println!("  {e}"),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn open_and_read(root: &Path, strictness: Strictness) -> Result<()> {
    for io in [ReadMethod::Pread, ReadMethod::Mmap] {
        let options = OpenOptions::default()
            .with_strictness(strictness)
            .with_io(io);
        if root.join("statistics").exists() {
            let options = options.with_channels(["so_0".parse()?]);
            Statistics::open(root, root, &options)?;
            continue;
        }
        let store = Store::open(root, &options)?;
        if store.masks().levels().len() == 0 && root.join("wetmask").exists() {
            WetMasks::open(root, &options)?;
        }
        let row = store.rows() / 2;
        read(&store, &[row], &[0])?;
    }
    Ok(())
}

type Build = Box<dyn Fn(&Path)>;

/// A store of three rows of `zos` with another document.
fn with(v3: bool, array: &'static str, fields: Value) -> Build {
    Box::new(move |root| {
        let writer = good(root, v3, &Bend::default());
        writer.edit(array, |d| d.extend(fields.as_object().unwrap().clone()));
    })
}

fn good(root: &Path, v3: bool, bend: &Bend) -> Writer {
    let writer = Writer::new(root, v3);
    writer.steady_time(ROWS);
    writer.flat("zos", ROWS, NY, NX, bend);
    writer
}

/// A store whose second chunk is this file.
fn chunk(fields: Value, write: impl Fn(&mut File) + 'static) -> Build {
    Box::new(move |root| {
        good(root, false, &Bend::fields(fields.clone()));
        write(&mut File::create(root.join("zos/1.0.0")).unwrap());
    })
}

/// A store whose time coordinate, of bytes compressed like this, is this file.
fn time(compressor: Value, write: impl Fn(&mut File) + 'static) -> Build {
    Box::new(move |root| {
        let writer = good(root, false, &Bend::default());
        let compressor = compressor.clone();
        writer.edit("time", |d| drop(d.insert("compressor".into(), compressor)));
        write(&mut File::create(root.join("time/0")).unwrap());
    })
}

fn sparse(file: &mut File) {
    file.set_len(1 << 40).unwrap();
}

/// `copies` times a piece that decodes to 16 MiB of zeros.
fn bomb(piece: impl Fn(&[u8]) -> Vec<u8>, copies: usize) -> Vec<u8> {
    piece(&vec![0; 16 << 20]).repeat(copies)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

fn shards(chunk: Value, inner: Value, shape: Value, file: impl Fn(&mut File) + 'static) -> Build {
    Box::new(move |root| {
        let writer = good(root, true, &Bend::default());
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        writer.edit("zos", |d| {
            d.insert("shape".into(), shape.clone());
            d["chunk_grid"]["configuration"]["chunk_shape"] = chunk.clone();
            d.insert(
                "codecs".into(),
                json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner, "codecs": [little], "index_codecs": [little],
                "index_location": "start"}}]),
            );
        });
        file(&mut File::create(root.join("zos/c/0/0/0")).unwrap());
    })
}

type Case = (&'static str, &'static [ErrorKind], Build);

const METADATA: &[ErrorKind] = &[ErrorKind::Metadata];
const CORRUPT: &[ErrorKind] = &[ErrorKind::Corrupt];
/// No memory is what the system says.
const NO_MEMORY: &[ErrorKind] = &[ErrorKind::Io, ErrorKind::Corrupt];

fn zstd_codec() -> Value {
    json!({"id": "zstd", "level": 1})
}

fn gzip_codec() -> Value {
    json!({"id": "gzip", "level": 1})
}

fn blosc_codec() -> Value {
    json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})
}

fn hostile() -> Vec<Case> {
    let mut all = shapes();
    all.extend(documents());
    all.extend(chunks());
    all.extend(times());
    all.extend(in_shards());
    all
}

#[rustfmt::skip]
fn shapes() -> Vec<Case> {
    let huge = u64::MAX;
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [1, 1u64 << 40, 1u64 << 40]}});
    let beyond_memory = json!({"chunks": [1, 1 << 14, 1 << 15], "compressor": zstd_codec()});
    vec![
        ("chunks beyond 2^64", METADATA, with(true, "zos", json!({"chunk_grid": grid}))),
        ("chunks beyond the limit", METADATA, with(false, "zos", json!({"chunks": [1, 1 << 16, 1 << 16]}))),
        ("chunks within the limit and beyond memory", NO_MEMORY, with(false, "zos", beyond_memory)),
        ("as many rows as there are numbers", METADATA, with(true, "time", json!({"shape": [huge]}))),
        ("ten million million times", METADATA, with(false, "time", json!({"shape": [10_000_000_000_000u64]}))),
        ("a time to a chunk", METADATA, with(false, "time", json!({"shape": [10_000_000], "chunks": [1]}))),
        ("times in a chunk beyond memory", NO_MEMORY,
            with(false, "time", json!({"chunks": [500_000_000], "compressor": zstd_codec()}))),
        ("rows beyond the times", METADATA, with(true, "zos", json!({"shape": [huge, NY, NX]}))),
        ("cells beyond 2^64", METADATA, with(true, "zos", json!({"shape": [ROWS, huge, huge]}))),
        ("a plane of 16 TB", METADATA, with(false, "zos", json!({"shape": [ROWS, 1 << 21, 1 << 21]}))),
    ]
}

/// A good store and one document more.
fn and(
    name: &'static str,
    dims: &'static [&'static str],
    shape: &'static [u64],
    chunk: &'static [u64],
) -> Build {
    Box::new(move |root| {
        let writer = good(root, true, &Bend::default());
        writer.document(name, dims, shape, chunk, "float32", &Bend::default());
    })
}

#[rustfmt::skip]
fn documents() -> Vec<Case> {
    const MANY: u64 = 1_000_000_000_000;
    vec![
        ("a document of a terabyte", METADATA, Box::new(|root| {
            good(root, false, &Bend::default());
            sparse(&mut File::options().write(true).open(root.join("time/.zattrs")).unwrap());
        })),
        ("a document as deep as it is long", METADATA, Box::new(|root| {
            good(root, false, &Bend::default());
            std::fs::write(root.join(".zgroup"), "[".repeat(4 << 20)).unwrap();
        })),
        ("a million million levels", METADATA,
            and("so", &["time", "lev", "y", "x"], &[3, MANY, 3, 4], &[1, 1, 3, 4])),
        ("a level coordinate without end", METADATA, Box::new(|root| {
            and("wetmask", &["lev", "y", "x"], &[1, 3, 4], &[1, 3, 4])(root);
            let writer = Writer::new(root, true);
            writer.document("lev", &["lev"], &[u64::MAX], &[u64::MAX], "float64", &Bend::default());
        })),
        ("a mask of a million levels", METADATA,
            and("wetmask", &["lev", "y", "x"], &[1 << 30, 3, 4], &[1 << 30, 3, 4])),
        ("a mask of eight million levels, none of them there", METADATA,
            and("wetmask", &["lev", "y", "x"], &[8 << 20, 3, 4], &[8 << 20, 3, 4])),
        ("an area of 8 EB", METADATA, and("areacello", &["y", "x"], &[1 << 30, 1 << 30], &[1, 1])),
        ("statistics of a million million levels", METADATA, Box::new(|root| {
            let writer = Writer::new(root, true);
            std::fs::create_dir(root.join("statistics")).unwrap();
            writer.document("so", &["lev"], &[MANY], &[1], "float64", &Bend::default());
        })),
    ]
}

#[rustfmt::skip]
fn chunks() -> Vec<Case> {
    let f_order = |codec: Value| json!({"order": "F", "compressor": codec});
    vec![
        ("a plain chunk of a terabyte", CORRUPT, chunk(json!({}), sparse)),
        ("a zstd chunk of a terabyte", CORRUPT, chunk(json!({"compressor": zstd_codec()}), sparse)),
        ("a blosc chunk of a terabyte", CORRUPT, chunk(json!({"compressor": blosc_codec()}), sparse)),
        ("a gzip chunk of a terabyte", CORRUPT, chunk(json!({"compressor": gzip_codec()}), sparse)),
        ("a filtered chunk of a terabyte", CORRUPT, chunk(f_order(zstd_codec()), sparse)),
        ("a gzip bomb", CORRUPT,
            chunk(f_order(gzip_codec()), |f| f.write_all(&bomb(gzip, 200)).unwrap())),
        ("a zstd bomb", CORRUPT,
            chunk(f_order(zstd_codec()), |f| f.write_all(&bomb(zstd, 200)).unwrap())),
        ("a zstd frame that says 2^60", CORRUPT, chunk(f_order(zstd_codec()), |f| {
            // Magic, a descriptor of an 8-byte size without a window, the size, an empty last block.
            let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0xE0];
            frame.extend((1u64 << 60).to_le_bytes());
            frame.extend([1, 0, 0]);
            f.write_all(&frame).unwrap();
        })),
        ("a blosc header that says 2 GiB", CORRUPT, chunk(f_order(blosc_codec()), |f| {
            let words = [0x0401_2102u32, 0x7fff_ffff, 0x7fff_ffff, 16];
            f.write_all(bytemuck::cast_slice(&words)).unwrap();
        })),
    ]
}

#[rustfmt::skip]
fn times() -> Vec<Case> {
    vec![
        ("times in a terabyte", CORRUPT, time(Value::Null, sparse)),
        ("times in a gzip bomb", CORRUPT,
            time(gzip_codec(), |f| f.write_all(&bomb(gzip, 200)).unwrap())),
        ("times in a zstd bomb", CORRUPT,
            time(zstd_codec(), |f| f.write_all(&bomb(zstd, 200)).unwrap())),
        ("times in a blosc header", CORRUPT, time(blosc_codec(), |f| {
            let words = [0x0801_2102u32, 0x7fff_ffff, 0x7fff_ffff, 16];
            f.write_all(bytemuck::cast_slice(&words)).unwrap();
        })),
        ("times in LZ4 that says 4 GiB", CORRUPT,
            time(json!({"id": "lz4", "acceleration": 1}), |f| f.write_all(&[0xff; 12]).unwrap())),
    ]
}

#[rustfmt::skip]
fn in_shards() -> Vec<Case> {
    let shape = json!([ROWS, NY, NX]);
    vec![
        ("a shard's index beyond the limit", METADATA,
            shards(json!([1 << 20, 1 << 20, 4]), json!([1, 1, 4]), shape.clone(), sparse)),
        ("an inner chunk of a terabyte", CORRUPT,
            shards(json!([3, 3, 4]), json!([1, 3, 4]), shape.clone(), |f| {
                let entries = [[48u64, 1 << 39]; 3];
                f.write_all(bytemuck::cast_slice(&entries)).unwrap();
                sparse(f);
            })),
        ("an index beyond memory in a terabyte", NO_MEMORY,
            shards(json!([1 << 14, 1 << 14, 4]), json!([1, 1, 4]), shape, sparse)),
    ]
}

#[test]
fn limits_are_options_and_errors_say_both_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s.zarr");
    good(&root, false, &Bend::default());
    let open =
        |limits: StoreLimits| Store::open(&root, &OpenOptions::default().with_limits(limits));
    let exact = StoreLimits::default()
        .with_chunk_bytes(48)
        .with_small_bytes(24);
    open(exact).unwrap();
    for (limits, words) in [
        (
            exact.with_chunk_bytes(47),
            ["array zos", "at most 47 bytes", "48 bytes"],
        ),
        (
            exact.with_small_bytes(23),
            ["array time", "at most 23 bytes", "24 bytes"],
        ),
        (
            exact.with_document_bytes(10),
            [".zgroup", "at most 10 bytes", "17 bytes"],
        ),
    ] {
        let e = open(limits).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Metadata, "{e:?}");
        for word in words {
            assert!(format!("{e:?}").contains(word), "`{word}` is not in: {e:?}");
        }
    }
}
