//! The ways of reading chunks: the same planes, the same errors for the same damage, and a clear
//! answer at opening from a system that does not allow one.
//!
//! That every codec, chunking and sharding reads the same in every way is in `read.rs`; the fixtures
//! are in `fixtures.rs`.

use burn_om4::ocean::PlaneSource;
use burn_om4::store::{OpenOptions, Store};
use burn_om4::synth::{Chunking, Codec, Format, Layout, SynthOptions};
use burn_om4::{Error, ErrorKind, OceanDataset, Om4Paths, ReadMethod, Strictness, parse_channels};
use om4_test_support::stores::{Bend, Writer, methods, plane_bits, read, read_all};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const NY: usize = 5;
const NX: usize = 7;
const ROWS: usize = 6;

fn options(method: ReadMethod) -> OpenOptions {
    OpenOptions::default().with_io(method)
}

/// A store, and a chunk of its array `zos` that neither opening nor probing looks at.
struct Damaged {
    what: &'static str,
    _dir: tempfile::TempDir,
    root: PathBuf,
    chunk: PathBuf,
}

impl Damaged {
    /// `whole`: one chunk per plane; otherwise two rows in a chunk, of which one is asked for.
    fn new(what: &'static str, v3: bool, chunk: [u64; 3], fields: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("s.zarr"), v3);
        writer.steady_time(ROWS);
        let shape = [ROWS as u64, NY as u64, NX as u64];
        let values = om4_test_support::stores::field("zos", 0, ROWS, NY, NX);
        let dims = ["time", "y", "x"];
        let bend = Bend::fields(fields);
        writer.array("zos", &dims, &shape, &chunk, "float32", &bend, &values);
        let root = writer.root;
        let key = if v3 { "zos/c/1/0/0" } else { "zos/1.0.0" };
        Self {
            what,
            _dir: dir,
            chunk: root.join(key),
            root,
        }
    }

    /// The row in the chunk that is asked for.
    fn row(&self) -> usize {
        let rows_in_chunk = if self.what.contains("part") || self.what.contains("shard") {
            2
        } else {
            1
        };
        rows_in_chunk + rows_in_chunk - 1
    }

    /// What reading the row gives, by each way of reading; the chunk is damaged after opening.
    fn after(&self, damage: &dyn Fn(&Path), strictness: Strictness) -> Vec<Outcome> {
        let intact = std::fs::read(&self.chunk).unwrap();
        let read_by = |method: ReadMethod| {
            let store = Store::open(&self.root, &options(method).with_strictness(strictness));
            let store = store.unwrap();
            damage(&self.chunk);
            let outcome = read(&store, &[self.row()], &[0]);
            if std::fs::symlink_metadata(&self.chunk).is_ok_and(|m| m.is_dir()) {
                std::fs::remove_dir(&self.chunk).unwrap();
            } else {
                let _ = std::fs::remove_file(&self.chunk);
            }
            std::fs::write(&self.chunk, &intact).unwrap();
            let outcome = outcome.map(|(planes, _)| planes[0].clone());
            Outcome { method, outcome }
        };
        methods(&self.root).into_iter().map(read_by).collect()
    }
}

struct Outcome {
    method: ReadMethod,
    outcome: Result<Vec<u32>, Error>,
}

/// Chunks read whole and in part, as they lie, compressed, cut and in shards.
fn stores() -> Vec<Damaged> {
    let (ny, nx) = (NY as u64, NX as u64);
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": true}});
    let blosc = json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0});
    let shards = |codecs: Value| {
        json!({"codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, NY, NX], "codecs": codecs,
            "index_codecs": [little, {"name": "crc32c"}], "index_location": "end"}}]})
    };
    vec![
        Damaged::new("plain", false, [1, ny, nx], json!({})),
        Damaged::new("plain part", true, [2, ny, nx], json!({})),
        Damaged::new("blosc", false, [1, ny, nx], json!({"compressor": blosc})),
        Damaged::new("zstd", true, [1, ny, nx], json!({"codecs": [little, zstd]})),
        Damaged::new(
            "zstd part",
            true,
            [2, ny, nx],
            json!({"codecs": [little, zstd]}),
        ),
        Damaged::new("plain shard", true, [2, ny, nx], shards(json!([little]))),
        Damaged::new(
            "zstd shard",
            true,
            [2, ny, nx],
            shards(json!([little, zstd])),
        ),
    ]
}

