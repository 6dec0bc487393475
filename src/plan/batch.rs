//! The plan of a batch: which planes are read once, and where each goes. Plain data, no I/O.
//!
//! ```text
//! starts ──> BatchPlan: unique rows of each group + gather maps (sample, time) -> unique row
//! ```

#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::plan::window::WindowOptions;
use std::ops::Range;

/// Which rollout steps get a materialised input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Inputs {
    /// Step 0 only: later steps run on the model's own prediction.
    #[default]
    First,
    /// Every step's.
    All,
}

/// Whether labels are read from the store of the inputs or from one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// From the inputs' store: a row that is both input and label is read once.
    Shared,
    /// From another store with the same rows, such as one on another grid.
    Own,
}

/// Unique rows of one read group (prognostic, boundary, or labels of their own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Unique rows of the store, ascending.
    pub rows: Vec<usize>,
    /// Channels in each row.
    pub channels: usize,
}

impl GroupPlan {
    /// Planes to read: every row × every channel.
    pub fn planes(&self) -> usize {
        self.rows.len() * self.channels
    }
}

/// For each (sample, time), which unique row of its group: `samples * times` entries, sample-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Positions in [`GroupPlan::rows`].
    pub rows: Vec<u32>,
    /// Times of each sample, oldest first.
    pub times: usize,
}

impl Gather {
    /// The unique rows, where the entries are consecutive ones: the gathered tensor is then this
    /// slice of the group's planes, without a copy.
    pub fn slice(&self) -> Option<Range<usize>> {
        let first = *self.rows.first()? as usize;
        let mut rows = self.rows.iter().zip(first..);
        let consecutive = rows.all(|(&row, wanted)| row as usize == wanted);
        consecutive.then_some(first..first + self.rows.len())
    }
}

/// What one batch reads, and how its tensors are put together from it.
///
/// ```
/// use burn_om4::{Inputs, WindowOptions};
/// use burn_om4::plan::{BatchPlan, Labels};
/// let options = WindowOptions::default().with_steps(4);
/// let plan = BatchPlan::new(&options, &[7], 77, 3, Inputs::First, Labels::Shared)?;
/// assert_eq!(plan.groups.prognostic.rows, (7..17).collect::<Vec<_>>());
/// assert_eq!(plan.groups.boundary.rows, (7..15).collect::<Vec<_>>());
/// assert_eq!(plan.unique_planes(), 10 * 77 + 8 * 3);
/// assert_eq!(plan.gathers.label[3].slice(), Some(8..10));
/// # Ok::<(), burn_om4::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// The rows that each group reads: prognostic rows are those of the materialised inputs, and of
    /// the labels under [`Labels::Shared`].
    pub groups: PerGroup<GroupPlan>,
    /// Where each tensor finds its rows in its group ([`PerGroup::of`]), one map per step: inputs
    /// have one for each materialised step (1 or `steps`), boundaries and labels for every step.
    pub gathers: PerRole<Vec<Gather>>,
}

impl BatchPlan {
    /// Plans a batch of one window per start, in the order of `starts`, which may repeat and
    /// overlap. `prognostic` and `boundary` are numbers of channels; 0 boundary channels read
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: what [`WindowOptions::validate`] refuses, no starts, no prognostic
    /// channels, or numbers that overflow: a row beyond `usize`, more than `u32::MAX` (sample,
    /// step, time) triples, planes beyond `usize`.
    pub fn new(
        options: &WindowOptions,
        starts: &[usize],
        prognostic: usize,
        boundary: usize,
        inputs: Inputs,
        labels: Labels,
    ) -> Result<Self> {
        options.validate()?;
        if starts.is_empty() {
            return Err(Error::config("a batch needs at least one window"));
        }
        if prognostic == 0 {
            return Err(Error::config(
                "a batch needs at least one prognostic channel",
            ));
        }
        check_size(options, starts, prognostic.max(boundary))?;

        let input_steps = match inputs {
            Inputs::First => 1,
            Inputs::All => options.steps,
        };
        let input_rows = absolute(options, starts, input_steps, Side::Input);
        let boundary_rows = absolute(options, starts, options.steps, Side::Input);
        let label_rows = absolute(options, starts, options.steps, Side::Label);

        let shared: &[Vec<usize>] = match labels {
            Labels::Shared => &label_rows,
            Labels::Own => &[],
        };
        let groups = PerGroup {
            prognostic: group(input_rows.iter().chain(shared), prognostic),
            boundary: group(boundary_rows.iter(), boundary),
            label: match labels {
                Labels::Shared => None,
                Labels::Own => Some(group(label_rows.iter(), prognostic)),
            },
        };
        let rows = PerRole {
            input: input_rows,
            boundary: boundary_rows,
            label: label_rows,
        };
        let gathers = rows.map(|role, steps| gathers(&steps, groups.of(role), options.times()));
        Ok(Self { groups, gathers })
    }

