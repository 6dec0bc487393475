//! Chunk files of any bytes, by every codec path. The first byte chooses the encoding and the way of
//! reading, the rest is the file.
#![no_main]

use burn_om4::store::Store;
use burn_om4::{Channel, ReadMethod, Strictness};
use burn_om4_fuzz::{chunk_key, encodings, folder, options, write_encoded, write_seeds};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

struct Case {
    stores: Vec<Store>,
    chunk: PathBuf,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let dir = folder("chunks");
    let case = |(at, (v3, fields)): (usize, (bool, serde_json::Value))| {
        let root = dir.join(format!("{at}.zarr"));
        write_encoded(&root, v3, &fields);
        let open = |method| {
            let options = options(Strictness::Strict).with_io(method);
            Store::open(&root, &options).unwrap_or_else(|e| panic!("{fields}: {e:?}"))
        };
        Case {
            stores: [ReadMethod::Pread, ReadMethod::Mmap].map(open).into(),
            chunk: root.join(chunk_key(v3, 1)),
        }
    };
    encodings().into_iter().enumerate().map(case).collect()
});

fuzz_target!(
    init: {
        let seed = |(at, case): (usize, &Case)| {
            [vec![at as u8], std::fs::read(&case.chunk).expect("a chunk")].concat()
        };
        if std::env::var_os("OM4_FUZZ_SEEDS").is_some() {
            write_seeds(CASES.iter().enumerate().map(seed));
        }
    },
    |data: &[u8]| {
        let Some((choice, bytes)) = data.split_first() else {
            return;
        };
        let choice = *choice as usize;
        let case = &CASES[choice % CASES.len()];
        let store = &case.stores[choice / CASES.len() % case.stores.len()];
        std::fs::write(&case.chunk, bytes).expect("a chunk");
        let zos: Channel = "zos".parse().expect("a name");
        let _ = store.read_plane(&zos, 1);
    }
);