/// What happens to a chunk, how it is called, and the kind of error that it is.
struct Damage {
    what: &'static str,
    kind: ErrorKind,
    does: Box<dyn Fn(&Path)>,
}

impl Damage {
    fn new(what: &'static str, kind: ErrorKind, does: impl Fn(&Path) + 'static) -> Self {
        let does = Box::new(does);
        Self { what, kind, does }
    }

    /// Every store, read in every way after it, gives the same error.
    fn check(&self) {
        for store in stores() {
            for Outcome { method, outcome } in store.after(&self.does, Strictness::Strict) {
                let what = format!("{}, {}, by {method}", store.what, self.what);
                let e = outcome.expect_err(&what);
                assert_eq!(e.kind(), self.kind, "{what}: {e:?}");
                assert_eq!(e.array_name(), Some("zos"), "{what}: {e}");
                assert_eq!(e.time_row(), Some(store.row()), "{what}: {e}");
                let key = e.chunk_key().unwrap();
                assert!(store.chunk.ends_with(key), "{what}: {e}");
            }
            // And nothing of it left a trace.
            for Outcome { method, outcome } in store.after(&|_| {}, Strictness::Strict) {
                let expected = plane_bits("zos", 0, store.row(), NY * NX);
                assert!(outcome.unwrap() == expected, "{} by {method}", store.what);
            }
        }
    }
}

