//! For tests of stores: a sink, and a writer of small stores.

use burn_om4::ocean::{PlaneRequest, PlaneSink, PlaneSource, ReadCounts};
use burn_om4::store::{OpenOptions, Store};
use burn_om4::{ErrorKind, ReadMethod, Result};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zarrs::array::codec::api::CodecOptions;
use zarrs::array::{Array, ArraySubset, Element};
use zarrs::filesystem::FilesystemStore;

/// Planes side by side, `NaN`-free marker in what was never filled.
pub struct Planes {
    cells: usize,
    planes: Vec<Mutex<Option<Vec<f32>>>>,
}

impl Planes {
    pub fn new(planes: usize, cells: usize) -> Self {
        let planes = (0..planes).map(|_| Mutex::new(None)).collect();
        Self { cells, planes }
    }

    pub fn filled(&self) -> usize {
        self.planes
            .iter()
            .filter(|p| p.lock().unwrap().is_some())
            .count()
    }

    /// Bits of every plane; panics where one was not filled.
    pub fn bits(&self) -> Vec<Vec<u32>> {
        let bits = |v: &Vec<f32>| v.iter().map(|x| x.to_bits()).collect();
        let plane = |p: &Mutex<Option<Vec<f32>>>| p.lock().unwrap().as_ref().map(bits);
        self.planes
            .iter()
            .map(|p| plane(p).expect("filled"))
            .collect()
    }
}

impl PlaneSink for Planes {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        // Memory that would betray a cell nobody wrote.
        let mut memory = vec![-7.5e30; planes.len() * self.cells];
        fill(&mut memory)?;
        for (plane, values) in planes.zip(memory.chunks_exact(self.cells)) {
            let before = self.planes[plane].lock().unwrap().replace(values.to_vec());
            assert!(before.is_none(), "plane {plane} was filled twice");
        }
        Ok(())
    }
}

/// Reads rows × channels and checks that exactly the planned chunks were read.
pub fn read(
    store: &Store,
    rows: &[usize],
    channels: &[usize],
) -> Result<(Vec<Vec<u32>>, ReadCounts)> {
    let shape = store.shape();
    let sink = Planes::new(rows.len() * channels.len(), shape.ny * shape.nx);
    let request = PlaneRequest { rows, channels };
    let counts = store.read(&request, &sink)?;
    assert_eq!(counts.planes as usize, rows.len() * channels.len());
    assert_eq!(
        counts.chunks,
        store.planned_chunks(&request)?,
        "chunks read and planned"
    );
    Ok((sink.bits(), counts))
}

/// Everything a store has, `[row][channel]` flattened.
pub fn read_all(store: &Store) -> Result<(Vec<Vec<u32>>, ReadCounts)> {
    let rows: Vec<usize> = (0..store.rows()).collect();
    let channels: Vec<usize> = (0..store.channels().len()).collect();
    read(store, &rows, &channels)
}

/// The ways of reading that the system allows on the file system of `store`, an intact one. A way may be
/// left out, with a message, only where the system refuses it to this function's own attempt as well:
/// containers often forbid io_uring, and some file systems have no direct reads.
pub fn methods(store: &Path) -> Vec<ReadMethod> {
    let allowed = |method: &ReadMethod| {
        let options = OpenOptions::default().with_io(*method);
        match Store::open(store, &options) {
            Ok(_) => true,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Config, "{e:?}");
                assert!(refused_by_the_system(*method, store), "{e:?}");
                eprintln!("skipped: {e}");
                false
            }
        }
    };
    ReadMethod::ALL.into_iter().filter(allowed).collect()
}

