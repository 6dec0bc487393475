//! Who may know whom: planning knows neither zarrs nor Burn, reading never Burn, the device side
//! never zarrs, and the models depend on Burn alone.

use std::fs;
use std::path::{Path, PathBuf};

const PLANNING: &[&str] = &[
    "arrange",
    "calendar",
    "claims",
    "conformance",
    "cpython_random",
    "error",
    "groups",
    "permutation",
    "place",
    "plan",
    "prefetch",
    "queue",
    "read",
    "readers",
    "samudra_order",
    "schedule",
    "schema",
    "slots",
    "split",
    "state",
    "sync",
    "time",
    "trace",
    "window",
];
const READING: &[&str] = &[
    "array", "blosc", "carry", "codec", "dims", "grid", "group", "keys", "local", "lz4", "mask",
    "naming", "numbers", "options", "pool", "reader", "shard", "stats", "store",
];
/// Writes stores; knows what reading knows.
const WRITING: &[&str] = &["synth"];
const DEVICE: &[&str] = &[
    "augment",
    "batch",
    "batcher",
    "counters",
    "dataset",
    "device",
    "fingerprint",
    "host",
    "host_batch",
    "kernel",
    "lane",
    "loader",
    "mirror",
    "noise",
    "ocean",
    "pass",
    "precision",
    "prepare",
    "sink",
    "sources",
    "testing",
    "transfer",
    "upload",
];

fn sources() -> Vec<(String, PathBuf)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![(src, None::<String>)];
    while let Some((folder, module)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let module = module.clone().unwrap_or(stem);
            if path.is_dir() {
                folders.push((path, Some(module)));
            } else {
                found.push((module, path));
            }
        }
    }
    found
}

/// Code lines, without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|l| !l.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn layers_know_only_what_lies_below() {
    let mut seen = 0;
    for (module, path) in sources() {
        let code = code(&path);
        let knows = |name: &str| code.contains(&format!("{name}::"));
        let m = module.as_str();
        let (zarrs, burn) = if PLANNING.contains(&m) || m == "lib" || m == "book" {
            (false, false)
        } else if READING.contains(&m) || WRITING.contains(&m) {
            (true, false)
        } else if DEVICE.contains(&m) {
            (false, true)
        } else {
            panic!(
                "{} is in no layer: add it to the list it belongs to",
                path.display()
            );
        };
        assert!(
            zarrs || !knows("zarrs"),
            "{} must not know zarrs",
            path.display()
        );
        assert!(
            burn || !knows("burn") && !knows("burn_std"),
            "{} must not know burn",
            path.display()
        );
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} source files found");
}

#[test]
fn unsafe_code_lives_in_four_places() {
    // Memory that Burn and the reader share, the one call of the C library of blosc, the mapping of a
    // file, and the memory that is lent to a ring.
    const UNSAFE: [&str; 5] = [
        "host.rs",
        "host",
        "blosc.rs",
        "local/mapped.rs",
        "local/ring.rs",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (_, path) in sources() {
        let inside = path.strip_prefix(&src).unwrap();
        if !UNSAFE.iter().any(|place| inside.starts_with(place)) {
            assert!(
                !code(&path).contains("unsafe"),
                "{} has unsafe code",
                path.display()
            );
        }
    }
}

#[test]
fn models_depend_on_burn_alone() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/samudra");
    let manifest = fs::read_to_string(models.join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("burn-om4") && !manifest.contains("zarrs"));
}
