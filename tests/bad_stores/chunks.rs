//! Chunk files and shards: truncated, damaged, missing, unreadable.

use crate::{CELLS, NX, NY, ROWS, TestStore, lenient, says, strict};
use burn_om4::ErrorKind;
use burn_om4::store::Store;
use om4_test_support::stores::{Bend, field, plane_bits, read, read_all, value};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Compressed stores with one plane per chunk: (what, v3, fields).
fn encodings() -> Vec<(&'static str, bool, Value)> {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let gzip = json!({"name": "gzip", "configuration": {"level": 4}});
    let crc = json!({"name": "crc32c"});
    let inner = json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [1, NY, NX], "codecs": [little, zstd],
        "index_codecs": [little, crc], "index_location": "end"}});
    vec![
        ("none", false, json!({})),
        ("order F", false, json!({"order": "F"})),
        (
            "blosc",
            false,
            json!({"compressor":
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}}),
        ),
        (
            "blosc zstd",
            false,
            json!({"compressor":
            {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0}}),
        ),
        (
            "zstd",
            false,
            json!({"compressor": {"id": "zstd", "level": 3}}),
        ),
        (
            "zlib",
            false,
            json!({"compressor": {"id": "zlib", "level": 3}}),
        ),
        (
            "gzip",
            false,
            json!({"compressor": {"id": "gzip", "level": 3}}),
        ),
        ("v3 gzip", true, json!({"codecs": [little, gzip]})),
        ("v3 zstd", true, json!({"codecs": [little, zstd]})),
        ("v3 crc32c", true, json!({"codecs": [little, crc]})),
        (
            "v3 zstd crc32c",
            true,
            json!({"codecs": [little, zstd, crc]}),
        ),
        ("v3 shard", true, json!({"codecs": [inner]})),
    ]
}

fn chunk_file(store: &TestStore, v3: bool, row: usize) -> PathBuf {
    store.file(&match v3 {
        true => format!("zos/c/{row}/0/0"),
        false => format!("zos/{row}.0.0"),
    })
}

#[test]
fn truncated_chunks_are_errors_at_every_length_and_neighbours_stay_readable() {
    for (what, v3, fields) in encodings() {
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 2);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        let n = bytes.len();
        for length in [n - 1, n / 2, 16, 1, 0] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            for options in [strict(), lenient()] {
                let open = Store::open(store.root(), &options).unwrap();
                let e = read(&open, &[1, 2, 3], &[0]).expect_err(&format!("{what} {length}"));
                says(&e, ErrorKind::Corrupt, &["array zos", "2", "time row 2"]);
            }
            let (found, _) = read(&open, &[1, 3], &[0]).unwrap();
            assert_eq!(found[1], plane_bits("zos", 0, 3, CELLS), "{what}");
        }
        // Longer than it should be is as wrong.
        std::fs::write(&path, [&bytes[..], &[0; 7]].concat()).unwrap();
        let longer = read(&open, &[2], &[0]);
        says(&longer.expect_err(what), ErrorKind::Corrupt, &["array zos"]);
    }
}

#[test]
fn a_chunk_of_the_wrong_size_names_both_sizes() {
    for (what, v3, fields) in encodings() {
        // Encode planes of another size with the same codec, then put one in a chunk's place.
        let other = TestStore::timed(v3);
        let mut wide = fields.clone();
        if let Some(inner) = wide.pointer_mut("/codecs/0/configuration/chunk_shape") {
            *inner = json!([1, NY, NX + 1]);
        }
        other
            .writer
            .flat("zos", ROWS, NY, NX + 1, &Bend::fields(wide));
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        std::fs::copy(chunk_file(&other, v3, 2), chunk_file(&store, v3, 2)).unwrap();
        let e = read_all(&store.open().unwrap()).expect_err(what);
        let text = format!("{e:?}");
        says(&e, ErrorKind::Corrupt, &["array zos", "time row 2"]);
        if !matches!(what, "gzip" | "v3 gzip" | "zlib" | "order F") {
            assert!(
                text.contains("48 bytes") && text.contains("60 bytes"),
                "{what}: {text}"
            );
        }
    }
}

#[test]
fn a_flipped_byte_is_found_where_there_is_a_checksum() {
    for (what, v3, fields) in encodings() {
        if !what.contains("crc32c") {
            continue;
        }
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 4);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let e = read_all(&open).expect_err(&format!("{what} at {at}"));
            says(
                &e,
                ErrorKind::Corrupt,
                &["array zos", "chunk c/4/0/0", "checksum", "bytes 0.."],
            );
            let (found, _) = read(&open, &[3, 5], &[0]).unwrap();
            assert_eq!(found[0], plane_bits("zos", 0, 3, CELLS));
        }
    }
}

#[test]
fn damaged_bytes_never_panic_or_crash() {
    // A small generator of our own: the same damage every time.
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for (what, v3, fields) in encodings() {
        let store = TestStore::timed(v3);
        store.flat("zos", &Bend::fields(fields));
        let path = chunk_file(&store, v3, 2);
        let bytes = std::fs::read(&path).unwrap();
        let open = store.open().unwrap();
        let mut failures = 0;
        for _ in 0..300 {
            let mut bad = bytes.clone();
            for _ in 0..1 + random(4) {
                let at = random(bad.len());
                bad[at] = random(256) as u8;
            }
            std::fs::write(&path, &bad).unwrap();
            if let Err(e) = read(&open, &[2], &[0]) {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {e:?}");
                failures += 1;
            }
        }
        if !matches!(what, "none" | "order F") {
            assert!(failures > 0, "{what}");
        }
    }
}

