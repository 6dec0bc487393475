//! One Zarr group on disk: metadata as xarray writes it, chunks through the codecs of zarrs.

use super::options::{Codec, Consolidation, Format, Separator};
use crate::error::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zarrs::array::{Array, ArrayBytes, ArrayMetadata, ArrayToBytesCodecTraits, CodecOptions};
use zarrs::storage::store::MemoryStore;

/// Attributes of an array or group.
pub(super) type Attributes = Map<String, Value>;

/// The types of the arrays written here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DType {
    F32,
    F64,
    I64,
    I8,
    Bool,
}

impl DType {
    fn v2(self) -> &'static str {
        match self {
            DType::F32 => "<f4",
            DType::F64 => "<f8",
            DType::I64 => "<i8",
            DType::I8 => "|i1",
            DType::Bool => "|b1",
        }
    }

    fn v3(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::I64 => "int64",
            DType::I8 => "int8",
            DType::Bool => "bool",
        }
    }

    fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::I8 | DType::Bool => 1,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

/// What an array is to be.
pub(super) struct Spec<'a> {
    pub name: &'a str,
    pub dims: &'a [&'a str],
    pub shape: &'a [usize],
    pub chunks: &'a [usize],
    /// Shape of the inner chunks of a shard.
    pub inner: Option<&'a [usize]>,
    pub dtype: DType,
    pub codec: Codec,
    pub attributes: Attributes,
}

/// A group being written. Nothing opens as a group before [`finish`](Self::finish).
pub(super) struct GroupWriter {
    root: PathBuf,
    format: Format,
    separator: Separator,
    consolidation: Consolidation,
    /// Metadata documents by key, for the consolidated copy.
    documents: Map<String, Value>,
}

impl GroupWriter {
    pub(super) fn new(
        root: PathBuf,
        format: Format,
        separator: Separator,
        consolidation: Consolidation,
    ) -> Self {
        Self {
            root,
            format,
            separator,
            consolidation,
            documents: Map::new(),
        }
    }

    /// Writes an array's metadata; its chunks come through what is returned.
    pub(super) fn array(&mut self, spec: Spec) -> Result<Writer> {
        let Spec { name, dtype, .. } = spec;
        // As zarr-python 2 has it: an array without a dimension is not compressed.
        let codec = match (self.format, spec.shape) {
            (Format::V2, []) => Codec::None,
            _ => spec.codec,
        };
        let slashes = match (self.separator, self.format) {
            (Separator::Slash, _) | (Separator::Usual, Format::V3) => true,
            (Separator::Dot, _) | (Separator::Usual, Format::V2) => false,
        };
        let document = match self.format {
            Format::V2 => {
                let separator = match self.separator {
                    Separator::Usual => None,
                    Separator::Dot => Some("."),
                    Separator::Slash => Some("/"),
                };
                let mut attributes = spec.attributes.clone();
                attributes.insert("_ARRAY_DIMENSIONS".into(), json!(spec.dims));
                self.put(&format!("{name}/.zattrs"), &Value::Object(attributes))?;
                let document = v2_document(&spec, codec, separator);
                self.put(&format!("{name}/.zarray"), &document)?;
                document
            }
            Format::V3 => {
                let document = v3_document(&spec, codec, slashes);
                self.put_v3(name, &document)?;
                document
            }
        };
        if codec == Codec::Lz4 {
            crate::zarr::codec::lz4::register();
        }
        let refused = |e: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(ErrorKind::Config, format!("array metadata {document}"))
                .array(name)
                .caused_by(e)
        };
        let metadata = match self.format {
            Format::V2 => serde_json::from_value(document.clone()).map(ArrayMetadata::V2),
            Format::V3 => serde_json::from_value(document.clone()).map(ArrayMetadata::V3),
        }
        .map_err(|e| refused(e.into()))?;
        let storage = Arc::new(MemoryStore::new());
        let array = Array::new_with_metadata(storage, &format!("/{name}"), metadata)
            .map_err(|e| refused(e.into()))?;
        Ok(Writer {
            root: self.root.clone(),
            name: name.into(),
            shape: spec.shape.to_vec(),
            chunks: spec.chunks.to_vec(),
            dtype,
            array,
        })
    }

    /// Writes the group's own metadata, and the consolidated copy.
    pub(super) fn finish(mut self, attributes: Attributes) -> Result<()> {
        let consolidate = self.consolidation == Consolidation::Consolidated;
        match self.format {
            Format::V2 => {
                self.put(".zattrs", &Value::Object(attributes))?;
                if consolidate {
                    let mut metadata = self.documents.clone();
                    metadata.insert(".zgroup".into(), json!({"zarr_format": 2}));
                    let document = json!({"metadata": metadata, "zarr_consolidated_format": 1});
                    write_json(&self.root.join(".zmetadata"), &document)?;
                }
                self.put(".zgroup", &json!({"zarr_format": 2}))
            }
            Format::V3 => {
                let mut document = json!({
                    "attributes": attributes, "node_type": "group", "zarr_format": 3,
                });
                if consolidate {
                    document["consolidated_metadata"] = json!({
                        "kind": "inline", "must_understand": false, "metadata": self.documents,
                    });
                }
                write_json(&self.root.join("zarr.json"), &document)
            }
        }
    }

    fn put(&mut self, key: &str, document: &Value) -> Result<()> {
        write_json(&self.root.join(key), document)?;
        self.documents.insert(key.into(), document.clone());
        Ok(())
    }

    fn put_v3(&mut self, name: &str, document: &Value) -> Result<()> {
        write_json(&self.root.join(name).join("zarr.json"), document)?;
        self.documents.insert(name.into(), document.clone());
        Ok(())
    }
}

