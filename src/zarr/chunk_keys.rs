//! Storage keys of chunks, written into a reused buffer: what a chunk costs beside its bytes.
//!
//! zarrs makes a fresh string for each; with one plane per file that is felt. The encodings that
//! occur are few, so the array's is recognised when it is opened, by comparing with zarrs.

use std::fmt::Write;
use std::ops::Deref;

/// Indices of a chunk in the array's own dimension order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Indices {
    values: [u64; 4],
    rank: usize,
}

impl Indices {
    /// Of an array of planes, with levels.
    pub(crate) fn four(values: [u64; 4]) -> Self {
        Self { values, rank: 4 }
    }

    /// Of an array of planes, without levels.
    pub(crate) fn three([a, b, c]: [u64; 3]) -> Self {
        let values = [a, b, c, 0];
        Self { values, rank: 3 }
    }
}

impl Deref for Indices {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.values[..self.rank]
    }
}

/// A prefix, and the indices with something between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKeys {
    prefix: String,
    separator: char,
}

impl ChunkKeys {
    /// The encoding of `array` that agrees with `known` keys; `None` when it is another one.
    pub(crate) fn recognise(array: &str, known: &[(Vec<u64>, String)]) -> Option<Self> {
        let candidates = [("", '.'), ("", '/'), ("c/", '/'), ("c.", '.')];
        let mut candidates = candidates.into_iter().map(|(before, separator)| Self {
            prefix: format!("{array}/{before}"),
            separator,
        });
        candidates.find(|candidate| {
            known.iter().all(|(indices, key)| {
                let mut own = String::new();
                candidate.write(indices, &mut own);
                own == *key
            })
        })
    }

    /// Replaces what `key` held.
    pub(crate) fn write(&self, indices: &[u64], key: &mut String) {
        key.clear();
        key.push_str(&self.prefix);
        for (at, index) in indices.iter().enumerate() {
            if at > 0 {
                key.push(self.separator);
            }
            // Strings take all that is written to them.
            let _ = write!(key, "{index}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_encoding_is_recognised_and_others_are_not() {
        for keys in [
            ["so/0.0.0", "so/12.3.40"],
            ["so/0/0/0", "so/12/3/40"],
            ["so/c/0/0/0", "so/c/12/3/40"],
            ["so/c.0.0.0", "so/c.12.3.40"],
        ] {
            let known = [
                (vec![0, 0, 0], keys[0].to_owned()),
                (vec![12, 3, 40], keys[1].to_owned()),
            ];
            let found = ChunkKeys::recognise("so", &known).unwrap();
            let mut key = "what was there".to_owned();
            found.write(&Indices::three([7, 8, 9]), &mut key);
            assert_eq!(
                key,
                keys[1]
                    .replace("12", "7")
                    .replace("40", "9")
                    .replace('3', "8")
            );
        }
        let odd = [(vec![0, 1, 2], "so/d/0/1/2".to_owned())];
        assert_eq!(ChunkKeys::recognise("so", &odd), None);
    }
}
