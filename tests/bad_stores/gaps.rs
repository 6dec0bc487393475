//! Chunks that are not there: left out by a writer because they are nothing but land, or lost.

use crate::{CELLS, NX, NY, ROWS, TestStore, lenient, says, warned};
use burn_om4::ErrorKind;
use burn_om4::store::Store;
use om4_test_support::stores::{Bend, field, read, read_all};
use serde_json::{Value, json};

const PLANE: [u64; 2] = [NY as u64, NX as u64];

/// `thetao (time, level, y, x)` of two levels in chunks of `chunk`, with a fill value. On level 0 the columns 2
/// and 3 are land, on level 1 everything is.
fn store(v3: bool, chunk: [u64; 4], codecs: Option<Value>, fill: Value, named: Value) -> TestStore {
    let store = TestStore::timed(v3);
    let mut bend = Bend::fields(json!({"fill_value": fill}));
    bend.attributes = named;
    if let Some(codecs) = codecs {
        bend.fields["codecs"] = codecs;
    }
    let mut values = Vec::new();
    for row in 0..ROWS {
        for level in 0..2 {
            let plane = field("thetao", level, ROWS, NY, NX);
            let plane = &plane[row * CELLS..(row + 1) * CELLS];
            let land = |at: usize| level == 1 || at % NX > 1;
            let cell = |at: usize| if land(at) { f32::NAN } else { plane[at] };
            values.extend((0..CELLS).map(cell));
        }
    }
    let shape = [ROWS as u64, 2, NY as u64, NX as u64];
    let dims = ["time", "lev", "y", "x"];
    let writer = &store.writer;
    writer.array("thetao", &dims, &shape, &chunk, "float32", &bend, &values);
    let mask = |name: &str, wet: &dyn Fn(usize) -> bool| {
        let wet: Vec<i8> = (0..CELLS).map(|at| i8::from(wet(at))).collect();
        writer.array(
            name,
            &["y", "x"],
            &PLANE,
            &PLANE,
            "int8",
            &Bend::default(),
            &wet,
        );
    };
    mask("mask_0", &|at| at % NX < 2);
    mask("mask_1", &|_| false);
    store
}

fn remove(store: &TestStore, v3: bool, indices: [u64; 4]) {
    let [t, l, y, x] = indices;
    std::fs::remove_file(store.file(&match v3 {
        true => format!("thetao/c/{t}/{l}/{y}/{x}"),
        false => format!("thetao/{t}.{l}.{y}.{x}"),
    }))
    .unwrap();
}

#[test]
fn chunks_of_nothing_but_land_may_be_left_out() {
    for v3 in [false, true] {
        for (fill, named) in [
            (json!("NaN"), json!({})),
            (json!(1e20), json!({"_FillValue": 1e20})),
        ] {
            let full = store(v3, [1, 1, 3, 2], None, fill.clone(), named.clone());
            let (expected, _) = read_all(&full.open().unwrap()).unwrap();
            let store = store(v3, [1, 1, 3, 2], None, fill, named);
            for row in 0..ROWS as u64 {
                remove(&store, v3, [row, 0, 0, 1]);
                remove(&store, v3, [row, 1, 0, 0]);
                remove(&store, v3, [row, 1, 0, 1]);
            }
            let open = store.open().unwrap();
            let (found, counts) = read_all(&open).unwrap();
            let nan = |bits: &[Vec<u32>]| -> Vec<u32> {
                let one = |b: &u32| {
                    if f32::from_bits(*b).is_nan() {
                        0x7FC0_0000
                    } else {
                        *b
                    }
                };
                bits.concat().iter().map(one).collect()
            };
            assert_eq!(nan(&found), nan(&expected), "v3 {v3}");
            // They were never there to be missed.
            assert_eq!(counts.missing_chunks, 0);
            assert!(open.missing_chunks().is_empty());
            // With one wet cell a chunk is missed, and both causes are said.
            remove(&store, v3, [3, 0, 0, 0]);
            let e = read_all(&store.open().unwrap()).unwrap_err();
            let words = [
                "array thetao",
                "time row 3",
                "6 of its cells are wet",
                "thetao_0",
            ];
            says(&e, ErrorKind::MissingChunk, &words);
            let words = [
                "interrupted copy",
                "leaves out chunks",
                "fill value",
                "--lenient",
            ];
            says(&e, ErrorKind::MissingChunk, &words);
            let open = Store::open(store.root(), &lenient()).unwrap();
            let (_, counts) = read_all(&open).unwrap();
            assert_eq!((counts.missing_chunks, open.missing_chunks().len()), (1, 1));
        }
    }
}