/// An array's `.zarray`.
fn v2_document(spec: &Spec, codec: Codec, separator: Option<&str>) -> Value {
    let blosc = |name: &str| json!({"id": "blosc", "cname": name, "clevel": 5, "shuffle": 1, "blocksize": 0});
    let compressor = match codec {
        Codec::None => Value::Null,
        Codec::BloscLz4 => blosc("lz4"),
        Codec::BloscZstd => blosc("zstd"),
        Codec::Zstd => json!({"id": "zstd", "level": 0}),
        Codec::Lz4 => json!({"id": "lz4", "acceleration": 1}),
        Codec::Gzip => json!({"id": "gzip", "level": 5}),
    };
    let fill = if spec.dtype.is_float() {
        json!("NaN")
    } else {
        Value::Null
    };
    let mut document = json!({
        "chunks": spec.chunks,
        "compressor": compressor,
        "dtype": spec.dtype.v2(),
        "fill_value": fill,
        "filters": null,
        "order": "C",
        "shape": spec.shape,
        "zarr_format": 2,
    });
    if let Some(separator) = separator {
        document["dimension_separator"] = json!(separator);
    }
    document
}

/// An array's `zarr.json`.
fn v3_document(spec: &Spec, codec: Codec, slashes: bool) -> Value {
    let blosc = |name: &str| {
        json!({"name": "blosc", "configuration": {
            "cname": name, "clevel": 5, "shuffle": "shuffle",
            "typesize": spec.dtype.size(), "blocksize": 0,
        }})
    };
    let mut codecs = vec![match spec.dtype.size() {
        1 => json!({"name": "bytes"}),
        _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    }];
    codecs.extend(match codec {
        Codec::None => None,
        Codec::BloscLz4 => Some(blosc("lz4")),
        Codec::BloscZstd => Some(blosc("zstd")),
        Codec::Zstd => {
            Some(json!({"name": "zstd", "configuration": {"level": 0, "checksum": false}}))
        }
        Codec::Lz4 => Some(json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}})),
        Codec::Gzip => Some(json!({"name": "gzip", "configuration": {"level": 5}})),
    });
    if let Some(inner) = spec.inner {
        codecs = vec![json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner,
            "codecs": codecs,
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        }})];
    }
    let mut attributes = spec.attributes.clone();
    let fill = match spec.dtype {
        DType::F32 | DType::F64 => {
            // xarray keeps the fill value of floats as base64 of a little-endian float64.
            attributes.insert("_FillValue".into(), json!("AAAAAAAA+H8="));
            json!("NaN")
        }
        DType::I64 | DType::I8 => json!(0),
        DType::Bool => json!(false),
    };
    let mut document = json!({
        "attributes": attributes,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": spec.chunks}},
        "chunk_key_encoding": {
            "name": "default",
            "configuration": {"separator": if slashes { "/" } else { "." }},
        },
        "codecs": codecs,
        "data_type": spec.dtype.v3(),
        "fill_value": fill,
        "node_type": "array",
        "shape": spec.shape,
        "storage_transformers": [],
        "zarr_format": 3,
    });
    if !spec.dims.is_empty() {
        document["dimension_names"] = json!(spec.dims);
    }
    document
}

