//! Floats in JSON, which has no NaN and no infinities: serde_json writes `null`, which no float is read
//! from. Here they are text, `"NaN"`, `"inf"` and `"-inf"`, and come back as what they were.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

impl Written {
    fn of(value: f64) -> Self {
        match value.is_finite() {
            true => Self::Number(value),
            false => Self::Text(value.to_string()),
        }
    }

    fn value<E: de::Error>(self) -> Result<f64, E> {
        match self {
            Self::Number(value) => Ok(value),
            Self::Text(text) => match text.as_str() {
                "NaN" => Ok(f64::NAN),
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(E::custom(format!("`{text}` is no number"))),
            },
        }
    }
}

pub(crate) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    Written::of(*value).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Written::deserialize(from)?.value()
}

/// Several.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| Written::of(*value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let written = Vec::<Written>::deserialize(from)?;
        written.into_iter().map(Written::value).collect()
    }
}

/// One, or none (`null`).
pub(crate) mod maybe {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Written::of).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        let written = Option::<Written>::deserialize(from)?;
        written.map(Written::value).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Record {
        #[serde(with = "crate::floats")]
        one: f64,
        #[serde(with = "crate::floats::list")]
        list: Vec<f64>,
        #[serde(with = "crate::floats::maybe")]
        maybe: Option<f64>,
    }

    #[test]
    fn every_float_comes_back() {
        let values = [0.0, -1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for value in values {
            for maybe in [None, Some(value)] {
                let list = values.to_vec();
                let record = Record {
                    one: value,
                    list,
                    maybe,
                };
                let text = serde_json::to_string(&record).unwrap();
                let read: Record = serde_json::from_str(&text).unwrap();
                let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(same(read.one, value), "{text}");
                assert_eq!(read.list.len(), values.len());
                assert!(read.list.iter().zip(values).all(|(a, b)| same(*a, b)));
                assert_eq!(read.maybe.is_some(), maybe.is_some(), "{text}");
                assert!(read.maybe.is_none_or(|read| same(read, value)), "{text}");
            }
        }
        assert!(serde_json::from_str::<Record>(r#"{"one":"1","list":[],"maybe":null}"#).is_err());
    }
}
