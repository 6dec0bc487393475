//! Metadata documents of any bytes. The first byte chooses the document of a small store, the rest is
//! the file.
#![no_main]

use burn_om4::Strictness;
use burn_om4::synth::{Format, Layout};
use burn_om4_fuzz::{
    files, folder, read_around, read_statistics, read_store, synthetic, write_seeds,
};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

struct Document {
    dir: PathBuf,
    path: PathBuf,
    intact: Vec<u8>,
}

static DOCUMENTS: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let base = folder("documents");
    let mut documents = Vec::new();
    for (at, (format, layout)) in [
        (Format::V2, Layout::Flat),
        (Format::V3, Layout::Flat),
        (Format::V2, Layout::CompactLevTime),
        (Format::V3, Layout::CompactTimeLev),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = base.join(at.to_string());
        synthetic(&dir, format, layout);
        read_store(&dir, Strictness::Strict).expect("a good store");
        read_statistics(&dir, Strictness::Strict).expect("good statistics");
        let is_document = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(".z") || name == "zarr.json"
        };
        documents.extend(
            files(&dir)
                .into_iter()
                .filter(is_document)
                .map(|path| Document {
                    dir: dir.clone(),
                    intact: std::fs::read(&path).expect("a document"),
                    path,
                }),
        );
    }
    documents
});

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a document");
}

fuzz_target!(
    init: {
        if std::env::var_os("OM4_FUZZ_SEEDS").is_some() {
            let seed = |(at, d): (usize, &Document)| [vec![at as u8], d.intact.clone()].concat();
            write_seeds(DOCUMENTS.iter().enumerate().map(seed));
        }
    },
    |data: &[u8]| {
        let Some((choice, bytes)) = data.split_first() else {
            return;
        };
        let document = &DOCUMENTS[*choice as usize % DOCUMENTS.len()];
        write(&document.path, bytes);
        let strictness = match bytes.len() % 2 {
            0 => Strictness::Strict,
            _ => Strictness::Lenient,
        };
        let _ = read_around(&document.dir, &document.path, strictness);
        write(&document.path, &document.intact);
    }
);