/// Writes the chunks of one array. Chunks may be written from several threads.
pub(super) struct Writer {
    root: PathBuf,
    name: String,
    shape: Vec<usize>,
    chunks: Vec<usize>,
    dtype: DType,
    array: Array<MemoryStore>,
}

impl Writer {
    /// Writes one chunk: its values in native byte order, row-major, padding included.
    pub(super) fn put(&self, index: &[u64], values: Vec<u8>) -> Result<()> {
        let place = |e: Error| e.array(&self.name).chunk(format!("{index:?}"));
        let refused = |e: Box<dyn std::error::Error + Send + Sync>| {
            place(Error::new(ErrorKind::Config, "chunk cannot be encoded").caused_by(e))
        };
        let array = &self.array;
        let shape = array.chunk_shape(index).map_err(|e| refused(e.into()))?;
        // A reader may take a missing chunk for damage: write those full of fill value too.
        let options = CodecOptions::default().with_store_empty_chunks(true);
        let encoded = array
            .codecs()
            .encode(
                ArrayBytes::new_flen(values),
                &shape,
                array.data_type(),
                array.fill_value(),
                &options,
            )
            .map_err(|e| refused(e.into()))?;
        let path = self.root.join(array.chunk_key(index).as_str());
        write_file(&path, &encoded).map_err(place)
    }

    /// Writes the whole array from its values in native byte order, row-major.
    pub(super) fn put_all(&self, values: &[u8]) -> Result<()> {
        let size = self.dtype.size();
        let pad: &[u8] = match self.dtype {
            DType::F32 => &f32::NAN.to_ne_bytes(),
            DType::F64 => &f64::NAN.to_ne_bytes(),
            DType::I64 => &[0; 8],
            DType::I8 | DType::Bool => &[0],
        };
        let ends: Vec<usize> = self
            .shape
            .iter()
            .zip(&self.chunks)
            .map(|(n, c)| n.div_ceil(*c))
            .collect();
        let cells: usize = self.chunks.iter().product();
        for index in indices(&ends) {
            let mut chunk = pad.repeat(cells);
            for (within, cell) in indices(&self.chunks).zip(chunk.chunks_exact_mut(size)) {
                let at = index
                    .iter()
                    .zip(&within)
                    .zip(&self.chunks)
                    .map(|((i, w), c)| i * c + w);
                let inside = at.clone().zip(&self.shape).all(|(a, n)| a < *n);
                if inside {
                    let flat = at.zip(&self.shape).fold(0, |flat, (a, n)| flat * n + a);
                    cell.copy_from_slice(&values[flat * size..(flat + 1) * size]);
                }
            }
            let index: Vec<u64> = index.iter().map(|i| *i as u64).collect();
            self.put(&index, chunk)?;
        }
        Ok(())
    }
}

/// Every index of a grid, row-major; one empty index when there is no dimension.
fn indices(ends: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let ends = ends.to_vec();
    (0..ends.iter().product::<usize>()).map(move |mut flat| {
        let mut index = vec![0; ends.len()];
        for (i, n) in index.iter_mut().zip(&ends).rev() {
            (*i, flat) = (flat % n, flat / n);
        }
        index
    })
}

/// JSON with the four spaces and sorted keys of zarr-python 2.
fn write_json(path: &Path, document: &Value) -> Result<()> {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut json = serde_json::Serializer::with_formatter(&mut text, format);
    serde::Serialize::serialize(document, &mut json)
        .map_err(|e| Error::new(ErrorKind::Config, "metadata").caused_by(e))?;
    write_file(path, &text)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let refused = |e: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot write {}", path.display())).caused_by(e)
    };
    match std::fs::write(path, bytes) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            // The first file of an array, or of a chunk key with slashes.
            let parent = path.parent().unwrap_or(path);
            std::fs::create_dir_all(parent).map_err(refused)?;
            std::fs::write(path, bytes).map_err(refused)
        }
        other => other.map_err(refused),
    }
}
