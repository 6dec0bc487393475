//! What the fuzz targets share: small stores in memory, and what is done with one.

use burn_om4::ocean::{PlaneRequest, PlaneSink, PlaneSource};
use burn_om4::store::{OpenOptions, Statistics, Store};
use burn_om4::synth::{Format, Layout, SynthOptions};
use burn_om4::{Om4Paths, Result, StoreLimits, Strictness};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A folder of this process, in memory where the system has such a place.
pub fn folder(name: &str) -> PathBuf {
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    };
    let dir = base.join(format!("om4-fuzz-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder for a store");
    dir
}

/// Bounds that leave room under a sanitizer's limit of memory.
pub fn options(strictness: Strictness) -> OpenOptions {
    let limits = StoreLimits::default()
        .with_chunk_bytes(64 << 20)
        .with_small_bytes(64 << 20)
        .with_document_bytes(1 << 20);
    OpenOptions::default()
        .with_strictness(strictness)
        .with_limits(limits)
}

/// A small store and its statistics.
pub fn synthetic(dir: &Path, format: Format, layout: Layout) {
    SynthOptions::new(3, 4)
        .with_levels(2)
        .with_rows(3)
        .with_variables(&["thetao"], &["zos"])
        .with_format(format)
        .with_layout(layout)
        .write(dir)
        .expect("a store");
}

/// Opens the statistics in `dir`; whatever the bytes are, an error at worst.
pub fn read_statistics(dir: &Path, strictness: Strictness) -> Result<()> {
    let paths = Om4Paths::in_dir(dir);
    Statistics::open(&paths.means, &paths.stds, &options(strictness)).map(drop)
}

/// Opens the store in `dir` and reads the first and the last row; whatever the bytes are, an error at
/// worst.
pub fn read_store(dir: &Path, strictness: Strictness) -> Result<()> {
    let store = Store::open(Om4Paths::in_dir(dir).data, &options(strictness))?;
    let cells = store.shape().cells();
    let channels: Vec<usize> = (0..store.channels().len().min(8)).collect();
    for row in [0, store.rows() - 1] {
        if cells > 1 << 20 {
            break;
        }
        let request = PlaneRequest {
            rows: &[row],
            channels: &channels,
        };
        let sink = Sink(Mutex::new(vec![0.0; cells * channels.len()]), cells);
        store.read(&request, &sink)?;
    }
    Ok(())
}

/// Reads what the file at `path` is of.
pub fn read_around(dir: &Path, path: &Path, strictness: Strictness) -> Result<()> {
    if path.starts_with(Om4Paths::in_dir(dir).data) {
        read_store(dir, strictness)
    } else {
        read_statistics(dir, strictness)
    }
}

struct Sink(Mutex<Vec<f32>>, usize);

impl PlaneSink for Sink {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let mut all = self.0.lock().expect("no panic before");
        fill(&mut all[planes.start * self.1..planes.end * self.1])
    }
}

