//! Folders are stages, and no import runs up: the table says what each may use, and the tests hold it
//! on the real imports, through all re-exports.
//!
//! `graph` leads every path in the code to the file that defines its item; `limits` looks at sizes,
//! names and words; `planted` shows that each check finds what it is there for.

mod graph;
mod limits;
mod modules;
mod planted;
mod source;

use graph::{Edges, Graph, circles, folder, folders};
use limits::{Word, files_with};
use source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A stage and what it may use: folders above it in the table, and external crates.
struct Row {
    folder: &'static str,
    uses: &'static [&'static str],
    crates: &'static [&'static str],
}

const fn row(
    folder: &'static str,
    uses: &'static [&'static str],
    crates: &'static [&'static str],
) -> Row {
    Row {
        folder,
        uses,
        crates,
    }
}

/// From the bottom up. Planning (`order`, `plan`) knows neither zarrs nor Burn, reading (`zarr`,
/// `store`) never Burn, the device side never zarrs.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    // What everything stands on.
    row("error", &[], &["thiserror"]),
    row("sync", &[], &[]),
    row("splitmix", &[], &[]),
    row("options", &["error"], &[]),
    row("open_files", &["error", "sync"], &["rlimit"]),
    row("threads", &["error", "sync", "open_files"], &["rayon"]),
    // The vocabulary, and planning: plain data.
    row("ocean", &["error", "sync"], &[]),
    row("order", &["error", "splitmix"], &["rand_mt", "siphasher"]),
    row("plan", &["error"], &[]),
    // What is done to a plane. Of Burn it knows types of data.
    row("prepare", &["ocean"], &["burn", "half", "multiversion"]),
    row("observe", &["error", "sync", "ocean", "prepare"], &[]),
    row("dataset", &["error", "sync", "options", "ocean", "order", "plan", "prepare"], &["burn"]),
    // Memory, and from there to the model.
    row("host", &["error", "sync", "threads", "ocean", "plan", "prepare", "dataset"], &["burn_std", "cudarc", "libc", "rayon"]),
    row("device", &["error", "sync", "ocean", "order", "plan", "prepare", "observe", "dataset", "host"], &["burn", "burn_cubecl", "crossbeam"]),
    row("augment", &["error", "ocean", "order", "plan", "prepare", "dataset", "device"], &["burn"]),
    row("loader", &["error", "sync", "threads", "order", "plan", "prepare", "observe", "dataset", "host", "device", "augment"], &["burn", "crossbeam"]),
    // Reading.
    row("zarr", &["error", "sync", "options"], &["base64", "blosc_src", "crc32c", "flate2", "half", "io_uring", "libc", "lz4_flex", "memmap2", "rustix", "zarrs", "zstd"]),
    row("store", &["error", "sync", "options", "open_files", "threads", "ocean", "zarr"], &["rayon"]),
    // Channels that follow from others: a source over a source.
    row("derive", &["error", "ocean", "order", "host"], &[]),
    // From paths to data sets.
    row("open", &["error", "options", "ocean", "order", "prepare", "dataset", "store", "derive"], &[]),
    // Stores looked at as a whole.
    row("survey", &["error", "sync", "options", "threads", "ocean", "zarr", "store", "open"], &["multiversion", "rayon"]),
    // Stores written, and all that helps tests of one's own.
    row("synth", &["error", "splitmix", "ocean", "zarr"], &["rayon", "zarrs"]),
    row("testing", &["error", "sync", "ocean", "prepare", "dataset", "host", "device", "zarr"], &["burn", "burn_cubecl", "siphasher"]),
];

/// Crates of plain data and errors, for every stage.
const PLAIN: &[&str] = &["bytemuck", "log", "serde", "serde_json", "smallvec"];

/// Files of `src` that hold unsafe code; CONTRIBUTING.md names them.
const UNSAFE: &[&str] = &[
    "bin/om4/limit.rs",
    "bin/om4/meter.rs",
    "host/allocator.rs",
    "host/poisoned.rs",
    "host/pool.rs",
    "zarr/codec/blosc.rs",
    "zarr/files/mapping.rs",
    "zarr/files/ring.rs",
];

/// The same of `models`.
const UNSAFE_MODELS: &[&str] = &[
    "models/samudra/src/cpu/matrix.rs",
    "models/samudra/src/cpu/memory.rs",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The library's files. Programs in `src/bin` are crates of their own.
fn library() -> Vec<Source> {
    let mut sources = source::read(&root().join("src"));
    sources.retain(|s| !s.path.starts_with("bin/"));
    assert!(sources.len() > 80, "only {} files found", sources.len());
    sources
}

/// Crates that the manifest names, as code spells them.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            inside = header.trim_end_matches(']').ends_with("dependencies");
        } else if let (true, Some((name, _))) = (inside, line.split_once('='))
            && !line.starts_with('#')
        {
            let name = name.trim().split('.').next().unwrap_or(name);
            found.insert(name.replace('-', "_"));
        }
    }
    found.into_iter().collect()
}

/// The library's own imports.
fn imports() -> Graph {
    let graph = Graph::new(&library(), &dependencies(&root().join("Cargo.toml")));
    let edges: usize = graph.files.values().map(BTreeSet::len).sum();
    assert!(edges > 200, "only {edges} imports found");
    graph
}

/// The crate's front and its book name what they show.
fn is_front(file: &str) -> bool {
    matches!(file, "lib.rs" | "book.rs")
}

