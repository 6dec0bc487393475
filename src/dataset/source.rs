//! One source of windows: its read groups, and where windows may start.

use crate::dataset::channel_group::ChannelGroup;
use crate::dataset::context::BatchContext;
use crate::dataset::label_grid;
use crate::dataset::ocean::Ocean;
use crate::dataset::options::DatasetOptions;
use crate::dataset::values::{GroupValues, ValueRules};
use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::read_planes;
use crate::ocean::time::TimeAxis;
use crate::plan::batch::{BatchPlan, GroupPlan, Inputs, Labels};
use crate::plan::groups::PerGroup;
use crate::plan::roles::PerRole;
use crate::plan::window::{Window, WindowOptions};
use crate::prepare::arithmetic::Preparation;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// A source of inputs and boundaries, and where labels come from when not from there.
#[derive(Clone)]
pub struct OceanPair {
    /// Inputs and boundaries.
    pub input: Ocean,
    /// Labels, on a grid of their own.
    pub label: Option<Ocean>,
}

/// One source of windows.
pub(crate) struct Source {
    /// Its place in the data set: [`Window::source`].
    pub index: usize,
    pub groups: PerGroup<ChannelGroup>,
    pub starts: Vec<usize>,
    pub context: Arc<BatchContext>,
    /// What the wet cells were found to hold.
    pub values: PerGroup<GroupValues>,
    /// What was said of them while batches were read.
    said: Mutex<Vec<String>>,
    pub warnings: Vec<String>,
}

impl Source {
    /// The source at `index` of its data set.
    ///
    /// # Errors
    /// A channel that an ocean lacks, days or windows that it cannot serve, label times that do not
    /// match the input times, and a grid of labels that is turned over or begins elsewhere.
    pub(crate) fn new(
        index: usize,
        pair: OceanPair,
        window: WindowOptions,
        options: &DatasetOptions,
    ) -> Result<Self> {
        let OceanPair { input, label } = pair;
        let prognostic = ChannelGroup::new(&input, &options.prognostic)?;
        let mut boundary = ChannelGroup::new(&input, &options.boundary)?;
        for constants in &mut boundary.constants {
            constants.wet = input.surface.clone();
        }
        let rows = match &options.time {
            Some(range) => input.time.select(range)?,
            None => 0..input.time.len(),
        };
        let segments = input.time.segments(rows.clone(), options.gap_factor);
        let starts = window.starts(&segments)?;
        if starts.is_empty() {
            let longest = segments.iter().map(|s| s.len()).max().unwrap_or(0);
            return Err(Error::config("no window fits into the chosen days")
                .expected(format!("{} rows without a gap", window.span()))
                .found(format!("{longest}")));
        }
        let mut warnings = input.warnings.clone();
        let label_group = match &label {
            None => None,
            Some(label) => {
                warnings.extend(label_grid::check(&input.grid, &label.grid)?);
                let group = ChannelGroup::new(label, &options.prognostic)?;
                let offset = label_offset(&input.time, &label.time, rows)?;
                Some(ChannelGroup { offset, ..group })
            }
        };
        let of_labels = label.as_ref().unwrap_or(&input);
        let groups = PerGroup {
            prognostic,
            boundary,
            label: label_group,
        };
        let unit = |channel: &Channel| of_labels.channels[channel].unit.clone();
        let context = BatchContext {
            prognostic: options.prognostic.clone(),
            boundary: options.boundary.clone(),
            units: options.prognostic.iter().map(unit).collect(),
            constants: PerRole::new(|role| groups.of(role).constants.clone()),
            surface: input.surface.clone(),
            window,
            preparation: Preparation {
                order: options.mask_order,
                fill: options.masked_fill_value,
            },
            own_labels: label.is_some(),
            shape: input.planes.shape(),
            label_shape: of_labels.planes.shape(),
            grid: input.grid.clone(),
            label_grid: of_labels.grid.clone(),
            time: input.time.clone(),
        };
        warnings.extend(label.into_iter().flat_map(|label| label.warnings));
        let rules = ValueRules {
            strictness: options.strictness,
            max_nan_share: options.max_nan_share,
        };
        let of_group = |group, _| GroupValues::new(index, group, rules);
        let values = groups.as_ref().map(of_group);
        Ok(Self {
            index,
            values,
            said: Mutex::default(),
            groups,
            starts,
            context: Arc::new(context),
            warnings,
        })
    }

