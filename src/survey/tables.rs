//! The statistics of a store: whether they are there, can normalise, and are those of its data.

use crate::error::ErrorKind;
use crate::open::Om4Paths;
use crate::options::Strictness;
use crate::store::om4_store::Store;
use crate::store::options::OpenOptions;
use crate::store::statistics::{ChannelStats, Statistics};
use crate::survey::finding::{Finding, FindingKind, Severity};
use crate::survey::moments::Moments;
use crate::survey::planes::Seen;
use std::path::Path;

/// Whether nothing at all is at a path.
pub(super) fn is_absent(path: &Path) -> bool {
    matches!(path.symlink_metadata(), Err(e) if e.kind() == std::io::ErrorKind::NotFound)
}

/// Looks at the statistics of every channel of a store. `seen`: all values of the store, to compare with.
pub(super) fn check_statistics(
    paths: &Om4Paths,
    store: &Store,
    seen: Option<&Seen>,
) -> Vec<Finding> {
    let Om4Paths { means, stds, .. } = paths;
    let absent: Vec<_> = [means, stds].into_iter().filter(|p| is_absent(p)).collect();
    if !absent.is_empty() {
        let missing = |path: &&std::path::PathBuf| {
            let message = "statistics are missing: `om4 stats` computes them";
            Finding::new(Severity::Warning, FindingKind::Statistics, path, message)
        };
        return absent.iter().map(missing).collect();
    }
    let options = OpenOptions::default().with_strictness(Strictness::Lenient);
    let statistics = match Statistics::open(means, stds, &options) {
        Ok(statistics) => statistics,
        Err(e) => return vec![Finding::of(&e, means, FindingKind::Statistics)],
    };
    let mut findings = Vec::new();
    for warning in statistics.warnings() {
        findings.extend(consolidated(means, warning));
    }
    let values: Vec<_> = store
        .channels()
        .iter()
        .map(|channel| (channel.clone(), statistics.get(channel)))
        .collect();
    for (position, (channel, stats)) in values.into_iter().enumerate() {
        let stats = stats.and_then(|stats| {
            let strictly = Statistics::from_values([(channel.clone(), stats)], Strictness::Strict);
            strictly.get(&channel)
        });
        match (stats, seen.and_then(|seen| seen.channels.get(&position))) {
            (Err(e), _) => {
                let mut finding = Finding::of(&e, stds, FindingKind::Statistics);
                finding.array = Some(channel.name().to_owned());
                if e.kind() == ErrorKind::Metadata {
                    finding.severity = Severity::Warning;
                }
                findings.push(finding);
            }
            (Ok(stats), Some(values)) => {
                if let Some(message) = disagree(&stats, &values.moments) {
                    let kind = FindingKind::Statistics;
                    let finding = Finding::new(Severity::Warning, kind, stds, message);
                    findings.push(finding.array(channel.name()));
                }
            }
            (Ok(_), None) => {}
        }
    }
    findings
}

/// Whether statistics can hardly be those of a part of the data: of some of the years they differ a little.
fn disagree(stats: &ChannelStats, data: &Moments) -> Option<String> {
    let (mean, std) = (f64::from(stats.mean), f64::from(stats.std));
    if data.count() < 2 || !data.mean().is_finite() || data.std() <= 0.0 {
        return None;
    }
    let apart = (mean - data.mean()).abs() > 0.5 * data.std();
    let ratio = std / data.std();
    let other = !(0.5..=2.0).contains(&ratio);
    (apart || other).then(|| {
        format!(
            "mean {mean:.6e} and standard deviation {std:.6e}, where the data have {:.6e} and {:.6e}",
            data.mean(),
            data.std()
        )
    })
}

/// What a group says about its consolidated metadata. That there is none is no defect.
pub(super) fn consolidated(store: &Path, warning: &str) -> Option<Finding> {
    if !warning.contains("consolidated") && !warning.starts_with("both zarr.json") {
        return None;
    }
    let severity = match warning.starts_with("no consolidated") {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let finding = Finding::new(severity, FindingKind::Consolidated, store, warning);
    let mut words = warning
        .split_whitespace()
        .skip_while(|word| *word != "array");
    let array = words.nth(1).map(|name| name.trim_end_matches([':', ',']));
    Some(match array {
        Some(name) => finding.array(name),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_other_years_agree_and_of_another_field_do_not() {
        let data = Moments::of_plane(&[1.0, 2.0, 3.0, 4.0], &[true; 4]);
        let of = |mean, std| disagree(&ChannelStats { mean, std }, &data);
        assert_eq!(of(2.5, 1.118), None);
        assert_eq!(of(2.8, 0.9), None);
        assert!(of(2.5, 11.18).is_some());
        assert!(of(275.5, 1.118).is_some());
        // A field without deviation is found as such.
        let constant = Moments::of_plane(&[1.0; 4], &[true; 4]);
        assert_eq!(
            disagree(
                &ChannelStats {
                    mean: 0.0,
                    std: 1.0
                },
                &constant
            ),
            None
        );
    }

    #[test]
    fn warnings_about_the_copy_name_their_array() {
        let warning = "consolidated metadata of array zos is stale (shape): the array's own";
        let finding = consolidated(Path::new("s"), warning).unwrap();
        assert_eq!(finding.array.as_deref(), Some("zos"));
        let warning = "consolidated metadata lacks array so_1: the array's own metadata is used";
        let finding = consolidated(Path::new("s"), warning).unwrap();
        assert_eq!(finding.array.as_deref(), Some("so_1"));
        assert_eq!(
            consolidated(Path::new("s"), "mask mask_0: 1 NaN cells count as dry"),
            None
        );
    }
}
