//! Requests, sinks and chunks that fail.

use crate::{NX, NY, open_fixture, strict};
use burn_om4::ocean::{PlaneRequest, PlaneSink, PlaneSource};
use burn_om4::store::Store;
use burn_om4::{Error, ErrorKind, Result, Strictness};
use om4_test_support::stores::{Bend, Planes, Writer, plane_bits, read, read_all};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

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
