//! Metadata documents. Python writes what JSON does not have, `NaN` and `Infinity`; zarr spells the
//! same as text, and so they are read.

use serde_json::Value;

/// A document.
///
/// # Errors
/// It is no JSON, but for numbers that are not finite.
pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|e| match with_quoted(bytes) {
        Some(quoted) => serde_json::from_slice(&quoted).map_err(|_| e),
        None => Err(e),
    })
}

/// The same document with `NaN`, `Infinity` and `-Infinity` in quotes, where they stand outside
/// texts; `None` where there are none.
fn with_quoted(bytes: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let mut quoted = Vec::with_capacity(bytes.len() + 16);
    let mut found = false;
    let mut text = false;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let word = WORDS.iter().find(|w| !text && rest.starts_with(w));
        if let Some(word) = word {
            found = true;
            quoted.push(b'"');
            quoted.extend_from_slice(word);
            quoted.push(b'"');
            at += word.len();
            continue;
        }
        // What follows a backslash in a text is not its end.
        let length = if text && rest[0] == b'\\' { 2 } else { 1 };
        text ^= rest[0] == b'"';
        quoted.extend_from_slice(&rest[..length.min(rest.len())]);
        at += length;
    }
    found.then_some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_are_not_finite_are_read_as_zarr_spells_them() {
        let written =
            br#"{"a": NaN, "b":[-Infinity,Infinity , NaN], "NaN": "NaN, \\\"NaN", "c": 1e5}"#;
        let expected = json!({"a": "NaN", "b": ["-Infinity", "Infinity", "NaN"],
            "NaN": "NaN, \\\"NaN", "c": 1e5});
        assert_eq!(parse(written).unwrap(), expected);
    }

    #[test]
    fn nothing_else_becomes_json() {
        for bad in [
            "{",
            "NaN NaN",
            "{NaN: 1,}",
            "[nan]",
            "[-NaN]",
            "[NaNa]",
            "[1NaN]",
            "",
            "\\",
            "\"NaN",
            "\"\\",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        // As deep as a document gets, and not deeper: no recursion without end.
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }
}
