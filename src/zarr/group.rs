//! A Zarr group on disk: which arrays it holds, and which of them can be used.
//!
//! The metadata beside each array is the truth. An array whose metadata cannot be used is an error
//! only for whoever asks for it; until then it is a warning.

use crate::error::{Error, ErrorKind, Result};
use crate::options::StoreLimits;
use crate::zarr::consolidated;
use crate::zarr::documents::Documents;
use crate::zarr::files::storage::{Children, LocalStorage};
use crate::zarr::format::ZarrFormat;
use crate::zarr::metadata::{ArrayMeta, must_understand};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// An opened group with the metadata of its direct children.
#[derive(Debug)]
pub(crate) struct ZarrGroup {
    pub(crate) storage: Arc<LocalStorage>,
    pub(crate) format: ZarrFormat,
    pub(crate) limits: StoreLimits,
    pub(crate) arrays: BTreeMap<String, ArrayMeta>,
    /// What may be an array and cannot be used, and why.
    pub(crate) unusable: BTreeMap<String, Error>,
    /// Names of files, which no array can have.
    files: BTreeSet<String>,
    pub(crate) warnings: Vec<String>,
}

/// What zarr v3 says a group's document holds.
const V3_FIELDS: [&str; 4] = [
    "zarr_format",
    "node_type",
    "attributes",
    "consolidated_metadata",
];

impl ZarrGroup {
    /// Opens the group at `path` and reads the metadata of every array directly under it.
    ///
    /// # Errors
    /// Not a readable directory, not a Zarr group, or one with fields that must be understood.
    pub(crate) fn open(path: &Path, limits: StoreLimits) -> Result<Self> {
        let storage = Arc::new(LocalStorage::open(path)?);
        let of = |format| Documents {
            storage: &storage,
            limits,
            format,
            array: None,
        };
        let (v2, v3) = (of(ZarrFormat::V2), of(ZarrFormat::V3));
        let root = v3.read("zarr.json")?;
        let both = v2.read(".zgroup")?.is_some();
        let mut warnings = Vec::new();
        let documents = match &root {
            Some(root) => {
                check_root(&v3, root)?;
                if both {
                    let both = "both zarr.json and .zgroup are there: read as Zarr v3";
                    warnings.push(both.to_owned());
                }
                v3
            }
            None if both => v2,
            None => {
                return Err(v2
                    .error("not a Zarr group")
                    .expected("zarr.json or .zgroup")
                    .found("neither"));
            }
        };
        let children = storage.children().map_err(|e| {
            let e = Error::new(ErrorKind::Io, "cannot list the store").caused_by(e);
            documents.place(e)
        })?;
        let files = children.files.clone();
        let (arrays, unusable) = read_arrays(&documents, children, &mut warnings);
        for (name, why) in &unusable {
            warnings.push(format!("{name} is not used: {why}"));
        }
        compare(&documents, root.as_ref(), &arrays, &mut warnings);
        let format = documents.format;
        Ok(Self {
            storage,
            format,
            limits,
            arrays,
            unusable,
            files,
            warnings,
        })
    }

    /// The first of these names that the group has.
    ///
    /// # Errors
    /// It is there, and cannot be used.
    pub(crate) fn first_of(&self, names: &[&str]) -> Result<Option<&ArrayMeta>> {
        for name in names {
            if let Some(meta) = self.arrays.get(*name) {
                return Ok(Some(meta));
            }
            if let Some(why) = self.unusable.get(*name) {
                return Err(why.again());
            }
            if self.files.contains(*name) {
                let message = "something lies where the folder of an array should be";
                return Err(self
                    .error(ErrorKind::Io, name, message)
                    .expected("a folder, or nothing")
                    .found("a file"));
            }
        }
        Ok(None)
    }

    /// What the group has, for messages: names of arrays, and why others cannot be used.
    pub(crate) fn contents(&self) -> String {
        let mut text = format!("{:?}", self.arrays.keys().collect::<Vec<_>>());
        for why in self.unusable.values() {
            text.push_str("; ");
            text.push_str(&why.to_string());
        }
        text
    }

    /// An error that names the store and an array.
    pub(crate) fn error(&self, kind: ErrorKind, array: &str, message: impl Into<String>) -> Error {
        Error::new(kind, message)
            .store(self.storage.root())
            .array(array)
    }
}

fn check_root(documents: &Documents<'_>, root: &Value) -> Result<()> {
    let kind = root.get("node_type").and_then(Value::as_str);
    if kind != Some("group") {
        return Err(documents
            .error("not a Zarr group")
            .expected("node_type group")
            .found(kind.unwrap_or("none")));
    }
    must_understand(documents, root, &V3_FIELDS)
}

type Arrays = (BTreeMap<String, ArrayMeta>, BTreeMap<String, Error>);

/// Reads the metadata of everything that may be an array.
fn read_arrays(group: &Documents<'_>, children: Children, warnings: &mut Vec<String>) -> Arrays {
    for name in children.unnamed {
        warnings.push(format!("{name} is not used: its name is no UTF-8"));
    }
    let (mut arrays, mut unusable) = (BTreeMap::new(), BTreeMap::new());
    for (name, e) in children.unknown {
        let why = Error::new(ErrorKind::Io, e.to_string()).caused_by(e);
        unusable.insert(name.clone(), group.place(why).array(name));
    }
    for name in children.names {
        let documents = Documents {
            array: Some(&name),
            ..*group
        };
        match read_array(&documents, &name) {
            Ok(Some(meta)) => drop(arrays.insert(name, meta)),
            Ok(None) => {}
            Err(why) => drop(unusable.insert(name, why)),
        }
    }
    (arrays, unusable)
}

fn read_array(documents: &Documents<'_>, name: &str) -> Result<Option<ArrayMeta>> {
    if let Some(meta) = ArrayMeta::read(documents, name)? {
        return Ok(Some(meta));
    }
    let other = match documents.format {
        ZarrFormat::V2 => ZarrFormat::V3,
        ZarrFormat::V3 => ZarrFormat::V2,
    };
    let of_other = Documents {
        format: other,
        ..*documents
    };
    // Broken or not: the group's own format has nothing here.
    if matches!(ArrayMeta::read(&of_other, name), Ok(None)) {
        return Ok(None);
    }
    let [own, other] = [documents.format, other].map(|format| match format {
        ZarrFormat::V2 => ".zgroup and .zarray",
        ZarrFormat::V3 => "zarr.json",
    });
    Err(documents
        .error("both formats are in this store: the group is of one, the array of the other")
        .expected(format!("{own} in the group and its arrays"))
        .found(format!("{other} in {name}")))
}

/// Compares the arrays with the consolidated copy, whose own faults are warnings too.
fn compare(
    documents: &Documents<'_>,
    root: Option<&Value>,
    arrays: &BTreeMap<String, ArrayMeta>,
    warnings: &mut Vec<String>,
) {
    let copies = match documents.format {
        ZarrFormat::V2 => documents
            .read(".zmetadata")
            .map(|d| d.as_ref().map(consolidated::of_v2)),
        ZarrFormat::V3 => Ok(consolidated::of_v3(root)),
    };
    match copies {
        Ok(Some(copies)) => consolidated::compare(arrays, &copies, warnings),
        Ok(None) => {
            warnings.push("no consolidated metadata: read from each array instead".to_owned());
        }
        Err(e) => warnings.push(format!("consolidated metadata is not used: {e}")),
    }
}