/// How the chunks of an array of three rows are encoded.
pub fn encodings() -> Vec<(bool, Value)> {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": true}});
    let gzip = json!({"name": "gzip", "configuration": {"level": 4}});
    let zlib = json!({"name": "numcodecs.zlib", "configuration": {"level": 4}});
    let crc = json!({"name": "crc32c"});
    let transpose = json!({"name": "transpose", "configuration": {"order": [0, 2, 1]}});
    let blosc = |cname: &str, shuffle: &str| {
        json!({"name": "blosc", "configuration": {"cname": cname, "clevel": 5,
            "shuffle": shuffle, "typesize": 4, "blocksize": 0}})
    };
    let shard = |codecs: Value, index: Value, at: &str| {
        json!({"codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 2, 4], "codecs": codecs, "index_codecs": index,
            "index_location": at}}]})
    };
    let v2_blosc = |cname: &str, shuffle: u8| json!({"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0});
    let mut all = vec![
        (false, json!({})),
        (false, json!({"dtype": ">f4"})),
        (false, json!({"order": "F"})),
    ];
    let shuffle = json!({"id": "shuffle", "elementsize": 4});
    for compressor in [
        json!({"id": "zlib", "level": 3}),
        json!({"id": "gzip", "level": 3}),
        json!({"id": "zstd", "level": 3}),
        json!({"id": "lz4", "acceleration": 1}),
        v2_blosc("lz4", 1),
        v2_blosc("zstd", 2),
        v2_blosc("zlib", 0),
        v2_blosc("snappy", 1),
        v2_blosc("blosclz", 1),
        v2_blosc("lz4hc", 2),
    ] {
        all.push((false, json!({"compressor": compressor})));
        all.push((false, json!({"compressor": compressor, "order": "F"})));
        all.push((
            false,
            json!({"compressor": compressor, "filters": [shuffle]}),
        ));
    }
    for codecs in [
        json!([little]),
        json!([big, zstd]),
        json!([little, gzip]),
        json!([little, zlib]),
        json!([little, crc]),
        json!([little, zstd, crc]),
        json!([little, zstd, gzip]),
        json!([little, gzip, zstd]),
        json!([transpose, little, zstd]),
        json!([transpose, little, gzip, crc]),
        json!([little, blosc("lz4", "shuffle")]),
        json!([little, blosc("zstd", "bitshuffle"), gzip]),
    ] {
        all.push((true, json!({"codecs": codecs})));
    }
    for (codecs, index, at) in [
        (json!([little]), json!([little]), "start"),
        (json!([little, zstd]), json!([little, crc]), "end"),
        (json!([little, gzip]), json!([little]), "end"),
        (
            json!([little, blosc("lz4", "shuffle")]),
            json!([little, crc]),
            "start",
        ),
        (json!([transpose, little, zstd]), json!([little]), "end"),
    ] {
        all.push((true, shard(codecs, index, at)));
    }
    all
}

/// Writes a group with three times and one array `zos`, 3 x 4 x 4, a row to a chunk, encoded like
/// this.
pub fn write_encoded(root: &Path, v3: bool, fields: &Value) {
    use zarrs::array::{Array, ArraySubset};
    use zarrs::filesystem::FilesystemStore;
    let group = match v3 {
        true => (
            "zarr.json",
            json!({"zarr_format": 3, "node_type": "group", "attributes": {}}),
        ),
        false => (".zgroup", json!({"zarr_format": 2})),
    };
    std::fs::create_dir_all(root).expect("a folder");
    std::fs::write(root.join(group.0), group.1.to_string()).expect("a document");
    let attributes = json!({"units": "days since 2000-01-01", "calendar": "julian"});
    write_documents(
        root,
        v3,
        "time",
        &["time"],
        &[3],
        "float64",
        &json!({}),
        &attributes,
    );
    write_documents(
        root,
        v3,
        "zos",
        &["time", "y", "x"],
        &[3, 4, 4],
        "float32",
        fields,
        &json!({}),
    );
    let storage = Arc::new(FilesystemStore::new(root).expect("a folder"));
    let times = Array::open(storage.clone(), "/time").expect("an array");
    let all = ArraySubset::new_with_shape(vec![3]);
    times
        .store_array_subset(&all, &[0.0f64, 5.0, 10.0])
        .expect("times");
    if let Ok(array) = Array::open(storage, "/zos") {
        let values: Vec<f32> = (0..48u16).map(|i| f32::from(i).sin()).collect();
        let all = ArraySubset::new_with_shape(vec![3, 4, 4]);
        array.store_array_subset(&all, &values).expect("values");
    }
    // What zarrs cannot write (lz4) has chunks all the same.
    for row in 0..3 {
        let path = root.join(chunk_key(v3, row));
        if !path.exists() {
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
            std::fs::write(path, [0; 64]).expect("a chunk");
        }
    }
}

/// The file of a row of `zos`.
pub fn chunk_key(v3: bool, row: usize) -> String {
    match v3 {
        true => format!("zos/c/{row}/0/0"),
        false => format!("zos/{row}.0.0"),
    }
}

#[allow(clippy::too_many_arguments)]
fn write_documents(
    root: &Path,
    v3: bool,
    name: &str,
    dims: &[&str],
    shape: &[u64],
    dtype: &str,
    fields: &Value,
    attributes: &Value,
) {
    let mut chunk = shape.to_vec();
    if chunk.len() > 1 {
        chunk[0] = 1;
    }
    let mut attributes = attributes.clone();
    let mut document = match v3 {
        true => json!({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0, "dimension_names": dims,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}),
        false => json!({"zarr_format": 2, "shape": shape, "chunks": chunk,
            "dtype": if dtype == "float32" { "<f4" } else { "<f8" },
            "fill_value": 0.0, "compressor": null, "filters": null, "order": "C"}),
    };
    for (field, value) in fields.as_object().into_iter().flatten() {
        document[field] = value.clone();
    }
    let dir = root.join(name);
    std::fs::create_dir_all(&dir).expect("a folder");
    let write = |file: &str, document: &Value| {
        std::fs::write(dir.join(file), document.to_string()).expect("a document");
    };
    if v3 {
        document["attributes"] = attributes;
        write("zarr.json", &document);
    } else {
        attributes["_ARRAY_DIMENSIONS"] = json!(dims);
        write(".zarray", &document);
        write(".zattrs", &attributes);
    }
}

/// Every file under a folder, sorted.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Writes seeds to the folder that `OM4_FUZZ_SEEDS` names, and ends the process; nothing without it.
pub fn write_seeds(seeds: impl IntoIterator<Item = Vec<u8>>) {
    let Some(dir) = std::env::var_os("OM4_FUZZ_SEEDS") else {
        return;
    };
    std::fs::create_dir_all(&dir).expect("a folder for seeds");
    let mut count = 0;
    for (at, seed) in seeds.into_iter().enumerate() {
        std::fs::write(Path::new(&dir).join(format!("seed-{at:04}")), seed).expect("a seed");
        count += 1;
    }
    println!("{count} seeds");
    std::process::exit(0);
}
