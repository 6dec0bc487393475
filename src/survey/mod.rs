//! A store looked at as a whole: its statistics computed, what it is, and what is wrong with it.
//!
//! ```text
//!  compute ──▶ Moments ──▶ publish        statistics, in one pass over the planes
//!  inspection                             what a store is, from its metadata and its folders
//!  examination ──▶ files, axes, planes, tables ──▶ Finding
//! ```
//!
//! ```
//! # use burn_om4::synth::SynthOptions;
//! # let temp = tempfile::tempdir()?;
//! # let dir = temp.path();
//! # SynthOptions::new(6, 12).with_levels(2).with_rows(12).write(dir)?;
//! use burn_om4::Om4Paths;
//! use burn_om4::survey::{Depth, Examination};
//!
//! let examination = Examination::new(&Om4Paths::in_dir(dir)).with_depth(Depth::Full).run()?;
//! assert!(examination.findings.is_empty(), "{:?}", examination.findings);
//! # Ok::<(), anyhow::Error>(())
//! ```

mod axes;
mod blocks;
mod compute;
mod examination;
mod files;
mod finding;
mod inspection;
mod listing;
mod moments;
mod planes;
mod publish;
mod resume;
mod tables;

pub use compute::{ComputedStatistics, compute_statistics};
pub use examination::{Examination, Examined};
pub use finding::{Finding, FindingKind, Severity};
pub use inspection::{ArraySummary, Gap, Inspection, MaskSummary, VariableSummary};
pub use moments::Moments;
pub use planes::Depth;
pub use publish::Overwrite;
