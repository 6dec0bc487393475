//! What stands in the wet cells of a data set that should not: found while planes are read, said once
//! for each channel, and an error where it would spoil the training.

use crate::dataset::channel_group::ChannelGroup;
use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::read_planes;
use crate::options::Strictness;
use crate::plan::groups::ReadGroup;
use crate::prepare::arithmetic::MetCells;
use crate::prepare::odd_cells::{OddCell, OddCells, OddCounts};
use crate::sync::lock;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// What was found in the wet cells of a channel, over all planes that were read so far, each counted
/// once however often it was read.
///
/// Its [`Display`](fmt::Display) is a line for a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChannelValues {
    /// Source of the data set, as in [`Window::source`](crate::Window::source).
    pub source: usize,
    /// `prognostic`, `boundary`, or `label` where labels have a store of their own.
    pub group: &'static str,
    /// The channel.
    pub channel: Channel,
    /// Planes with odd cells.
    pub planes: u64,
    /// Their odd cells.
    pub cells: OddCounts,
    /// The time row of the plane with most odd cells, the first that was found of several.
    pub worst_row: usize,
    /// The odd cells of that plane.
    pub worst: OddCounts,
}

impl fmt::Display for ChannelValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            group,
            channel,
            planes,
            cells,
            worst_row,
            worst,
        } = self;
        write!(
            f,
            "{channel} ({group}, source {source}): {}, in {planes} planes; most in time row \
             {worst_row}: {}",
            counted(cells),
            counted(worst)
        )
    }
}

/// `3 NaN and 1 infinite`
fn counted(counts: &OddCounts) -> String {
    let OddCounts {
        nan,
        infinite,
        extreme,
    } = counts;
    let kinds = [(nan, "NaN"), (infinite, "infinite"), (extreme, "extreme")];
    let there = kinds.iter().filter(|(n, _)| **n > 0);
    let there: Vec<String> = there.map(|(n, kind)| format!("{n} {kind}")).collect();
    format!("{} in wet cells", there.join(" and "))
}

/// When odd values are an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRules {
    pub strictness: Strictness,
    /// Share of a plane's wet cells that may be NaN.
    pub max_nan_share: f64,
}

/// What is known of the values of a read group. Shared by all that read from it.
pub(crate) struct GroupValues {
    source: usize,
    group: ReadGroup,
    rules: ValueRules,
    /// A bit for each plane that was looked at without being prepared; made when one is.
    looked_at: OnceLock<Vec<AtomicU64>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Odd planes by row and position of the channel in the group.
    planes: HashMap<Plane, OddCells>,
    /// By position of the channel in the group.
    channels: BTreeMap<usize, ChannelValues>,
    /// Which kinds of odd cells were said of each.
    said: BTreeMap<usize, [bool; 3]>,
}

/// A plane of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plane {
    row: usize,
    channel: usize,
}

impl GroupValues {
    pub(crate) fn new(source: usize, group: ReadGroup, rules: ValueRules) -> Self {
        Self {
            source,
            group,
            rules,
            looked_at: OnceLock::new(),
            known: Mutex::default(),
        }
    }

