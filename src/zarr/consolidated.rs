//! The consolidated copy of metadata: only compared, because it goes stale when a store is appended to
//! or repaired. A difference becomes a warning.

use crate::zarr::metadata::ArrayMeta;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Array name -> (document, attributes) as the consolidated copy has them.
pub(super) type Copies = BTreeMap<String, (Option<Value>, Option<Value>)>;

/// The copy of a v2 group, a document of its own.
pub(super) fn of_v2(root: &Value) -> Copies {
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
    copies
}

/// The copy of a v3 group, a part of its document; `None` where it has none.
pub(super) fn of_v3(root: Option<&Value>) -> Option<Copies> {
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
pub(super) fn compare(
    arrays: &BTreeMap<String, ArrayMeta>,
    copies: &Copies,
    warnings: &mut Vec<String>,
) {
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