    /// Says what a batch was found to hold.
    pub(crate) fn say(&self, warning: String) {
        log::warn!("{warning}");
        lock(&self.said).push(warning);
    }

    /// What was said so far.
    pub(crate) fn said(&self) -> Vec<String> {
        lock(&self.said).clone()
    }

    /// Looks at the first row of the first window, one plane for each mask: what is odd, as
    /// warnings. A plane that cannot be read is one of them; the batch that wants it will fail.
    ///
    /// # Errors
    /// [`ErrorKind::Values`](crate::ErrorKind::Values) in strict mode, as for a batch.
    pub(crate) fn first_look(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let groups = self.groups.as_ref().zip(self.values.as_ref());
        groups.try_map(|_, (channels, values)| {
            let plan = GroupPlan {
                rows: vec![self.starts[0]],
                channels: channels.positions.len(),
            };
            let rows = channels.rows(&plan)?;
            let some = channels.one_of_each_mask();
            let positions: Vec<usize> = some.iter().map(|&c| channels.positions[c]).collect();
            let planes = match read_planes(&*channels.planes, &rows, &positions) {
                Ok(planes) => planes,
                Err(error) => {
                    warnings.push(format!("the first planes cannot be looked at: {error}"));
                    return Ok(());
                }
            };
            let cells = channels.planes.shape().cells();
            for (&channel, plane) in some.iter().zip(planes.chunks_exact(cells)) {
                values.look(channels, rows[0], channel, plane);
            }
            warnings.extend(
                values
                    .judge(channels, &rows, some.iter().copied())?
                    .warnings,
            );
            Ok(())
        })?;
        Ok(warnings)
    }

    /// What a batch of these windows reads; all of them are this source's.
    ///
    /// # Errors
    /// No window, or one that reaches past the end.
    pub(crate) fn plan(&self, windows: &[Window], inputs: Inputs) -> Result<BatchPlan> {
        let starts: Vec<usize> = windows.iter().map(|w| w.start).collect();
        let rows = self.groups.prognostic.planes.rows();
        let window = self.context.window();
        for &start in &starts {
            let end = start.checked_add(window.span());
            if end.is_none_or(|end| end > rows) {
                return Err(Error::config("a window reaches past the end of the store")
                    .row(start)
                    .expected(format!("at most {rows} rows"))
                    .found(format!("a window of {} rows", window.span())));
            }
        }
        let labels = match self.groups.label {
            Some(_) => Labels::Own,
            None => Labels::Shared,
        };
        BatchPlan::new(
            window,
            &starts,
            self.groups.prognostic.positions.len(),
            self.groups.boundary.positions.len(),
            inputs,
            labels,
        )
    }
}

/// Rows of the label store that carry the dates of `rows`, as one constant offset.
fn label_offset(input: &TimeAxis, label: &TimeAxis, rows: std::ops::Range<usize>) -> Result<isize> {
    let first = input.date(rows.start);
    let found = (0..label.len()).find(|&r| label.date(r) == first);
    let offset = found.map(|r| r as isize - rows.start as isize);
    let matches = |row: usize, offset: isize| {
        let other = row.checked_add_signed(offset).filter(|&r| r < label.len());
        other.is_some_and(|r| label.date(r) == input.date(row))
    };
    let bad = match offset {
        None => Some(rows.start),
        Some(offset) => rows.clone().find(|&row| !matches(row, offset)),
    };
    match (offset, bad) {
        (Some(offset), None) => Ok(offset),
        (_, bad) => {
            let row = bad.unwrap_or(rows.start);
            Err(
                Error::config("the label store lacks a time of the input store")
                    .row(row)
                    .expected(input.label(row)),
            )
        }
    }
}
