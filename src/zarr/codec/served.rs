//! Which codecs an array may have. An array of others is refused by their names before zarrs sees it, whose words
//! are about its own types; and zarrs is shown what it knows.

use crate::error::{Error, ErrorKind, Result};
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::{ArrayMeta, codec_name};
use serde_json::Value;

/// The filter that has done its work when a chunk was written: decoding changes nothing.
const IDENTITY: &str = "bitround";

/// Compressors and filters of Zarr v2, by their `id`. In v3 the same, with or without `numcodecs.` before them.
const CODECS: [&str; 9] = [
    "blosc",
    "zstd",
    "gzip",
    "zlib",
    "lz4",
    "crc32c",
    "shuffle",
    "fixedscaleoffset",
    "bitround",
];

/// What only v3 has.
const OF_V3: [&str; 6] = [
    "bytes",
    "transpose",
    "sharding_indexed",
    "packbits",
    "reshape",
    "squeeze",
];

/// Whether decoding a codec of either format changes nothing.
pub(crate) fn is_identity(codec: &Value) -> bool {
    let name = codec.get("id").and_then(Value::as_str);
    name.or_else(|| codec_name(codec)).map(plain) == Some(IDENTITY)
}

/// The document of an array as zarrs understands it: without filters that change nothing, and with numbers that
/// numcodecs takes as text.
///
/// # Errors
/// A codec that is not served, or whose configuration is not what it should be.
pub(crate) fn document(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Value> {
    let mut document = meta.document.clone();
    let place = |e: Error| e.store(group.storage.root()).array(&meta.name);
    match group.format {
        ZarrFormat::V2 => {
            if let Some(Value::Array(filters)) = document.get_mut("filters") {
                filters.retain(|filter| !is_identity(filter));
                filters.iter_mut().try_for_each(of_v2).map_err(place)?;
            }
            let compressor = document.get_mut("compressor").filter(|c| !c.is_null());
            compressor.map_or(Ok(()), of_v2).map_err(place)?;
        }
        ZarrFormat::V3 => {
            let codecs = document.get("codecs");
            of_v3(codecs)
                .into_iter()
                .try_for_each(check_v3)
                .map_err(place)?;
        }
    }
    Ok(document)
}

/// All codecs of a list, those inside shards too.
fn of_v3(codecs: Option<&Value>) -> Vec<&Value> {
    let mut all = Vec::new();
    for codec in codecs.and_then(Value::as_array).into_iter().flatten() {
        all.push(codec);
        if codec_name(codec) == Some("sharding_indexed") {
            all.extend(of_v3(codec.pointer("/configuration/codecs")));
        }
    }
    all
}

fn check_v3(codec: &Value) -> Result<()> {
    let name = codec_name(codec).map(plain);
    let known = name.is_some_and(|name| CODECS.contains(&name) || OF_V3.contains(&name));
    known
        .then_some(())
        .ok_or_else(|| unknown(codec, name, &OF_V3))
}

/// Looks at a codec, and reads its numbers.
fn of_v2(codec: &mut Value) -> Result<()> {
    let name = codec.get("id").and_then(Value::as_str);
    if !name.is_some_and(|name| CODECS.contains(&name)) {
        return Err(unknown(codec, name, &[]));
    }
    let Some(size) = codec.get_mut("elementsize") else {
        return Ok(());
    };
    let number = match &*size {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let number = number.ok_or_else(|| {
        refused("elementsize of a codec is no number")
            .expected("a whole number")
            .found(&*size)
    })?;
    *size = Value::from(number);
    Ok(())
}

/// The name of a codec without the prefix by which v3 tells codecs that are not its own.
fn plain(name: &str) -> &str {
    name.strip_prefix("numcodecs.").unwrap_or(name)
}

fn unknown(codec: &Value, name: Option<&str>, more: &[&str]) -> Error {
    let served: Vec<&str> = CODECS.iter().chain(more).copied().collect();
    refused("chunks of this codec cannot be decoded")
        .expected(format!("one of {}", served.join(", ")))
        .found(name.map_or_else(|| codec.to_string(), str::to_owned))
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Metadata, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_may_be_text_and_codecs_are_refused_by_name() {
        let mut shuffle = json!({"id": "shuffle", "elementsize": "4"});
        of_v2(&mut shuffle).unwrap();
        assert_eq!(shuffle, json!({"id": "shuffle", "elementsize": 4}));
        for size in [json!("four"), json!(-4), json!([4]), json!(null)] {
            let e = of_v2(&mut json!({"id": "shuffle", "elementsize": size})).unwrap_err();
            assert!(e.to_string().contains("elementsize"), "{e}");
        }
        for id in ["delta", "lzma", "bz2", "quantize"] {
            let e = of_v2(&mut json!({"id": id})).unwrap_err().to_string();
            assert!(
                e.contains(&format!("found {id}")) && e.contains("zstd"),
                "{e}"
            );
        }
        let inner = json!([{"name": "numcodecs.delta", "configuration": {}}]);
        let shard = json!([{"name": "sharding_indexed", "configuration": {"codecs": inner}}]);
        let e = of_v3(Some(&shard)).into_iter().try_for_each(check_v3);
        assert!(e.unwrap_err().to_string().contains("found delta"));
        let good = json!(["bytes", {"name": "numcodecs.lz4"}, {"name": "crc32c"}]);
        of_v3(Some(&good))
            .into_iter()
            .try_for_each(check_v3)
            .unwrap();
    }
}