/// What may lie in a chunk's place, and must neither be read nor waited for.
#[cfg(unix)]
fn no_files() -> [Damage; 6] {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let instead = |what, make: fn(&Path)| {
        Damage::new(what, ErrorKind::Io, move |path| {
            std::fs::remove_file(path).unwrap();
            make(path);
        })
    };
    let pipe = |path: &Path| {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    [
        instead("a link to itself", |path| symlink(path, path).unwrap()),
        instead("a link that leads nowhere", |path| {
            symlink("nowhere", path).unwrap();
        }),
        instead("a pipe", pipe),
        instead("a socket", |path| drop(UnixListener::bind(path).unwrap())),
        instead("a device without end", |path| {
            symlink("/dev/zero", path).unwrap();
        }),
        instead("a device without bytes", |path| {
            symlink("/dev/null", path).unwrap();
        }),
    ]
}

#[test]
fn the_ways_of_reading_that_are_tested_here() {
    let store = Damaged::new("plain", false, [1, NY as u64, NX as u64], json!({}));
    let names = methods(&store.root).into_iter().map(ReadMethod::name);
    let names: Vec<&str> = names.collect();
    println!("ways of reading: {}", names.join(", "));
    assert_eq!(names[..2], ["pread", "mmap"]);
}

/// What nobody may read is an error too.
#[cfg(unix)]
#[test]
fn a_forbidden_chunk_is_the_same_error_by_every_way_of_reading() {
    om4_test_support::rights::run_without_rights("child_with_a_forbidden_chunk");
}

#[cfg(unix)]
#[test]
#[ignore = "run by a_forbidden_chunk_is_the_same_error_by_every_way_of_reading"]
fn child_with_a_forbidden_chunk() {
    use om4_test_support::rights::{forbid, may_read_everything};
    assert!(!may_read_everything());
    Damage::new("forbidden", ErrorKind::Io, forbid).check();
}

#[test]
fn damage_is_the_same_error_by_every_way_of_reading() {
    let cut = |keep: fn(usize) -> usize| {
        move |path: &Path| {
            let bytes = std::fs::read(path).unwrap();
            std::fs::write(path, &bytes[..keep(bytes.len())]).unwrap();
        }
    };
    let damages = [
        Damage::new("empty", ErrorKind::Corrupt, cut(|_| 0)),
        Damage::new("one byte", ErrorKind::Corrupt, cut(|_| 1)),
        Damage::new("half", ErrorKind::Corrupt, cut(|n| n / 2)),
        Damage::new("a byte short", ErrorKind::Corrupt, cut(|n| n - 1)),
        Damage::new("much too long", ErrorKind::Corrupt, |path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes.extend([7; 20_000]);
            std::fs::write(path, bytes).unwrap();
        }),
        Damage::new("gone", ErrorKind::MissingChunk, |path| {
            std::fs::remove_file(path).unwrap();
        }),
        Damage::new("a directory", ErrorKind::Io, |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
    ];
    damages.iter().for_each(Damage::check);
    #[cfg(unix)]
    no_files().iter().for_each(Damage::check);
}

#[test]
fn a_missing_chunk_is_fill_in_lenient_mode_and_damage_is_not() {
    for store in stores() {
        let gone = |path: &Path| std::fs::remove_file(path).unwrap();
        for Outcome { method, outcome } in store.after(&gone, Strictness::Lenient) {
            let fill = vec![f32::NAN.to_bits(); NY * NX];
            assert!(outcome.unwrap() == fill, "{} by {method}", store.what);
        }
        let empty = |path: &Path| std::fs::write(path, []).unwrap();
        for Outcome { method, outcome } in store.after(&empty, Strictness::Lenient) {
            let e = outcome.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{} by {method}", store.what);
        }
    }
}

/// Planes of several blocks and pages, so that direct reads have whole ones, in every form of store.
#[test]
fn larger_planes_are_the_same_by_every_way_of_reading() {
    let forms = [
        (Layout::Flat, Format::V2, Codec::None, Chunking::OneRow),
        (Layout::Flat, Format::V2, Codec::BloscLz4, Chunking::OneRow),
        (Layout::Flat, Format::V3, Codec::Zstd, Chunking::Shards(2)),
        (
            Layout::CompactLevTime,
            Format::V2,
            Codec::None,
            Chunking::OneRow,
        ),
        (
            Layout::CompactLevTime,
            Format::V3,
            Codec::Zstd,
            Chunking::OneRow,
        ),
        (
            Layout::CompactLevTime,
            Format::V3,
            Codec::None,
            Chunking::Shards(2),
        ),
    ];
    for (layout, format, codec, chunking) in forms {
        let dir = tempfile::tempdir().unwrap();
        SynthOptions::new(45, 90)
            .with_levels(3)
            .with_rows(4)
            .with_layout(layout)
            .with_format(format)
            .with_codec(codec)
            .with_chunking(chunking)
            .write(dir.path())
            .unwrap();
        let root = dir.path().join("OM4.zarr");
        let by = |method| Store::open(&root, &options(method)).unwrap();
        let (expected, counts) = read_all(&by(ReadMethod::Pread)).unwrap();
        let some: Vec<_> = by(ReadMethod::Pread).channels().to_vec();
        let some: Vec<usize> = (0..some.len()).step_by(2).collect();
        let (expected_some, counts_some) = read(&by(ReadMethod::Pread), &[2, 0], &some).unwrap();
        for method in methods(&root) {
            let what = format!("{layout:?} {format:?} {codec:?} {chunking:?} by {method}");
            let store = by(method);
            // `read` sees that as many chunks are read as planned.
            let (found, found_counts) = read_all(&store).unwrap();
            assert!(found == expected, "{what}");
            assert_eq!(found_counts, counts, "{what}");
            let (found, found_counts) = read(&store, &[2, 0], &some).unwrap();
            assert!(found == expected_some, "{what}");
            assert_eq!(found_counts, counts_some, "{what}");
        }
    }
}

#[test]
fn a_data_set_reads_the_way_it_is_told_and_is_the_same_data_set() {
    let dir = tempfile::tempdir().unwrap();
    let synth = SynthOptions::new(6, 12).with_levels(2).with_rows(8);
    synth.write(dir.path()).unwrap();
    let paths = Om4Paths::in_dir(dir.path());
    let channels = |names| parse_channels(names).unwrap();
    let options = burn_om4::DatasetOptions::new(channels("thetao_0, zos"), channels("hfds"));
    let text = serde_json::to_value(options.clone().with_io(ReadMethod::Mmap)).unwrap();
    assert_eq!(text["io"], "mmap");
    let mut older = text.clone();
    older.as_object_mut().unwrap().remove("io");
    let older: burn_om4::DatasetOptions = serde_json::from_value(older).unwrap();
    assert_eq!(older, options);
    let opened = OceanDataset::open(&paths, &options).unwrap();
    for io in methods(&paths.data) {
        let other = OceanDataset::open(&paths, &options.clone().with_io(io)).unwrap();
        assert_eq!(other.fingerprint(), opened.fingerprint(), "{io}");
    }
}

/// A chunk that lies where direct reads are refused.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_refuses_is_named_when_the_store_is_opened() {
    let store = Damaged::new("plain", false, [1, NY as u64, NX as u64], json!({}));
    let first = store.root.join("zos/0.0.0");
    std::fs::remove_file(&first).unwrap();
    std::os::unix::fs::symlink("/proc/self/status", &first).unwrap();
    let e = Store::open(&store.root, &options(ReadMethod::Direct)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Config, "{e:?}");
    assert_eq!(e.store_path(), Some(store.root.as_path()));
    for part in ["direct", "0.0.0", "choose another"] {
        assert!(e.to_string().contains(part), "{e}");
    }
    assert!(std::error::Error::source(&e).is_some());
    // Nobody else minds before it is read.
    Store::open(&store.root, &options(ReadMethod::Pread)).unwrap();
}

