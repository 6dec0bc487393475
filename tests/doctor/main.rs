//! An examination finds what is wrong with a store, and nothing in stores that are sound.

mod damage;
mod sound;

use burn_om4::Om4Paths;
use burn_om4::survey::{Depth, Examination, Examined, Finding, FindingKind};
use burn_om4::synth::{Chunking, Codec, Consolidation, Format, Layout, SynthOptions};
use std::collections::BTreeSet;
use std::path::Path;

/// The form of the store that is damaged.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Plain,
    Consolidated,
    Blosc,
    Zstd,
    Sharded,
    Compact,
}

impl Form {
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::Consolidated,
        Self::Blosc,
        Self::Zstd,
        Self::Sharded,
        Self::Compact,
    ];

    /// Rows of the time axis.
    pub const ROWS: usize = 12;

    pub fn write(self, dir: &Path) {
        let options = SynthOptions::new(6, 12)
            .with_levels(2)
            .with_rows(Self::ROWS)
            .with_consolidation(Consolidation::Separate);
        let options = match self {
            Self::Plain => options,
            Self::Consolidated => options.with_consolidation(Consolidation::Consolidated),
            Self::Blosc => options.with_codec(Codec::BloscLz4),
            Self::Zstd => options.with_format(Format::V3).with_codec(Codec::Zstd),
            Self::Sharded => options
                .with_format(Format::V3)
                .with_codec(Codec::Zstd)
                .with_chunking(Chunking::Shards(4)),
            Self::Compact => options.with_layout(Layout::CompactLevTime),
        };
        options.write(dir).unwrap();
    }
}

/// Where a finding is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Chunk(&'static str),
    Row(usize),
    Array,
    /// In the store as a whole.
    Store,
}

/// A damaged store, and what must be found in it.
pub struct Case {
    name: &'static str,
    form: Form,
    damage: fn(&Path),
    kind: FindingKind,
    array: &'static str,
    place: Place,
    /// Other kinds that follow from the same defect.
    follow: &'static [FindingKind],
}

impl Case {
    fn meets(&self, finding: &Finding) -> bool {
        let array = finding.array.as_deref();
        let place = match self.place {
            Place::Chunk(key) => finding.chunk.as_deref().is_some_and(|c| c.ends_with(key)),
            Place::Row(row) => finding.row == Some(row),
            Place::Array => true,
            Place::Store => return finding.kind == self.kind,
        };
        finding.kind == self.kind && array == Some(self.array) && place
    }
}

pub fn examine(dir: &Path, depth: Depth) -> Examined {
    let examination = Examination::new(&Om4Paths::in_dir(dir)).with_depth(depth);
    examination.run().unwrap()
}

#[test]
fn every_seeded_defect_is_found_and_nothing_else() {
    let cases = damage::all();
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    assert!(names.len() >= 30, "{} damaged stores", names.len());
    let mut failures = Vec::new();
    for case in &cases {
        let dir = tempfile::tempdir().unwrap();
        case.form.write(dir.path());
        (case.damage)(dir.path());
        let examined = examine(dir.path(), Depth::Full);
        let found = examined.findings.iter().any(|finding| case.meets(finding));
        let kinds = || examined.findings.iter().map(|finding| finding.kind);
        let others = kinds().any(|kind| kind != case.kind && !case.follow.contains(&kind));
        if !found || others {
            let said = examined.findings.iter().map(ToString::to_string);
            let said: Vec<_> = said.collect();
            let name = case.name;
            failures.push(format!(
                "{name}: found {found}, all:\n    {}",
                said.join("\n    ")
            ));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