#[test]
fn only_not_found_means_missing() {
    for options in [strict(), lenient()] {
        let store = TestStore::good(false);
        std::fs::remove_file(store.file("zos/2.0.0")).unwrap();
        std::fs::create_dir(store.file("zos/2.0.0")).unwrap();
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(
            &e,
            ErrorKind::Io,
            &["array zos", "chunk 2.0.0", "directory"],
        );
        // A file where a directory of chunks should be.
        let store = TestStore::good(true);
        std::fs::remove_dir_all(store.file("zos/c/2")).unwrap();
        std::fs::write(store.file("zos/c/2"), b"").unwrap();
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(&e, ErrorKind::Io, &["array zos", "c/2/0/0"]);
    }
}

#[cfg(unix)]
#[test]
fn a_chunk_that_may_not_be_read_is_an_error() {
    om4_test_support::rights::run_without_rights("chunks::child_with_a_forbidden_chunk");
}

#[cfg(unix)]
#[test]
#[ignore = "run by a_chunk_that_may_not_be_read_is_an_error"]
fn child_with_a_forbidden_chunk() {
    use om4_test_support::rights::{forbid, may_read_everything};
    assert!(!may_read_everything());
    let store = TestStore::good(false);
    forbid(&store.file("zos/2.0.0"));
    for options in [strict(), lenient()] {
        let open = Store::open(store.root(), &options).unwrap();
        let e = read_all(&open).unwrap_err();
        says(
            &e,
            ErrorKind::Io,
            &["array zos", "chunk 2.0.0", "time row 2", "denied"],
        );
    }
}

#[test]
fn inner_chunks_that_are_not_there_are_missing_only_where_they_are_wanted() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    for inner in [[1, NY, NX], [2, 1, 2], [3, NY, NX]] {
        let codec = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": inner,
            "codecs": [little], "index_codecs": [little], "index_location": "start"}});
        let store = TestStore::timed(true);
        let bend = Bend::fields(json!({"codecs": [codec], "fill_value": -3.0}));
        let shape = [ROWS as u64, NY as u64, NX as u64];
        let values = field("zos", 0, ROWS, NY, NX);
        store.writer.array(
            "zos",
            &["time", "y", "x"],
            &shape,
            &shape,
            "float32",
            &bend,
            &values,
        );
        // Take the last inner chunk of the last rows out of the index.
        let path = store.file("zos/c/0/0/0");
        let mut bytes = std::fs::read(&path).unwrap();
        let counts = ROWS / inner[0] * (NY / inner[1]) * (NX / inner[2]);
        bytes[(counts - 1) * 16..counts * 16].fill(0xFF);
        std::fs::write(&path, bytes).unwrap();
        let open = store.open().unwrap();
        let e = read_all(&open).unwrap_err();
        let row = ROWS - inner[0];
        let place = format!("time row {row}");
        says(
            &e,
            ErrorKind::MissingChunk,
            &["array zos", "inner chunk", "c/0/0/0", &place],
        );
        let (found, _) = read(&open, &[0, 1, 2], &[0]).unwrap();
        assert_eq!(found[2], plane_bits("zos", 0, 2, CELLS));
        let open = Store::open(store.root(), &lenient()).unwrap();
        let (found, counts) = read(&open, &[5, 0], &[0]).unwrap();
        assert_eq!(counts.missing_chunks, 1, "{inner:?}");
        assert_eq!(open.missing_chunks().len(), 1);
        assert_eq!(found[1], plane_bits("zos", 0, 0, CELLS));
        for (cell, bits) in found[0].iter().enumerate() {
            let (y, x) = (cell / NX, cell % NX);
            let gone = y / inner[1] == NY / inner[1] - 1 && x / inner[2] == NX / inner[2] - 1;
            let expected = if gone { -3.0 } else { value("zos", 0, 5, cell) };
            assert_eq!(*bits, expected.to_bits(), "{inner:?} cell {cell}");
        }
    }
}

#[test]
fn a_shard_index_that_leaves_the_shard_is_corrupt() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let codec = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [1, NY, NX],
        "codecs": [little], "index_codecs": [little], "index_location": "start"}});
    let store = TestStore::timed(true);
    let shape = [ROWS as u64, NY as u64, NX as u64];
    let values = field("zos", 0, ROWS, NY, NX);
    let bend = Bend::fields(json!({"codecs": [codec]}));
    store.writer.array(
        "zos",
        &["time", "y", "x"],
        &shape,
        &shape,
        "float32",
        &bend,
        &values,
    );
    let path = store.file("zos/c/0/0/0");
    let good = std::fs::read(&path).unwrap();
    let open = store.open().unwrap();
    let entries: [(u64, u64); 4] = [
        (0, 1 << 40),
        (u64::MAX - 1, 48),
        (1 << 62, 1 << 62),
        (96, 44),
    ];
    for (offset, length) in entries {
        let mut bad = good.clone();
        bad[32..40].copy_from_slice(&offset.to_le_bytes());
        bad[40..48].copy_from_slice(&length.to_le_bytes());
        std::fs::write(&path, bad).unwrap();
        let e = read(&open, &[2], &[0]).unwrap_err();
        says(&e, ErrorKind::Corrupt, &["array zos", "c/0/0/0"]);
    }
}
