//! `A..B`: rows of a time axis, A included, B not, either left out for the first or the last.

use anyhow::{Result, bail, ensure};
use std::ops::Range;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    first: Option<usize>,
    end: Option<usize>,
}

impl FromStr for Rows {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((first, end)) = text.split_once("..") else {
            bail!("`{text}` is not A..B, A.. or ..B");
        };
        let row = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some),
        };
        Ok(Self {
            first: row(first)?,
            end: row(end)?,
        })
    }
}

impl Rows {
    /// These rows of an axis of `len`.
    pub(crate) fn of(self, len: usize) -> Result<Range<usize>> {
        let (first, end) = (self.first.unwrap_or(0), self.end.unwrap_or(len));
        ensure!(end <= len, "rows {first}..{end}: the store has {len}");
        ensure!(first < end, "rows {first}..{end}: there is none");
        Ok(first..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_end_may_be_left_out() {
        let rows = |text: &str| text.parse::<Rows>().and_then(|rows| rows.of(8)).ok();
        assert_eq!(rows("2..5"), Some(2..5));
        assert_eq!(rows("2.."), Some(2..8));
        assert_eq!(rows("..5"), Some(0..5));
        assert_eq!(rows(".."), Some(0..8));
        for bad in ["2", "5..2", "2..9", "8..", "2..2", "a..b", "-1..3"] {
            assert_eq!(rows(bad), None, "{bad}");
        }
    }
}