#[test]
fn a_fill_value_that_is_a_value_is_not_left_out_unasked() {
    // Not named, as zarr writes it; no fill value at all; v3, where it names nothing.
    for (v3, fill) in [
        (false, json!(0.0)),
        (false, json!(null)),
        (true, json!(1e20)),
    ] {
        let store = store(v3, [1, 1, 3, 4], None, fill, json!({}));
        remove(&store, v3, [2, 1, 0, 0]);
        let e = read_all(&store.open().unwrap()).unwrap_err();
        says(
            &e,
            ErrorKind::MissingChunk,
            &["thetao", "time row 2", "not named as missing"],
        );
    }
}

#[test]
fn a_chunk_of_several_levels_is_judged_by_the_planes_that_are_wanted() {
    // Both levels of two rows in one chunk, and in one shard of single planes.
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let shard = json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1, NY, NX],
        "codecs": [little], "index_codecs": [little], "index_location": "start"}}]);
    for codecs in [None, Some(shard)] {
        let shape = [2, 2, NY as u64, NX as u64];
        let store = store(true, shape, codecs, json!("NaN"), json!({}));
        remove(&store, true, [1, 0, 0, 0]);
        let open = store.open().unwrap();
        let (found, counts) = read(&open, &[2, 3], &[1]).unwrap();
        assert!(
            found
                .concat()
                .iter()
                .all(|bits| f32::from_bits(*bits).is_nan())
        );
        assert_eq!(counts.missing_chunks, 0);
        let e = read(&open, &[3], &[1, 0]).unwrap_err();
        says(
            &e,
            ErrorKind::MissingChunk,
            &["time row 3", "channel thetao_0"],
        );
    }
}

#[test]
fn inner_chunks_of_nothing_but_land_may_be_left_out() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    // Inner chunks of a whole plane, and of half of one.
    for inner in [[1, 1, NY, NX], [1, 1, NY, 2]] {
        let codecs = json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": inner,
            "codecs": [little], "index_codecs": [little], "index_location": "start"}}]);
        let shape = [2, 2, NY as u64, NX as u64];
        let store = store(true, shape, Some(codecs), json!("NaN"), json!({}));
        let path = store.file("thetao/c/1/0/0/0");
        let good = std::fs::read(&path).unwrap();
        let per_plane = NX / inner[3];
        let without = |positions: &[usize]| {
            let mut bytes = good.clone();
            for at in positions {
                bytes[at * 16..(at + 1) * 16].fill(0xFF);
            }
            std::fs::write(&path, bytes).unwrap();
        };
        // Both halves of level 1 in both rows, and the land half of level 0.
        let mut land: Vec<usize> = [1, 3]
            .iter()
            .flat_map(|p| p * per_plane..(p + 1) * per_plane)
            .collect();
        land.extend((per_plane == 2).then_some(1));
        without(&land);
        let open = store.open().unwrap();
        let (found, counts) = read_all(&open).unwrap();
        assert_eq!(counts.missing_chunks, 0);
        let land = (0..CELLS).filter(|at| at % NX > 1);
        assert!(land.clone().all(|at| f32::from_bits(found[4][at]).is_nan()));
        assert_eq!(
            found[4][0],
            om4_test_support::stores::value("thetao", 0, 2, 0).to_bits()
        );
        assert!(found[5].iter().all(|bits| f32::from_bits(*bits).is_nan()));
        // A wet one.
        without(&[2 * per_plane]);
        let e = read_all(&store.open().unwrap()).unwrap_err();
        says(
            &e,
            ErrorKind::MissingChunk,
            &["inner chunk", "time row 3", "are wet", "lenient"],
        );
    }
}

#[test]
fn a_store_whose_outer_chunks_are_land_opens_and_one_that_runs_ahead_does_not() {
    for v3 in [false, true] {
        let one = |lost: &[[u64; 4]]| {
            let store = store(v3, [1, 1, 3, 2], None, json!("NaN"), json!({}));
            for indices in lost {
                remove(&store, v3, *indices);
            }
            store
        };
        // The last chunk is land on level 1; then the first, which is wet.
        one(&[[5, 1, 0, 1]]).open().unwrap();
        let store = one(&[[0, 0, 0, 0]]);
        crate::refused(
            &store,
            ErrorKind::MissingChunk,
            &["thetao", "time row 0", "thetao_0", "wet"],
        );
        let open = Store::open(store.root(), &lenient()).unwrap();
        warned(&open, &["a chunk is not there", "thetao"]);
    }
}
