//! The axes of a store: times in order and without gaps, levels from the surface down.

use crate::error::Result;
use crate::ocean::calendar::DateTime;
use crate::ocean::time::{DEFAULT_GAP_FACTOR, TimeAxis};
use crate::store::axes::LEVEL_NAMES;
use crate::store::om4_store::Store;
use crate::store::opening::Opening;
use crate::survey::finding::{Finding, FindingKind, Severity};
use crate::zarr::group::ZarrGroup;

/// A step of time that is much longer than the others.
pub(super) struct LongStep {
    /// The row after it.
    pub row: usize,
    pub before: DateTime,
    pub after: DateTime,
}

pub(super) fn long_steps(time: &TimeAxis) -> Vec<LongStep> {
    let segments = time.segments(0..time.len(), DEFAULT_GAP_FACTOR);
    let step = |rows: &std::ops::Range<usize>| LongStep {
        row: rows.start,
        before: time.datetime(rows.start - 1),
        after: time.datetime(rows.start),
    };
    segments.iter().skip(1).map(step).collect()
}

/// Looks for gaps in the time axis.
pub(super) fn check_gaps(store: &Store) -> Vec<Finding> {
    let time = store.time();
    let name = "time";
    let gap = |step: LongStep| {
        let message = format!(
            "a gap: from {} to {}; windows never cross it",
            step.before, step.after
        );
        Finding::new(Severity::Warning, FindingKind::Gap, store.path(), message)
            .array(name)
            .row(step.row)
    };
    long_steps(time).into_iter().map(gap).collect()
}

/// Looks at the level coordinate, and at the levels of channels and masks.
///
/// # Errors
/// None: what cannot be read is a finding.
pub(super) fn check_levels(
    group: &ZarrGroup,
    opening: &mut Opening<'_>,
    store: &Store,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut levels = None;
    // One that cannot be used was found before.
    let meta = group.first_of(&LEVEL_NAMES).ok().flatten();
    if let Some(meta) = meta.filter(|m| m.shape.len() == 1) {
        let name = &meta.name;
        let finding = |severity, message: String| {
            Finding::new(severity, FindingKind::Levels, store.path(), message).array(name)
        };
        match opening.read(meta).map(|numbers| numbers.into_f64()) {
            Err(e) => findings.push(Finding::of(&e, store.path(), FindingKind::Levels)),
            Ok(depths) => {
                levels = Some((name.clone(), depths.len()));
                findings.extend(out_of_order(&depths).map(|m| finding(Severity::Error, m)));
            }
        }
    }
    for channel in store.channels() {
        let Some(level) = channel.level() else {
            continue;
        };
        let finding = |severity, kind, message: String| {
            Finding::new(severity, kind, store.path(), message).array(channel.name())
        };
        let beyond = levels.as_ref().filter(|(_, n)| level >= *n);
        match (beyond, store.masks().level(level)) {
            (None, Ok(_)) => {}
            (None, Err(_)) => {
                let message = format!("no mask of level {level}");
                findings.push(finding(Severity::Error, FindingKind::Mask, message));
            }
            (Some((name, n)), Ok(_)) => {
                let message = format!("level {level}, where {name} has {n} levels");
                findings.push(finding(Severity::Warning, FindingKind::Levels, message));
            }
            (Some((name, n)), Err(_)) => {
                let message =
                    format!("ends in {level}, where {name} has {n} levels: a field of the surface");
                findings.push(finding(Severity::Note, FindingKind::Levels, message));
            }
        }
    }
    findings
}

/// What is wrong with depths that should grow.
fn out_of_order(depths: &[f64]) -> Option<String> {
    let bad = depths.iter().position(|d| !d.is_finite());
    if let Some(at) = bad {
        return Some(format!("depth {at} is {}", depths[at]));
    }
    let steps = || depths.windows(2);
    if depths.len() > 1 && steps().all(|w| w[1].abs() < w[0].abs()) {
        return Some("levels run from the bottom up: level 0 must be the surface".to_owned());
    }
    let at = steps().position(|w| w[1].abs() <= w[0].abs())?;
    let (above, below) = (depths[at], depths[at + 1]);
    Some(format!("depth {} is {below}, not below {above}", at + 1))
}

/// The error of a time axis that cannot be read, as a finding.
pub(super) fn time_finding(group: &ZarrGroup, time: Result<TimeAxis>) -> Option<Finding> {
    let e = time.err()?;
    Some(Finding::of(&e, group.storage.root(), FindingKind::Time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_grow_from_the_surface() {
        assert_eq!(out_of_order(&[2.5, 10.0, 22.5]), None);
        // Heights below the surface are as good.
        assert_eq!(out_of_order(&[-2.5, -10.0]), None);
        assert_eq!(out_of_order(&[5.0]), None);
        for (depths, word) in [
            (&[22.5, 10.0, 2.5][..], "bottom up"),
            (&[2.5, 22.5, 10.0], "depth 2 is 10"),
            (&[2.5, 2.5], "depth 1"),
            (&[2.5, f64::NAN], "depth 1 is NaN"),
        ] {
            let found = out_of_order(depths).unwrap();
            assert!(found.contains(word), "{found}");
        }
    }
}
