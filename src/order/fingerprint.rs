//! Digests that recognise a data set, part by part.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::BTreeMap;
use std::hash::Hasher;

/// What a store's contents look like, in a few words: one digest (128 bits, hex) for each named
/// part.
///
/// Two stores that differ in a part differ in its digest, but for accidents; it is no protection
/// against forgery. Digests depend on the values alone: not on the platform, nor on this crate's
/// version while [`LoaderState`](crate::LoaderState)'s stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// The digest of a part, as 32 hexadecimal digits.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// With one part more, or another digest of a part.
    pub(crate) fn with(mut self, name: &str, part: FingerprintPart) -> Self {
        self.0.insert(name.to_owned(), part.finish());
        self
    }

    /// Compares a saved fingerprint (`self`) with the present one.
    ///
    /// # Errors
    /// Parts that differ, or are on one side only: all of them are named.
    pub fn check(&self, present: &Self) -> Result<()> {
        let names = self.0.keys().chain(present.0.keys());
        let mut changed: Vec<&str> = names
            .filter(|name| self.0.get(*name) != present.0.get(*name))
            .map(String::as_str)
            .collect();
        changed.sort_unstable();
        changed.dedup();
        if changed.is_empty() {
            return Ok(());
        }
        let digests = |fingerprint: &Self| {
            let digest = |name: &&str| fingerprint.part(name).unwrap_or("nothing").to_owned();
            changed.iter().map(digest).collect::<Vec<_>>().join(", ")
        };
        Err(Error::config(format!(
            "the store has changed since the state was saved ({})",
            changed.join(", ")
        ))
        .expected(digests(self))
        .found(digests(present)))
    }
}

/// Takes the fingerprint of a store, part by part.
///
/// ```
/// use burn_om4::order::FingerprintBuilder;
/// let mut builder = FingerprintBuilder::default();
/// builder.part("time axis").text("julian").f64s(&[0.0, 5.0, 10.0]);
/// builder.part("channels").text("thetao_0").text("zos");
/// let fingerprint = builder.finish();
/// assert_eq!(fingerprint.part("time axis").unwrap().len(), 32);
/// assert_eq!(fingerprint.part("grid"), None);
/// ```
#[derive(Default)]
pub struct FingerprintBuilder(BTreeMap<String, FingerprintPart>);

impl FingerprintBuilder {
    /// The part of this name: a new one, or what has been fed to it so far.
    pub fn part(&mut self, name: &str) -> &mut FingerprintPart {
        self.0.entry(name.to_owned()).or_default()
    }

    /// The digests of all parts.
    pub fn finish(self) -> Fingerprint {
        let digest = |(name, part): (String, FingerprintPart)| (name, part.finish());
        Fingerprint(self.0.into_iter().map(digest).collect())
    }
}

/// One part of a [`FingerprintBuilder`]. Each value goes in with its type and length, so that no
/// two sequences of calls feed the same bytes.
#[derive(Default)]
pub struct FingerprintPart(SipHasher13);

impl FingerprintPart {
    /// A string.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.feed(b't', text.len(), [text.as_bytes()])
    }

    /// Raw bytes, such as a mask.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.feed(b'b', bytes.len(), [bytes])
    }

    /// Unsigned integers.
    pub fn u64s(&mut self, values: &[u64]) -> &mut Self {
        self.feed(b'u', values.len(), values.iter().map(|v| v.to_le_bytes()))
    }

    /// Signed integers.
    pub fn i64s(&mut self, values: &[i64]) -> &mut Self {
        self.feed(b'i', values.len(), values.iter().map(|v| v.to_le_bytes()))
    }

    /// Numbers by their bits: 0 and -0 differ, and all NaN are one.
    pub fn f32s(&mut self, values: &[f32]) -> &mut Self {
        let bits = |v: &f32| if v.is_nan() { f32::NAN } else { *v }.to_bits();
        let values = values.iter().map(|v| bits(v).to_le_bytes());
        self.feed(b'f', values.len(), values)
    }

    /// Numbers by their bits: 0 and -0 differ, and all NaN are one.
    pub fn f64s(&mut self, values: &[f64]) -> &mut Self {
        let bits = |v: &f64| if v.is_nan() { f64::NAN } else { *v }.to_bits();
        let values = values.iter().map(|v| bits(v).to_le_bytes());
        self.feed(b'd', values.len(), values)
    }

    fn feed<B: AsRef<[u8]>>(
        &mut self,
        kind: u8,
        count: usize,
        values: impl IntoIterator<Item = B>,
    ) -> &mut Self {
        self.0.write(&[kind]);
        self.0.write(&(count as u64).to_le_bytes());
        for value in values {
            self.0.write(value.as_ref());
        }
        self
    }

    pub(crate) fn finish(&self) -> String {
        let digest = self.0.finish128();
        format!("{:016x}{:016x}", digest.h1, digest.h2)
    }
}