#[cfg(target_os = "linux")]
fn refused_by_the_system(method: ReadMethod, store: &Path) -> bool {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    match method {
        ReadMethod::Pread | ReadMethod::Mmap => false,
        ReadMethod::Direct => {
            let documents = [".zgroup", "zarr.json"].map(|name| store.join(name));
            let document = documents.iter().find(|path| path.is_file()).unwrap();
            let mut options = std::fs::File::options();
            let file = options.read(true).custom_flags(libc::O_DIRECT);
            // A page that lies at a page: enough for any file system.
            let mut memory = vec![0; 2 * 4096];
            let at = memory.as_ptr().align_offset(4096);
            let read = |file: std::fs::File| file.read_at(&mut memory[at..at + 4096], 0);
            file.open(document).and_then(read).is_err()
        }
        // Also where the kernel is older than what is asked of it.
        ReadMethod::IoUring => match io_uring::IoUring::new(2) {
            Ok(ring) => !ring.params().is_feature_linked_file(),
            Err(_) => true,
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn refused_by_the_system(method: ReadMethod, _: &Path) -> bool {
    matches!(method, ReadMethod::Direct | ReadMethod::IoUring)
}

/// Writes a small store, array by array, as documents that a test may bend.
pub struct Writer {
    pub root: PathBuf,
    v3: bool,
}

/// What a test wants different about an array.
#[derive(Clone, Default)]
pub struct Bend {
    /// Fields of the document to replace (`compressor`, `codecs`, `fill_value`, `dtype`, ...).
    pub fields: Value,
    /// Attributes to add.
    pub attributes: Value,
    /// Leave out the dimension names.
    pub unnamed: bool,
}

impl Bend {
    pub fn fields(fields: Value) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }

    pub fn attributes(attributes: Value) -> Self {
        Self {
            attributes,
            ..Self::default()
        }
    }
}

impl Writer {
    pub fn new(root: impl Into<PathBuf>, v3: bool) -> Self {
        let root = root.into();
        std::fs::create_dir_all(&root).unwrap();
        let (name, document) = match v3 {
            true => (
                "zarr.json",
                json!({"zarr_format": 3, "node_type": "group", "attributes": {}}),
            ),
            false => (".zgroup", json!({"zarr_format": 2})),
        };
        std::fs::write(root.join(name), document.to_string()).unwrap();
        Self { root, v3 }
    }

    /// Writes metadata and all chunks, also those that hold only the fill value.
    #[allow(clippy::too_many_arguments)]
    pub fn array<T: Element>(
        &self,
        name: &str,
        dims: &[&str],
        shape: &[u64],
        chunk: &[u64],
        dtype: &str,
        bend: &Bend,
        values: &[T],
    ) {
        self.document(name, dims, shape, chunk, dtype, bend);
        let storage = Arc::new(FilesystemStore::new(&self.root).unwrap());
        let array = Array::open(storage, &format!("/{name}")).unwrap();
        let all = ArraySubset::new_with_shape(shape.to_vec());
        let options = CodecOptions::default().with_store_empty_chunks(true);
        array
            .store_array_subset_opt(&all, values, &options)
            .unwrap();
    }

    /// Writes metadata only.
    pub fn document(
        &self,
        name: &str,
        dims: &[&str],
        shape: &[u64],
        chunk: &[u64],
        dtype: &str,
        bend: &Bend,
    ) {
        let floating = dtype.starts_with("float") || dtype.contains('f');
        let fill = if floating {
            json!("NaN")
        } else if dtype == "bool" {
            json!(false)
        } else {
            json!(0)
        };
        let mut attributes = bend.attributes.as_object().cloned().unwrap_or_default();
        let mut document = match self.v3 {
            true => json!({
                "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": fill,
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            }),
            false => json!({
                "zarr_format": 2, "shape": shape, "chunks": chunk, "dtype": v2_dtype(dtype),
                "fill_value": fill, "compressor": null, "filters": null, "order": "C",
            }),
        };
        match (self.v3, bend.unnamed) {
            (_, true) => {}
            (true, _) => document["dimension_names"] = json!(dims),
            (false, _) => drop(attributes.insert("_ARRAY_DIMENSIONS".into(), json!(dims))),
        }
        for (field, value) in bend.fields.as_object().into_iter().flatten() {
            document[field] = value.clone();
        }
        let dir = self.root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        if self.v3 {
            document["attributes"] = Value::Object(attributes);
            std::fs::write(dir.join("zarr.json"), document.to_string()).unwrap();
        } else {
            std::fs::write(dir.join(".zarray"), document.to_string()).unwrap();
            let attributes = Value::Object(attributes).to_string();
            std::fs::write(dir.join(".zattrs"), attributes).unwrap();
        }
    }

    /// A time coordinate, days in the julian calendar.
    pub fn time(&self, days: &[f64]) {
        let bend =
            Bend::attributes(json!({"units": "days since 1958-01-01", "calendar": "julian"}));
        let n = days.len() as u64;
        self.array("time", &["time"], &[n], &[n], "float64", &bend, days);
    }

    /// `rows` steps of five days.
    pub fn steady_time(&self, rows: usize) {
        self.time(&(0..rows).map(|i| 5.0 * i as f64).collect::<Vec<_>>());
    }

    /// A `(time, y, x)` array of [`field`] with one plane per chunk.
    pub fn flat(&self, name: &str, rows: usize, ny: usize, nx: usize, bend: &Bend) {
        let shape = [rows as u64, ny as u64, nx as u64];
        let values = field(name, 0, rows, ny, nx);
        let chunk = [1, ny as u64, nx as u64];
        self.array(
            name,
            &["time", "y", "x"],
            &shape,
            &chunk,
            "float32",
            bend,
            &values,
        );
    }

    /// Merges fields into an array's document afterwards.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        let file = if self.v3 { "zarr.json" } else { ".zarray" };
        let path = self.root.join(name).join(file);
        let mut document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(document.as_object_mut().unwrap());
        std::fs::write(path, document.to_string()).unwrap();
    }
}

fn v2_dtype(dtype: &str) -> &str {
    match dtype {
        "float32" => "<f4",
        "float64" => "<f8",
        "bool" => "|b1",
        "int8" => "|i1",
        "uint8" => "|u1",
        "int16" => "<i2",
        "int32" => "<i4",
        "int64" => "<i8",
        other => other,
    }
}

/// Values that say where they belong, and a NaN here and there.
pub fn value(name: &str, level: usize, row: usize, cell: usize) -> f32 {
    let seed = name
        .bytes()
        .fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    if (row + level + cell) % 11 == 5 {
        return f32::NAN;
    }
    ((seed % 97) as f32) + 1000.0 * row as f32 + 50.0 * level as f32 + 0.25 * cell as f32
}

/// `(time, y, x)` of [`value`].
pub fn field(name: &str, level: usize, rows: usize, ny: usize, nx: usize) -> Vec<f32> {
    let plane = |row| (0..ny * nx).map(move |cell| value(name, level, row, cell));
    (0..rows).flat_map(plane).collect()
}

/// Bits of one plane of [`value`].
pub fn plane_bits(name: &str, level: usize, row: usize, cells: usize) -> Vec<u32> {
    (0..cells)
        .map(|cell| value(name, level, row, cell).to_bits())
        .collect()
}

/// Copies a directory.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::write(target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