/// A store without any chunk is probed by its metadata.
#[test]
fn a_lenient_store_without_chunks_opens_in_every_way() {
    let store = Damaged::new("plain", false, [1, NY as u64, NX as u64], json!({}));
    let allowed = methods(&store.root);
    for row in 0..ROWS {
        std::fs::remove_file(store.root.join(format!("zos/{row}.0.0"))).unwrap();
    }
    for method in allowed {
        let options = options(method).with_strictness(Strictness::Lenient);
        let opened = Store::open(&store.root, &options).unwrap();
        assert_eq!(opened.rows(), ROWS);
    }
}

/// A process that may open few files is told so when it opens a store, before it reads.
#[cfg(unix)]
#[test]
fn too_few_open_files_for_the_readers_are_found_at_opening() {
    let store = Damaged::new("plain", false, [1, NY as u64, NX as u64], json!({}));
    let child = |readers: &str| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_with_few_open_files",
                "--ignored",
                "--nocapture",
            ])
            .env("FEW_FILES_STORE", &store.root)
            .env("BURN_OM4_READERS", readers)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{text}");
        text
    };
    let text = child("2");
    assert!(text.contains("opened and read"), "{text}");
    let text = child("1000");
    assert!(text.contains("refused: Config"), "{text}");
    for part in ["1000 descriptors", "of 100", "ulimit -n", "s.zarr"] {
        assert!(text.contains(part), "{text}");
    }
}

#[cfg(unix)]
#[test]
#[ignore = "run by too_few_open_files_for_the_readers_are_found_at_opening"]
fn child_with_few_open_files() {
    let Some(root) = std::env::var_os("FEW_FILES_STORE") else {
        return;
    };
    let (_, hard) = rlimit::Resource::NOFILE.get().unwrap();
    rlimit::Resource::NOFILE.set(100, hard).unwrap();
    match Store::open(root, &OpenOptions::default()) {
        Ok(store) => {
            read_all(&store).unwrap();
            println!("opened and read");
        }
        Err(e) => println!("refused: {e:?}"),
    }
}
