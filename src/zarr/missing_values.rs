//! Which values of an array mean "missing", by what its metadata names:
//!
//! - the attributes `_FillValue` and `missing_value`, each a value or a list: whatever they name;
//! - the fill value in Zarr v2, where xarray keeps `_FillValue`; but not 0, which zarr writes there
//!   by default and which is a value like any other;
//! - the fill value in Zarr v3: never. It is what a chunk holds that was not written.

use crate::error::{ErrorKind, Result};
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use base64::Engine;
use serde_json::Value;

/// A number as metadata spells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

/// Attributes that name missing values.
const ATTRIBUTES: [&str; 2] = ["_FillValue", "missing_value"];

/// Every value that an array's metadata names as missing.
///
/// # Errors
/// An attribute that is no number, no list of numbers, and no text that means one.
pub(crate) fn named(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Vec<Number>> {
    let mut named = Vec::new();
    let mut add = |name: &str, value: &Value| {
        let listed = std::slice::from_ref(value);
        let listed = value.as_array().map_or(listed, Vec::as_slice);
        for value in listed.iter().filter(|v| !v.is_null()) {
            named.push(number(value).ok_or_else(|| {
                let message = format!("{name} names no number as missing");
                group
                    .error(ErrorKind::Metadata, &meta.name, message)
                    .expected("a number or a list of numbers; as text base64 of a double, NaN, Infinity or -Infinity")
                    .found(value)
            })?);
        }
        Ok(())
    };
    for name in ATTRIBUTES {
        if let Some(value) = meta.attributes.get(name) {
            add(name, value)?;
        }
    }
    let fill = meta.document.get("fill_value");
    if let (ZarrFormat::V2, Some(fill)) = (group.format, fill)
        && !number(fill).is_some_and(Number::is_zero)
    {
        add("fill_value", fill)?;
    }
    Ok(named)
}

impl Number {
    fn is_zero(self) -> bool {
        match self {
            Self::Int(n) => n == 0,
            Self::Float(x) => x == 0.0,
        }
    }
}

/// A number; as text only in the forms that xarray and Zarr write: base64 of the eight bytes of a
/// little-endian double, and the names of what JSON has no numbers for.
pub(crate) fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(b) => Some(Number::Int(i128::from(*b))),
        Value::Number(n) => Some(match n.as_i64().map(i128::from) {
            Some(n) => Number::Int(n),
            None => match n.as_u64() {
                Some(n) => Number::Int(i128::from(n)),
                None => Number::Float(n.as_f64()?),
            },
        }),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(Number::Float(f64::NAN)),
            "Infinity" => Some(Number::Float(f64::INFINITY)),
            "-Infinity" => Some(Number::Float(f64::NEG_INFINITY)),
            _ => {
                let bytes = base64::prelude::BASE64_STANDARD.decode(text).ok()?;
                let double = f64::from_le_bytes(bytes.try_into().ok()?);
                Some(Number::Float(double))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_as_xarray_writes_them() {
        let float = |x| Some(Number::Float(x));
        assert_eq!(number(&json!(1e20)), float(1e20));
        assert_eq!(number(&json!(-9999)), Some(Number::Int(-9999)));
        assert_eq!(number(&json!(i64::MIN)), Some(Number::Int(i64::MIN.into())));
        assert_eq!(number(&json!(u64::MAX)), Some(Number::Int(u64::MAX.into())));
        assert_eq!(number(&json!(true)), Some(Number::Int(1)));
        // base64 of the eight bytes of a double, whatever the array's type, as in the fixtures.
        let Some(Number::Float(nan)) = number(&json!("AAAAAAAA+H8=")) else {
            panic!("no double");
        };
        assert!(nan.is_nan());
        assert_eq!(number(&json!("QIy1eB2vFUQ=")), float(1e20));
        assert_eq!(number(&json!("AAAAgOs/j8A=")), float(f64::from(-999.99f32)));
        assert_eq!(number(&json!("AAAAAAAAAAA=")), float(0.0));
        assert_eq!(number(&json!("-Infinity")), float(f64::NEG_INFINITY));
    }

    #[test]
    fn other_text_is_no_number() {
        // The last two are base64, of three bytes and of sixteen.
        for text in [
            "1e20",
            "none",
            "",
            "missing",
            "AAAA",
            "AAAAAAAAAAAAAAAAAAAAAA==",
        ] {
            assert_eq!(number(&json!(text)), None, "{text}");
        }
        assert_eq!(number(&json!({"value": 1})), None);
        assert_eq!(number(&json!([1])), None);
    }
}
