//! Whole small stores, damaged here and there: five bytes are one change to one file.
#![no_main]

use burn_om4::Strictness;
use burn_om4::synth::{Format, Layout};
use burn_om4_fuzz::{files, folder, read_statistics, read_store, synthetic, write_seeds};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

struct Intact {
    dir: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

static STORES: LazyLock<Vec<Intact>> = LazyLock::new(|| {
    let base = folder("stores");
    let kinds = [
        (Format::V2, Layout::Flat),
        (Format::V3, Layout::Flat),
        (Format::V2, Layout::CompactLevTime),
        (Format::V3, Layout::CompactTimeLev),
    ];
    let intact = |(at, (format, layout)): (usize, (Format, Layout))| {
        let dir = base.join(at.to_string());
        synthetic(&dir, format, layout);
        read_store(&dir, Strictness::Strict).expect("a good store");
        read_statistics(&dir, Strictness::Strict).expect("good statistics");
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).expect("a file");
            (path, bytes)
        };
        Intact {
            files: files(&dir).into_iter().map(read).collect(),
            dir,
        }
    };
    kinds.into_iter().enumerate().map(intact).collect()
});

/// Numbers that stand in documents where they should not.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "2",
    "255",
    "65536",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e30",
    "-1e30",
    "NaN",
    "Infinity",
    "null",
    "\"x\"",
    "[]",
];

fn change(path: &Path, intact: &[u8], [kind, high, low, value]: [u8; 4]) {
    let at = usize::from(u16::from_be_bytes([high, low]));
    let mut bytes = std::fs::read(path).unwrap_or_else(|_| intact.to_vec());
    let place = at % bytes.len().max(1);
    match kind % 8 {
        0 | 1 => bytes[place..]
            .iter_mut()
            .take(1)
            .for_each(|b| *b ^= value.max(1)),
        2 => bytes.truncate(place),
        3 => bytes.extend(std::iter::repeat_n(value, at % 4096)),
        4 => return drop(std::fs::remove_file(path)),
        5 => bytes[place..].iter_mut().take(8).for_each(|b| *b = value),
        _ => bytes = with_number(&bytes, at, NUMBERS[usize::from(value) % NUMBERS.len()]),
    }
    let _ = std::fs::write(path, bytes);
}

/// The document with another number in the place of the one that is `at`-th, going around.
fn with_number(bytes: &[u8], at: usize, number: &str) -> Vec<u8> {
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&i| digit(i) && (i == 0 || !digit(i - 1)))
        .collect();
    let Some(&start) = starts.get(at % starts.len().max(1)) else {
        return bytes.to_vec();
    };
    let end = (start..).find(|&i| !digit(i)).unwrap_or(bytes.len());
    [&bytes[..start], number.as_bytes(), &bytes[end..]].concat()
}

fuzz_target!(
    init: {
        if std::env::var_os("OM4_FUZZ_SEEDS").is_some() {
            let seeds = (0..4u8).flat_map(|store| {
                (0..STORES[usize::from(store)].files.len() as u8).flat_map(move |file| {
                    (0..8u8).map(move |kind| vec![store, file, kind, 0, kind * 31, 7 + kind])
                })
            });
            write_seeds(seeds);
        }
    },
    |data: &[u8]| {
        let Some((choice, changes)) = data.split_first() else {
            return;
        };
        let store = &STORES[usize::from(*choice) % STORES.len()];
        let mut changed = Vec::new();
        for [file, how @ ..] in changes.as_chunks::<5>().0.iter().take(8) {
            let (path, intact) = &store.files[usize::from(*file) % store.files.len()];
            change(path, intact, *how);
            changed.push((path, intact));
        }
        let strictness = match choice / 4 % 2 {
            0 => Strictness::Strict,
            _ => Strictness::Lenient,
        };
        // Each once, even where all changes are to one of them.
        let in_store = |(path, _): &&(&PathBuf, &Vec<u8>)| path.starts_with(store.dir.join("OM4.zarr"));
        if changed.iter().any(|c| in_store(&c)) {
            let _ = read_store(&store.dir, strictness);
        }
        if changed.iter().any(|c| !in_store(&c)) {
            let _ = read_statistics(&store.dir, strictness);
        }
        for (path, intact) in changed {
            std::fs::write(path, intact).expect("a file");
        }
    }
);