    /// Unique planes over all groups: what the batch reads.
    pub fn unique_planes(&self) -> usize {
        self.groups.iter().map(|(_, group)| group.planes()).sum()
    }

    /// Planes the batch's tensors show, with repeats: the reads of a loader that reads each tensor
    /// for itself. Inputs that are not materialised do not count.
    pub fn touched_planes(&self) -> usize {
        let shown = self.gathers.iter().map(|(role, steps)| {
            let rows: usize = steps.iter().map(|gather| gather.rows.len()).sum();
            rows * self.groups.of(role).channels
        });
        shown.sum()
    }

    /// Bytes of the unique planes as f32, `cells` values each, when all groups are on one grid;
    /// `u64::MAX` when that is too many to count.
    pub fn bytes(&self, cells: usize) -> u64 {
        let values = (self.unique_planes() as u64).saturating_mul(cells as u64);
        values.saturating_mul(size_of::<f32>() as u64)
    }
}

/// Everything the plan counts fits, before anything is allocated.
fn check_size(options: &WindowOptions, starts: &[usize], channels: usize) -> Result<()> {
    let last = starts.iter().max().expect("there are starts");
    if last.checked_add(options.span()).is_none() {
        return Err(Error::config("a window ends at a row that cannot be counted").found(last));
    }
    let entries =
        (starts.len().checked_mul(options.steps)).and_then(|n| n.checked_mul(options.times()));
    let entries = entries.filter(|&n| u32::try_from(n).is_ok());
    // Inputs, boundaries and labels each have at most `entries` (sample, step, time) triples.
    let planes = entries.and_then(|n| n.checked_mul(3)?.checked_mul(channels));
    if planes.is_none() {
        return Err(
            Error::config("a batch is larger than can be counted").found(format!(
                "{} windows of {} steps of {} times",
                starts.len(),
                options.steps,
                options.times()
            )),
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Input,
    Label,
}

/// Rows of the store for each step: sample-major, times oldest first.
fn absolute(
    options: &WindowOptions,
    starts: &[usize],
    steps: usize,
    side: Side,
) -> Vec<Vec<usize>> {
    let rows = |step| {
        let mut rows = Vec::with_capacity(starts.len() * options.times());
        for &start in starts {
            match side {
                Side::Input => rows.extend(options.input_rows(start, step)),
                Side::Label => rows.extend(options.label_rows(start, step)),
            }
        }
        rows
    };
    (0..steps).map(rows).collect()
}

fn group<'a>(rows: impl Iterator<Item = &'a Vec<usize>>, channels: usize) -> GroupPlan {
    let mut rows: Vec<usize> = rows.flatten().copied().collect();
    rows.sort_unstable();
    rows.dedup();
    GroupPlan { rows, channels }
}

fn gathers(steps: &[Vec<usize>], group: &GroupPlan, times: usize) -> Vec<Gather> {
    let position = |row: &usize| group.rows.binary_search(row).expect("the group has it") as u32;
    let gather = |rows: &Vec<usize>| Gather {
        rows: rows.iter().map(position).collect(),
        times,
    };
    steps.iter().map(gather).collect()
}