    /// Looks at a raw plane that the device will prepare, unless that was done before: a source is
    /// pure, so it holds what it held.
    ///
    /// # Panics
    /// When the source has no such row, or the group no such channel.
    pub(crate) fn look(&self, channels: &ChannelGroup, row: usize, channel: usize, values: &[f32]) {
        let n = channels.constants.len();
        let bits = self.looked_at.get_or_init(|| {
            let planes = channels.planes.rows() * n;
            (0..planes.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect()
        });
        let plane = row * n + channel;
        let (word, bit) = (&bits[plane / 64], 1 << (plane % 64));
        if word.load(Ordering::Acquire) & bit != 0 {
            return;
        }
        if let Some(odd) = channels.constants[channel].odd_cells_if_any(values) {
            // Before the bit: whoever sees the bit finds this.
            self.note(channels, Plane { row, channel }, odd);
        }
        word.fetch_or(bit, Ordering::Release);
    }

    /// Notes what was met when a plane was prepared. What is large is looked at again in the raw
    /// plane, once, because preparing has replaced it.
    ///
    /// # Errors
    /// The plane cannot be read again.
    pub(crate) fn met(
        &self,
        channels: &ChannelGroup,
        row: usize,
        channel: usize,
        met: MetCells,
    ) -> Result<()> {
        let plane = Plane { row, channel };
        if lock(&self.known).planes.contains_key(&plane) {
            return Ok(());
        }
        let odd = if met.large == 0 {
            OddCells::nan(met.nan)
        } else {
            let position = channels.positions[channel];
            let raw = read_planes(&*channels.planes, &[row], &[position])?;
            channels.constants[channel].odd_cells(&raw)
        };
        self.note(channels, plane, odd);
        Ok(())
    }

    fn note(&self, channels: &ChannelGroup, plane: Plane, odd: OddCells) {
        let mut known = lock(&self.known);
        let Known {
            planes,
            channels: all,
            ..
        } = &mut *known;
        if odd.counts.is_empty() || planes.insert(plane, odd).is_some() {
            return;
        }
        let of_channel = all.entry(plane.channel).or_insert_with(|| ChannelValues {
            source: self.source,
            group: self.group.name(),
            channel: channels.channel(plane.channel).clone(),
            planes: 0,
            cells: OddCounts::default(),
            worst_row: plane.row,
            worst: OddCounts::default(),
        });
        of_channel.planes += 1;
        of_channel.cells.add(&odd.counts);
        if odd.counts.total() > of_channel.worst.total() {
            of_channel.worst = odd.counts;
            of_channel.worst_row = plane.row;
        }
    }

    /// What is known of the planes of a request, all of which were looked at or prepared.
    ///
    /// # Errors
    /// [`ErrorKind::Values`] in strict mode: the first plane, in the order of the request, that holds
    /// an infinity in a wet cell, or NaN in more of them than is allowed.
    pub(crate) fn judge(
        &self,
        channels: &ChannelGroup,
        rows: &[usize],
        among: impl Iterator<Item = usize> + Clone,
    ) -> Result<Judged> {
        let mut judged = Judged::default();
        let mut known = lock(&self.known);
        if known.planes.is_empty() {
            return Ok(judged);
        }
        for &row in rows {
            for channel in among.clone() {
                let Some(&odd) = known.planes.get(&Plane { row, channel }) else {
                    continue;
                };
                let place = Place {
                    channels,
                    row,
                    channel,
                };
                if self.rules.strictness == Strictness::Strict {
                    place.check(&odd, self.rules.max_nan_share)?;
                }
                judged.counts.add(&odd.counts);
                let said = known.said.entry(channel).or_default();
                let mut news = false;
                for (said, there) in said.iter_mut().zip(odd.kinds()) {
                    news |= there && !*said;
                    *said |= there;
                }
                if news {
                    judged.warnings.push(place.warning(&odd));
                }
            }
        }
        Ok(judged)
    }

    /// What was found so far, by channel.
    pub(crate) fn found(&self) -> Vec<ChannelValues> {
        lock(&self.known).channels.values().cloned().collect()
    }
}

/// What is known of the planes of a request.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub counts: OddCounts,
    /// One for each channel of which nothing of this kind was said before.
    pub warnings: Vec<String>,
}

/// Where a plane comes from.
struct Place<'a> {
    channels: &'a ChannelGroup,
    row: usize,
    /// Position in the group.
    channel: usize,
}

impl Place<'_> {
    fn check(&self, odd: &OddCells, max_nan_share: f64) -> Result<()> {
        if let Some(infinite) = &odd.infinite {
            let n = odd.counts.infinite;
            return Err(self
                .error("a wet cell is infinite")
                .expected("finite values; a lenient data set takes ±3.4028235e38 in its place")
                .found(format!(
                    "{}, {n} such cells in the plane",
                    self.at(infinite)
                )));
        }
        let (nan, wet) = (odd.counts.nan, self.wet());
        if nan as f64 > max_nan_share * wet as f64 {
            return Err(self
                .error("too many wet cells are NaN: is the mask that of these values, or inverted?")
                .expected(format!(
                    "at most {} % of the plane's wet cells (`max_nan_share`)",
                    100.0 * max_nan_share
                ))
                .found(format!("{nan} of {wet}")));
        }
        Ok(())
    }

    fn warning(&self, odd: &OddCells) -> String {
        let Self { row, channel, .. } = self;
        let mut parts = Vec::new();
        let OddCounts {
            nan,
            infinite,
            extreme,
        } = odd.counts;
        if nan > 0 {
            let wet = self.wet();
            parts.push(format!("{nan} of {wet} wet cells are NaN, which becomes 0"));
        }
        if let Some(cell) = &odd.infinite {
            let at = self.at(cell);
            parts.push(format!(
                "wet cells that are infinite: {infinite}, the first {at}; the model gets \
                 ±3.4028235e38"
            ));
        }
        if let Some(cell) = &odd.extreme {
            let (at, constants) = (self.at(cell), &self.channels.constants[*channel]);
            parts.push(format!(
                "wet cells that are extreme: {extreme}, the farthest {at}, where the mean is {} and \
                 the standard deviation {}",
                constants.mean, constants.std
            ));
        }
        let name = self.channels.channel(*channel);
        let text = format!("array {name}, time row {row}: {}", parts.join("; "));
        match self.channels.planes.location() {
            Some(store) => format!("{}: {text}", store.display()),
            None => text,
        }
    }

    /// `1e12 at (y, x) = (4, 7)`
    fn at(&self, OddCell { cell, value }: &OddCell) -> String {
        let nx = self.channels.planes.shape().nx;
        format!("{value:?} at (y, x) = ({}, {})", cell / nx, cell % nx)
    }

    fn wet(&self) -> usize {
        self.channels.constants[self.channel].wet.wet_count()
    }

    fn error(&self, message: &str) -> Error {
        let error = Error::new(ErrorKind::Values, message)
            .array(self.channels.channel(self.channel).name())
            .row(self.row);
        match self.channels.planes.location() {
            Some(store) => error.store(store),
            None => error,
        }
    }
}
