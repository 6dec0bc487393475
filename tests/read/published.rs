//! Golden and published stores.

use crate::{open_fixture, strict};
use burn_om4::Channel;
use burn_om4::store::Store;
use om4_test_support::shared;
use om4_test_support::stores::{read, read_all};
use std::path::PathBuf;

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
