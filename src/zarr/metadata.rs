//! A Zarr group on disk: which arrays it holds and what their own metadata says, v2 or v3.
//!
//! The metadata beside each array is the truth. Consolidated metadata is a copy that goes stale
//! when a store is appended to or repaired, so it is only compared, and a difference becomes a
//! warning.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::files::storage::{LocalStorage, Presence};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The version of the Zarr storage format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZarrFormat {
    /// `.zgroup`, `.zarray`, `.zattrs`.
    V2,
    /// `zarr.json`.
    V3,
}

impl ZarrFormat {
    /// The document that every group has.
    pub(crate) fn document(self) -> &'static str {
        match self {
            Self::V2 => ".zgroup",
            Self::V3 => "zarr.json",
        }
    }
}

/// An opened group with the metadata of its direct children.
#[derive(Debug)]
pub(crate) struct ZarrGroup {
    pub(crate) storage: Arc<LocalStorage>,
    pub(crate) format: ZarrFormat,
    pub(crate) arrays: BTreeMap<String, ArrayMeta>,
    pub(crate) warnings: Vec<String>,
}

/// What an array's own metadata says, in the terms of either format.
#[derive(Clone, Debug)]
pub(crate) struct ArrayMeta {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    /// As written: `<f4` in v2, `float32` in v3.
    pub(crate) dtype: String,
    /// Dimension names, where every dimension has one.
    pub(crate) dims: Option<Vec<String>>,
    pub(crate) attributes: Map<String, Value>,
    /// The whole document (`.zarray` or `zarr.json`).
    pub(crate) document: Value,
}

impl ZarrGroup {
    /// Opens the group at `path` and reads the metadata of every array directly under it.
    ///
    /// # Errors
    /// Not a readable directory, not a Zarr group, or metadata that is not what the format says.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let storage = Arc::new(LocalStorage::open(path)?);
        let mut warnings = Vec::new();
        let v3 = read_json(&storage, "zarr.json")?;
        let v2 = read_json(&storage, ".zgroup")?;
        let format = match (&v3, &v2) {
            (Some(root), other) => {
                let kind = root.get("node_type").and_then(Value::as_str);
                if kind != Some("group") {
                    return Err(metadata(&storage, "not a Zarr group")
                        .expected("node_type group")
                        .found(kind.unwrap_or("none")));
                }
                if other.is_some() {
                    warnings
                        .push("both zarr.json and .zgroup are there: read as Zarr v3".to_owned());
                }
                ZarrFormat::V3
            }
            (None, Some(_)) => ZarrFormat::V2,
            (None, None) => {
                return Err(metadata(&storage, "not a Zarr group")
                    .expected("zarr.json or .zgroup")
                    .found("neither"));
            }
        };
        let mut arrays = BTreeMap::new();
        let names = storage.children().map_err(|e| {
            Error::new(ErrorKind::Io, "cannot list the store")
                .store(path)
                .caused_by(e)
        })?;
        for name in names {
            let meta = match format {
                ZarrFormat::V2 => ArrayMeta::read_v2(&storage, &name)?,
                ZarrFormat::V3 => ArrayMeta::read_v3(&storage, &name)?,
            };
            if let Some(meta) = meta {
                arrays.insert(name, meta);
            }
        }
        let consolidated = match format {
            ZarrFormat::V2 => consolidated_v2(&storage)?,
            ZarrFormat::V3 => consolidated_v3(v3.as_ref()),
        };
        match consolidated {
            None => {
                warnings.push("no consolidated metadata: read from each array instead".to_owned())
            }
            Some(copies) => compare(&arrays, &copies, &mut warnings),
        }
        Ok(Self {
            storage,
            format,
            arrays,
            warnings,
        })
    }

    /// The first of these names that the group has.
    pub(crate) fn first_of(&self, names: &[&str]) -> Option<&ArrayMeta> {
        names.iter().find_map(|name| self.arrays.get(*name))
    }

    /// An error that names the store and an array.
    pub(crate) fn error(&self, kind: ErrorKind, array: &str, message: impl Into<String>) -> Error {
        Error::new(kind, message)
            .store(self.storage.root())
            .array(array)
    }
}

/// Metadata as either format spells it.
struct Written {
    document: Value,
    attributes: Map<String, Value>,
    chunk: Option<Value>,
    /// Dimension names, in the field that only v3 has.
    names: Option<Value>,
}

