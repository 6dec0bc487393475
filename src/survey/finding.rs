//! What an examination finds: how bad, what kind, where, in words.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing, and nothing wrong.
    Note,
    /// May be meant, and should be looked at.
    Warning,
    /// Training on it would be wrong, or not possible.
    Error,
}

/// What kind of defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Metadata that cannot be read, or does not fit together.
    Metadata,
    /// The consolidated copy differs from the arrays' own metadata.
    Consolidated,
    /// A chunk that the metadata promises is not there.
    MissingChunk,
    /// A chunk file of another size than its chunk has: cut, empty or too long.
    Size,
    /// A chunk that does not decode.
    Corrupt,
    /// What the system does not let be read, or no file at all.
    Unreadable,
    /// A chunk file that the metadata does not know.
    Stray,
    /// Times that are missing, repeated or run back.
    Time,
    /// A step of time much longer than the others.
    Gap,
    /// Levels out of order, or not as many as there should be.
    Levels,
    /// A mask that is missing, inverted or not of zeros and ones.
    Mask,
    /// Ocean cells without a value.
    NanInOcean,
    /// Infinite values in ocean cells.
    Infinite,
    /// Ocean values beyond any measurement, as unmarked missing values are.
    Extreme,
    /// A channel with one value throughout.
    Constant,
    /// A mean or standard deviation that is missing, cannot normalise, or is not that of the data.
    Statistics,
}

/// One defect, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What kind.
    pub kind: FindingKind,
    /// The store it is in.
    pub store: PathBuf,
    /// The array, where it is in one.
    pub array: Option<String>,
    /// The chunk's key within its array, where it is in one.
    pub chunk: Option<String>,
    /// The row of the time axis, where it is at one.
    pub row: Option<usize>,
    /// What it is, in words.
    pub message: String,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        kind: FindingKind,
        store: &Path,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            kind,
            store: store.to_owned(),
            array: None,
            chunk: None,
            row: None,
            message: message.into(),
        }
    }

    pub(super) fn array(mut self, name: impl Into<String>) -> Self {
        self.array = Some(name.into());
        self
    }

    pub(super) fn chunk(mut self, key: impl Into<String>) -> Self {
        self.chunk = Some(key.into());
        self
    }

    pub(super) fn row(mut self, row: usize) -> Self {
        self.row = Some(row);
        self
    }

    /// A failure of opening or reading as a finding; `kind` where the failure does not say it.
    pub(super) fn of(e: &Error, store: &Path, kind: FindingKind) -> Self {
        let kind = match e.kind() {
            ErrorKind::MissingChunk => FindingKind::MissingChunk,
            ErrorKind::Corrupt => FindingKind::Corrupt,
            ErrorKind::Io => FindingKind::Unreadable,
            _ => kind,
        };
        let mut message = e.to_string();
        let mut cause = std::error::Error::source(e);
        while let Some(c) = cause {
            message = format!("{message}: {c}");
            cause = c.source();
        }
        Self {
            severity: Severity::Error,
            kind,
            store: e.store_path().unwrap_or(store).to_owned(),
            array: e.array_name().map(str::to_owned),
            chunk: e.chunk_key().map(str::to_owned),
            row: e.time_row(),
            message,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: ")?;
        let mut place = Vec::new();
        place.extend(self.array.as_ref().map(|a| format!("array {a}")));
        place.extend(self.chunk.as_ref().map(|c| format!("chunk {c}")));
        place.extend(self.row.map(|r| format!("time row {r}")));
        if !place.is_empty() {
            write!(f, "{}: ", place.join(", "))?;
        }
        f.write_str(&self.message)
    }
}

/// Findings of one kind in one array that are listed one by one; the rest is counted.
const LISTED: usize = 20;

/// Leaves out what is said twice, and counts what is many.
pub(super) fn condense(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept = Vec::new();
    let mut said = HashSet::new();
    let mut counts: HashMap<_, (usize, Finding)> = HashMap::new();
    for finding in findings {
        if !said.insert(finding.clone()) {
            continue;
        }
        let alike = (
            finding.severity,
            finding.kind,
            finding.array.clone(),
            finding.store.clone(),
        );
        let count = counts.entry(alike).or_insert_with(|| (0, finding.clone()));
        count.0 += 1;
        if count.0 <= LISTED {
            kept.push(finding);
        }
    }
    let mut more: Vec<(usize, Finding)> = counts.into_values().filter(|c| c.0 > LISTED).collect();
    more.sort_by(|(_, a), (_, b)| (&a.store, &a.array).cmp(&(&b.store, &b.array)));
    let more = more.into_iter().map(|(count, finding)| Finding {
        chunk: None,
        row: None,
        message: format!("and {} more of this kind in this array", count - LISTED),
        ..finding
    });
    kept.extend(more);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_and_many_are_counted() {
        let finding = |row| {
            Finding::new(
                Severity::Error,
                FindingKind::NanInOcean,
                Path::new("s"),
                "NaN",
            )
            .array("zos")
            .row(row)
        };
        let mut many: Vec<Finding> = (0..30).map(finding).collect();
        many.push(finding(3));
        let kept = condense(many);
        assert_eq!(kept.len(), LISTED + 1);
        assert!(kept[LISTED].message.contains("10 more"), "{}", kept[LISTED]);
        assert_eq!(kept[3].to_string(), "error: array zos, time row 3: NaN");
    }
}
