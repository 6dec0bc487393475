//! The values of a store against its masks: a sample of its rows, or all of them.

use crate::error::Result;
use crate::ocean::channel::Channel;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::{PlaneRequest, PlaneSource};
use crate::store::om4_store::Store;
use crate::survey::blocks::each_plane;
use crate::survey::finding::{Finding, FindingKind, Severity};
use crate::survey::moments::Moments;
use crate::threads;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// How much of the values is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Depth {
    /// Some rows of every array: the first, the last, six between.
    #[default]
    Sample,
    /// All of them; and the statistics are compared with those of the data.
    Full,
}

/// Ocean values beyond this are no measurement, in any unit that fields of the ocean are stored in.
const EXTREME: f32 = 1e10;

/// Chunks along time of each array that a sample has: the first, the last, and some between.
const SAMPLED: usize = 8;

/// Planes that are read by one task: those of a block of chunks, so that each is decoded once.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    rows: Range<usize>,
    /// Positions in the store's channels.
    channels: Vec<usize>,
}

/// The units of a store, in the order of rows.
pub(super) fn units(store: &Store, depth: Depth) -> Vec<Unit> {
    let mut units = Vec::new();
    for (at, array) in store.arrays.iter().enumerate() {
        let mut by_level: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (position, slot) in store.slots.iter().enumerate() {
            if slot.array == at {
                let chunk = slot.level / array.chunk.level;
                by_level.entry(chunk).or_default().push(position);
            }
        }
        let (rows, step) = (store.rows(), array.chunk.time);
        let chunks = rows.div_ceil(step);
        let wanted: Vec<usize> = match depth {
            Depth::Sample if chunks > SAMPLED => {
                let spread = |k: usize| k * (chunks - 1) / (SAMPLED - 1);
                (0..SAMPLED).map(spread).collect()
            }
            _ => (0..chunks).collect(),
        };
        for chunk in wanted {
            let rows = chunk * step..((chunk + 1) * step).min(rows);
            for channels in by_level.values() {
                let (rows, channels) = (rows.clone(), channels.clone());
                units.push(Unit { rows, channels });
            }
        }
    }
    units.sort_by_key(|unit| (unit.rows.start, unit.channels[0]));
    units
}

/// What one plane looks like.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    wet: usize,
    nan_in_ocean: usize,
    infinite: usize,
    extreme: usize,
    /// The first cell that is one of these.
    cell: usize,
    finite_on_land: usize,
    least: f32,
    most: f32,
    moments: Moments,
}

impl Look {
    fn at(values: &[f32], mask: &WetMask) -> Self {
        let mut look = Self {
            least: f32::INFINITY,
            most: f32::NEG_INFINITY,
            cell: usize::MAX,
            ..Self::default()
        };
        for (cell, (value, wet)) in std::iter::zip(values, mask.as_slice()).enumerate() {
            if !*wet {
                look.finite_on_land += usize::from(value.is_finite());
                continue;
            }
            look.wet += 1;
            if value.is_finite() && value.abs() < EXTREME {
                look.least = look.least.min(*value);
                look.most = look.most.max(*value);
                continue;
            }
            look.cell = look.cell.min(cell);
            look.nan_in_ocean += usize::from(value.is_nan());
            look.infinite += usize::from(value.is_infinite());
            look.extreme += usize::from(value.is_finite());
        }
        look.moments = Moments::of_plane(values, mask.as_slice());
        look
    }
}

/// What was found in a channel's planes so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ChannelValues {
    /// Rows that were looked at.
    pub rows: usize,
    least: Option<f32>,
    most: Option<f32>,
    /// Of the ocean's values.
    pub moments: Moments,
}

/// What the planes showed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    pub findings: Vec<Finding>,
    /// By the channel's position; those of channels with a mask.
    pub channels: BTreeMap<usize, ChannelValues>,
    pub planes: u64,
}

/// Reads some units and looks at their planes. A unit that cannot be read is a finding; the others are read
/// nevertheless.
///
/// # Errors
/// The reader threads cannot be started.
pub(super) fn look(store: &Store, units: &[Unit], seen: &mut Seen) -> Result<()> {
    let masks: Vec<Option<Arc<WetMask>>> = store
        .channels()
        .iter()
        .map(|channel| {
            store
                .masks()
                .of(channel)
                .or_else(|_| store.wet_mask(0))
                .ok()
        })
        .collect();
    let read = |unit: &Unit| {
        let rows: Vec<usize> = unit.rows.clone().collect();
        let request = PlaneRequest {
            rows: &rows,
            channels: &unit.channels,
        };
        each_plane(store, &request, |plane, values| {
            let channel = unit.channels[plane % unit.channels.len()];
            masks[channel].as_ref().map(|mask| Look::at(values, mask))
        })
    };
    let pool = threads::pool()?;
    let looks: Vec<_> = pool.install(|| units.par_iter().map(read).collect());
    for (unit, looks) in std::iter::zip(units, looks) {
        let looks = match looks {
            Ok(looks) => looks,
            Err(e) => {
                let kind = FindingKind::Corrupt;
                seen.findings.push(Finding::of(&e, store.path(), kind));
                continue;
            }
        };
        seen.planes += looks.len() as u64;
        for (row, looks) in unit
            .rows
            .clone()
            .zip(looks.chunks_exact(unit.channels.len()))
        {
            for (channel, look) in std::iter::zip(&unit.channels, looks) {
                if let Some(look) = look {
                    seen.add(store, *channel, row, look);
                }
            }
        }
    }
    Ok(())
}