impl ArrayMeta {
    fn read_v2(storage: &LocalStorage, name: &str) -> Result<Option<Self>> {
        let Some(document) = read_json(storage, &format!("{name}/.zarray"))? else {
            return Ok(None);
        };
        let attributes = match read_json(storage, &format!("{name}/.zattrs"))? {
            Some(Value::Object(map)) => map,
            Some(_) => return Err(metadata(storage, "attributes are no object").array(name)),
            None => Map::new(),
        };
        let written = Written {
            chunk: document.get("chunks").cloned(),
            names: None,
            document,
            attributes,
        };
        Self::new(storage, name, written).map(Some)
    }

    fn read_v3(storage: &LocalStorage, name: &str) -> Result<Option<Self>> {
        let Some(document) = read_json(storage, &format!("{name}/zarr.json"))? else {
            return Ok(None);
        };
        if document.get("node_type").and_then(Value::as_str) != Some("array") {
            return Ok(None);
        }
        let attributes = match document.get("attributes") {
            Some(Value::Object(map)) => map.clone(),
            _ => Map::new(),
        };
        let grid = document.get("chunk_grid");
        let regular = grid.and_then(|g| g.get("name")).and_then(Value::as_str) == Some("regular");
        let chunk = grid.and_then(|g| g.pointer("/configuration/chunk_shape"));
        let written = Written {
            chunk: chunk.filter(|_| regular).cloned(),
            names: document.get("dimension_names").cloned(),
            document,
            attributes,
        };
        Self::new(storage, name, written).map(Some)
    }

    fn new(storage: &LocalStorage, name: &str, written: Written) -> Result<Self> {
        let Written {
            document,
            attributes,
            chunk,
            names,
        } = written;
        let bad = |what: &str| metadata(storage, what).array(name);
        let extents = |value: Option<&Value>| -> Option<Vec<u64>> {
            value?.as_array()?.iter().map(Value::as_u64).collect()
        };
        let shape = extents(document.get("shape")).ok_or_else(|| bad("no valid shape"))?;
        let chunk = extents(chunk.as_ref()).ok_or_else(|| bad("no regular chunk shape"))?;
        if shape.len() != chunk.len() {
            return Err(bad("the chunk shape has another rank than the array")
                .expected(shape.len())
                .found(chunk.len()));
        }
        if chunk.contains(&0) {
            return Err(bad("a chunk extent is zero").found(format!("{chunk:?}")));
        }
        let dtype = document.get("dtype").or_else(|| document.get("data_type"));
        let dtype = dtype.ok_or_else(|| bad("no data type"))?;
        // v3 may spell a type as an object with a name, like any other extension point.
        let dtype = dtype
            .as_str()
            .or_else(|| dtype.get("name")?.as_str())
            .map_or_else(|| dtype.to_string(), str::to_owned);
        // v3 has its own field; xarray's attribute serves both v2 and what v2 writers left behind.
        let texts = |value: &Value| -> Option<Vec<String>> {
            let text = |v: &Value| v.as_str().map(str::to_owned);
            value.as_array()?.iter().map(text).collect()
        };
        let dims = names.as_ref().and_then(texts);
        let dims = dims.or_else(|| attributes.get("_ARRAY_DIMENSIONS").and_then(texts));
        if let Some(dims) = &dims
            && dims.len() != shape.len()
        {
            return Err(
                bad("the dimension names have another count than the dimensions")
                    .expected(shape.len())
                    .found(format!("{dims:?}")),
            );
        }
        Ok(Self {
            name: name.to_owned(),
            shape,
            chunk,
            dtype,
            dims,
            attributes,
            document,
        })
    }

    /// A text attribute.
    pub(crate) fn text(&self, attribute: &str) -> Option<&str> {
        self.attributes.get(attribute)?.as_str()
    }

    /// The data type without its byte order, in v3's words where known.
    pub(crate) fn dtype_name(&self) -> &str {
        canonical_dtype(&self.dtype)
    }
}

fn metadata(storage: &LocalStorage, message: &str) -> Error {
    Error::new(ErrorKind::Metadata, message).store(storage.root())
}