/// Imports that the table does not allow.
fn not_allowed(table: &[Row], files: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    for (from, uses) in files.iter().filter(|(from, _)| !is_front(from)) {
        let row = table.iter().find(|row| row.folder == folder(from));
        for to in uses {
            let inside = folder(from) == folder(to);
            if !inside && !row.is_some_and(|row| row.uses.contains(&folder(to))) {
                found.push(format!("{from} uses {to}"));
            }
        }
    }
    found
}

/// External crates that the table does not allow.
fn foreign(table: &[Row], crates: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    for (from, uses) in crates.iter().filter(|(from, _)| !is_front(from)) {
        let row = table.iter().find(|row| row.folder == folder(from));
        for to in uses.iter().filter(|to| !PLAIN.contains(&to.as_str())) {
            if !row.is_some_and(|row| row.crates.contains(&to.as_str())) {
                found.push(format!("{from} uses the crate {to}"));
            }
        }
    }
    found
}

/// Rows that use something below themselves or nothing that the table has.
fn runs_up(table: &[Row]) -> Vec<String> {
    let mut above = BTreeSet::new();
    let mut found = Vec::new();
    for row in table {
        for uses in row.uses.iter().filter(|uses| !above.contains(*uses)) {
            found.push(format!("{} may use {uses}", row.folder));
        }
        above.insert(row.folder);
    }
    found
}

/// What the table allows and nobody needs.
fn stale(table: &[Row], graph: &Graph) -> Vec<String> {
    let edges = folders(&graph.files);
    let mut found = Vec::new();
    for row in table {
        let uses = edges.get(row.folder);
        for name in row.uses {
            if !uses.is_some_and(|uses| uses.contains(*name)) {
                found.push(format!("{} does not use {name}", row.folder));
            }
        }
        let files = graph.crates.iter().filter(|(f, _)| folder(f) == row.folder);
        let crates: BTreeSet<&str> = files.flat_map(|(_, c)| c).map(String::as_str).collect();
        for name in row.crates.iter().filter(|name| !crates.contains(*name)) {
            found.push(format!("{} does not use the crate {name}", row.folder));
        }
    }
    found
}

/// Files of a folder of the project, and of all packages below it.
fn below(folders: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in folders {
        for mut source in source::read(&root().join(folder)) {
            source.path = format!("{folder}/{}", source.path);
            sources.push(source);
        }
    }
    sources
}

const EVERYTHING: &[&str] = &["src", "tests", "examples", "benches", "models"];

fn none(found: Vec<String>, what: &str) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn the_table_itself_runs_down() {
    none(runs_up(TABLE), "the table");
}

#[test]
fn a_folder_uses_only_what_its_row_lists() {
    none(not_allowed(TABLE, &imports().files), "not in the table");
}

#[test]
fn external_crates_are_used_where_the_table_says() {
    none(foreign(TABLE, &imports().crates), "not in the table");
}

#[test]
fn the_table_allows_no_more_than_is_used() {
    none(stale(TABLE, &imports()), "allowed for nothing");
}

#[test]
fn no_circle_ties_folders_or_files() {
    let mut files = imports().files;
    files.retain(|from, _| !is_front(from));
    let text = |circles: Vec<Vec<String>>| circles.iter().map(|c| c.join(", ")).collect();
    none(text(circles(&folders(&files))), "circles of folders");
    none(text(circles(&files)), "circles of files");
    for program in ["src/bin/om4", "models/samudra/src", "models/training/src"] {
        let graph = Graph::new(&source::read(&root().join(program)), &[]);
        let mut files = graph.files;
        assert!(files.len() > 5, "{program}");
        files.retain(|from, _| !is_front(from) && from != "main.rs");
        none(text(circles(&files)), program);
    }
}

#[test]
fn unsafe_code_lives_where_contributing_says() {
    let sources = source::read(&root().join("src"));
    assert_eq!(files_with(&sources, Word::Unsafe), UNSAFE);
    let models = below(&["models"]);
    assert_eq!(files_with(&models, Word::Unsafe), UNSAFE_MODELS);
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    for file in UNSAFE {
        assert!(text.contains(&format!("`src/{file}`")), "{file}");
    }
    for file in UNSAFE_MODELS {
        assert!(text.contains(&format!("`{file}`")), "{file}");
    }
}

#[test]
fn files_and_functions_stay_small() {
    let sources = below(EVERYTHING);
    none(limits::long_files(&sources), "too long");
    none(limits::long_functions(&sources), "too long");
    none(
        limits::too_many_in_the_root(&source::read(&root().join("src"))),
        "in src",
    );
}

#[test]
fn no_file_bears_its_folders_name() {
    none(
        limits::named_as_their_folder(&below(EVERYTHING)),
        "named as their folder",
    );
}

#[test]
fn words_that_hide_something_are_not_used() {
    let everything = below(EVERYTHING);
    let paths = files_with(&everything, Word::PathAttribute);
    // Loom's types stand in for those of the library only there.
    assert_eq!(paths, ["tests/loom/lib.rs"]);
    assert_eq!(files_with(&everything, Word::DeadCode), [""; 0]);
    assert_eq!(files_with(&below(&["src"]), Word::Unreachable), [""; 0]);
}

#[test]
fn samudra_depends_on_burn_alone() {
    let manifest = root().join("models/samudra/Cargo.toml");
    let names = dependencies(&manifest);
    assert!(names.contains(&"burn".to_owned()), "{names:?}");
    for other in ["burn_om4", "zarrs"] {
        assert!(!names.contains(&other.to_owned()), "{other}");
    }
}