impl Seen {
    fn add(&mut self, store: &Store, channel: usize, row: usize, look: &Look) {
        let name = &store.channels()[channel];
        let findings = plane_findings(store, name, row, look);
        self.findings.extend(findings);
        let values = self.channels.entry(channel).or_insert(ChannelValues {
            rows: 0,
            least: None,
            most: None,
            moments: Moments::default(),
        });
        values.rows += 1;
        if look.least <= look.most {
            values.least = Some(values.least.unwrap_or(look.least).min(look.least));
            values.most = Some(values.most.unwrap_or(look.most).max(look.most));
        }
        values.moments.merge(&look.moments);
    }

    /// Channels with one value throughout, where more than one cell was seen.
    pub(super) fn constants(&self, store: &Store) -> Vec<Finding> {
        let constant = |(channel, values): (&usize, &ChannelValues)| {
            let value = values.least.filter(|_| values.least == values.most)?;
            if values.moments.count() < 2 {
                return None;
            }
            let message = format!("one value, {value}, in all {} rows looked at", values.rows);
            let kind = FindingKind::Constant;
            let finding = Finding::new(Severity::Warning, kind, store.path(), message);
            Some(finding.array(store.channels()[*channel].name()))
        };
        self.channels.iter().filter_map(constant).collect()
    }
}

/// Whether a finding about NaN is about a chunk that is not there or cannot be read: `known` are those, by
/// array and key within it.
pub(super) fn is_hole(store: &Store, finding: &Finding, known: &HashSet<(String, String)>) -> bool {
    let about_nan = matches!(finding.kind, FindingKind::NanInOcean | FindingKind::Mask);
    let (Some(name), Some(row)) = (&finding.array, finding.row) else {
        return false;
    };
    let position = store.channels().iter().position(|c| c.name() == name);
    let (true, false, Some(position)) = (about_nan, known.is_empty(), position) else {
        return false;
    };
    let slot = store.slots[position];
    let array = &store.arrays[slot.array];
    let name = &array.layout.name;
    let chunks = |extent: usize, chunk: usize| 0..extent.div_ceil(chunk) as u64;
    let shape = store.shape();
    let (time, level) = (row / array.chunk.time, slot.level / array.chunk.level);
    let mut key = String::new();
    chunks(shape.ny, array.chunk.y).any(|y| {
        chunks(shape.nx, array.chunk.x).any(|x| {
            array.write_key([time as u64, level as u64, y, x], &mut key);
            let within = key
                .strip_prefix(name.as_str())
                .and_then(|rest| rest.strip_prefix('/'));
            let within = within.unwrap_or(&key).to_owned();
            known.contains(&(name.clone(), within))
        })
    })
}

fn plane_findings(store: &Store, channel: &Channel, row: usize, look: &Look) -> Vec<Finding> {
    let nx = store.shape().nx;
    let cell = match look.cell {
        usize::MAX => String::new(),
        cell => format!(", the first at y {}, x {}", cell / nx, cell % nx),
    };
    let finding = |kind, message: String| {
        Finding::new(Severity::Error, kind, store.path(), message)
            .array(channel.name())
            .row(row)
    };
    let Look { wet, .. } = *look;
    let mut findings = Vec::new();
    let cells = store.shape().cells();
    let most_are_nan = look.nan_in_ocean * 2 > wet;
    if wet == 0 && look.finite_on_land == cells {
        let message = "the mask has no ocean, and every cell has a value".to_owned();
        findings.push(finding(FindingKind::Mask, message));
    } else if most_are_nan && look.finite_on_land * 2 > cells - wet && wet < cells {
        let message = format!(
            "{} of {wet} ocean cells are NaN and {} land cells are not: is the mask inverted?",
            look.nan_in_ocean, look.finite_on_land
        );
        findings.push(finding(FindingKind::Mask, message));
    } else if look.nan_in_ocean > 0 {
        let nan = look.nan_in_ocean;
        let message = format!("{nan} of {wet} ocean cells are NaN{cell}");
        findings.push(finding(FindingKind::NanInOcean, message));
    }
    if look.infinite > 0 {
        let message = format!("{} of {wet} ocean cells are infinite{cell}", look.infinite);
        findings.push(finding(FindingKind::Infinite, message));
    }
    if look.extreme > 0 {
        let message = format!(
            "{} of {wet} ocean cells are beyond {EXTREME:e}{cell}: missing values that no attribute names?",
            look.extreme
        );
        findings.push(finding(FindingKind::Extreme, message));
    }
    findings
}