fn read_json(storage: &LocalStorage, key: &str) -> Result<Option<Value>> {
    let mut bytes = Vec::new();
    match storage.read(key, &mut bytes) {
        Ok(Presence::Missing) => Ok(None),
        Ok(Presence::Found(_)) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| metadata(storage, &format!("{key} is not valid JSON")).caused_by(e)),
        Err(e) => Err(Error::new(ErrorKind::Io, format!("cannot read {key}"))
            .store(storage.root())
            .caused_by(e)),
    }
}

/// Array name -> (document, attributes) as the consolidated copy has them.
type Copies = BTreeMap<String, (Option<Value>, Option<Value>)>;

fn consolidated_v2(storage: &LocalStorage) -> Result<Option<Copies>> {
    let Some(root) = read_json(storage, ".zmetadata")? else {
        return Ok(None);
    };
    let mut copies = Copies::new();
    for (key, value) in root
        .get("metadata")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(name) = key.strip_suffix("/.zarray") {
            copies.entry(name.to_owned()).or_default().0 = Some(value.clone());
        } else if let Some(name) = key.strip_suffix("/.zattrs") {
            copies.entry(name.to_owned()).or_default().1 = Some(value.clone());
        }
    }
    // Attributes alone belong to a group; an array without them has none.
    copies.retain(|_, (document, _)| document.is_some());
    for (_, attributes) in copies.values_mut() {
        attributes.get_or_insert_with(|| Value::Object(Map::new()));
    }
    Ok(Some(copies))
}

fn consolidated_v3(root: Option<&Value>) -> Option<Copies> {
    let nodes = root?
        .pointer("/consolidated_metadata/metadata")?
        .as_object()?;
    let arrays = nodes
        .iter()
        .filter(|(_, node)| node.get("node_type").and_then(Value::as_str) == Some("array"));
    Some(
        arrays
            .map(|(name, node)| (name.clone(), (Some(node.clone()), None)))
            .collect(),
    )
}

/// Says where the consolidated copy differs from the arrays.
fn compare(arrays: &BTreeMap<String, ArrayMeta>, copies: &Copies, warnings: &mut Vec<String>) {
    for (name, meta) in arrays {
        let Some((document, attributes)) = copies.get(name) else {
            warnings.push(format!(
                "consolidated metadata lacks array {name}: the array's own metadata is used"
            ));
            continue;
        };
        let own = meta.document.as_object();
        let copy = document.as_ref().and_then(Value::as_object);
        let keys = own.into_iter().chain(copy).flat_map(Map::keys);
        let mut differing: Vec<&str> = keys
            .filter(|k| own.and_then(|m| m.get(*k)) != copy.and_then(|m| m.get(*k)))
            .map(String::as_str)
            .collect();
        if let Some(attributes) = attributes
            && attributes.as_object() != Some(&meta.attributes)
        {
            differing.push("attributes");
        }
        differing.sort_unstable();
        differing.dedup();
        if !differing.is_empty() {
            warnings.push(format!(
                "consolidated metadata of array {name} is stale ({}): the array's own metadata is used",
                differing.join(", ")
            ));
        }
    }
    for name in copies.keys().filter(|name| !name.contains('/')) {
        if !arrays.contains_key(name) {
            warnings.push(format!(
                "consolidated metadata lists array {name}, which is not there"
            ));
        }
    }
}

/// The data type without its byte order, in v3's words where known: `float32` for `<f4` and `>f4`.
pub(crate) fn canonical_dtype(written: &str) -> &str {
    match written.trim_start_matches(['<', '>', '|', '=']) {
        "b1" => "bool",
        "i1" => "int8",
        "i2" => "int16",
        "i4" => "int32",
        "i8" => "int64",
        "u1" => "uint8",
        "u2" => "uint16",
        "u4" => "uint32",
        "u8" => "uint64",
        "f2" => "float16",
        "f4" => "float32",
        "f8" => "float64",
        other => other,
    }
}

/// The name of a v3 codec, written as an object with a name or, where it has no configuration, as
/// the name alone.
pub(crate) fn codec_name(codec: &Value) -> Option<&str> {
    match codec {
        Value::String(name) => Some(name),
        _ => codec.get("name")?.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_does_not_change_the_name_of_a_type() {
        assert_eq!(canonical_dtype("<f4"), "float32");
        assert_eq!(canonical_dtype(">f4"), "float32");
        assert_eq!(canonical_dtype("float32"), "float32");
        assert_eq!(canonical_dtype("|b1"), "bool");
        assert_eq!(canonical_dtype("<M8[ns]"), "M8[ns]");
    }
}
