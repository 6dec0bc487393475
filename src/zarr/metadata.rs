//! What the metadata of an array says, v2 or v3.

use crate::error::Result;
use crate::zarr::documents::Documents;
use crate::zarr::format::ZarrFormat;
use serde_json::{Map, Value};

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

/// Metadata as either format spells it.
struct Written {
    document: Value,
    attributes: Map<String, Value>,
    chunk: Option<Value>,
    /// Dimension names, in the field that only v3 has.
    names: Option<Value>,
}

/// What zarr v3 says an array's document holds.
const V3_FIELDS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

impl ArrayMeta {
    /// The array of this name; `None` where there is none of this format.
    ///
    /// # Errors
    /// Documents that cannot be read, or do not say what the format asks for.
    pub(super) fn read(documents: &Documents<'_>, name: &str) -> Result<Option<Self>> {
        match documents.format {
            ZarrFormat::V2 => Self::read_v2(documents, name),
            ZarrFormat::V3 => Self::read_v3(documents, name),
        }
    }

    fn read_v2(documents: &Documents<'_>, name: &str) -> Result<Option<Self>> {
        let Some(document) = documents.read(&format!("{name}/.zarray"))? else {
            return Ok(None);
        };
        check_format(documents, &document, 2)?;
        let attributes = match documents.read(&format!("{name}/.zattrs"))? {
            Some(Value::Object(map)) => map,
            Some(_) => return Err(documents.error("attributes are no object").array(name)),
            None => Map::new(),
        };
        let written = Written {
            chunk: document.get("chunks").cloned(),
            names: None,
            document,
            attributes,
        };
        Self::new(documents, name, written).map(Some)
    }

    fn read_v3(documents: &Documents<'_>, name: &str) -> Result<Option<Self>> {
        let Some(document) = documents.read(&format!("{name}/zarr.json"))? else {
            return Ok(None);
        };
        match document.get("node_type").and_then(Value::as_str) {
            Some("array") => {}
            Some("group") => return Ok(None),
            other => {
                return Err(documents
                    .error("neither an array nor a group")
                    .expected("node_type array or group")
                    .found(other.unwrap_or("none")));
            }
        }
        check_format(documents, &document, 3)?;
        must_understand(documents, &document, &V3_FIELDS)?;
        let attributes = match document.get("attributes") {
            Some(Value::Object(map)) => map.clone(),
            _ => Map::new(),
        };
        let grid = document.get("chunk_grid");
        let grid_name = grid.and_then(codec_name).unwrap_or("none");
        if grid_name != "regular" {
            return Err(documents
                .error("chunks of this grid are not served")
                .expected("a chunk_grid that is regular")
                .found(grid_name));
        }
        let chunk = grid.and_then(|g| g.pointer("/configuration/chunk_shape"));
        let written = Written {
            chunk: chunk.cloned(),
            names: document.get("dimension_names").cloned(),
            document,
            attributes,
        };
        Self::new(documents, name, written).map(Some)
    }

    fn new(documents: &Documents<'_>, name: &str, written: Written) -> Result<Self> {
        let Written {
            document,
            attributes,
            chunk,
            names,
        } = written;
        let bad = |what: &str| documents.error(what);
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

/// The format that a document says it is of, where it says one.
fn check_format(documents: &Documents<'_>, document: &Value, format: u64) -> Result<()> {
    match document.get("zarr_format") {
        Some(found) if found.as_u64() != Some(format) => Err(documents
            .error("metadata of another format")
            .expected(format!("zarr_format {format}"))
            .found(found)),
        _ => Ok(()),
    }
}

/// Sees that a v3 document has no field beyond `known` that a reader must understand, which is every
/// one that does not say otherwise.
pub(super) fn must_understand(
    documents: &Documents<'_>,
    document: &Value,
    known: &[&str],
) -> Result<()> {
    let unknown = |(field, value): &(&String, &Value)| {
        let may_ignore = value.get("must_understand") == Some(&Value::Bool(false));
        !known.contains(&field.as_str()) && !may_ignore
    };
    match document.as_object().into_iter().flatten().find(unknown) {
        None => Ok(()),
        Some((field, value)) => Err(documents
            .error("the metadata has a field that must be understood, and is not")
            .expected("known fields, or `must_understand` false")
            .found(format!("{field}: {value}"))),
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
