//! The data set: sources, channels and windows, checked once and then immutable.

use crate::dataset::ocean::Ocean;
use crate::error::{Error, Result};
use crate::ocean::calendar::DateRange;
use crate::ocean::channel::{Channel, check_channels};
use crate::ocean::grid::Grid;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::{PlaneShape, PlaneSource};
use crate::ocean::time::{DEFAULT_GAP_FACTOR, TimeAxis};
use crate::options::ReadMethod;
use crate::options::Strictness;
use crate::order::fingerprint::Fingerprint;
use crate::order::groups::Groups;
use crate::plan::batch::{BatchPlan, GroupPlan, Inputs, Labels};
use crate::plan::window::{Window, WindowOptions};
use crate::prepare::arithmetic::{ChannelConstants, MaskOrder, Preparation};
use burn::data::dataset::{Dataset, DatasetError};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// What a training sample is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DatasetOptions {
    /// Channels that the model predicts, in this order.
    pub prognostic: Vec<Channel>,
    /// Channels that are given at every step, in this order.
    pub boundary: Vec<Channel>,
    /// Shape and spacing of the windows.
    #[serde(default)]
    pub window: WindowOptions,
    /// Days to use, both ends included; all by default.
    #[serde(default)]
    pub time: Option<DateRange>,
    /// Whether normalising or masking comes first.
    #[serde(default)]
    pub mask_order: MaskOrder,
    /// Value of land; normalised afterwards when masking comes first. Default 0.
    #[serde(default)]
    pub masked_fill_value: f32,
    /// Which rollout steps get an input of their own.
    #[serde(default)]
    pub inputs: Inputs,
    /// A step longer than this many median steps is a gap, which no window crosses. Default 1.5.
    #[serde(default = "default_gap_factor")]
    pub gap_factor: f64,
    /// What to do about missing chunks and unusable statistics.
    #[serde(default)]
    pub strictness: Strictness,
    /// By which system calls chunks are read.
    #[serde(default)]
    pub io: ReadMethod,
}

fn default_gap_factor() -> f64 {
    DEFAULT_GAP_FACTOR
}

impl DatasetOptions {
    /// Defaults for the given channels: history 1, one step, all times, strict.
    pub fn new(prognostic: Vec<Channel>, boundary: Vec<Channel>) -> Self {
        Self {
            prognostic,
            boundary,
            window: WindowOptions::default(),
            time: None,
            mask_order: MaskOrder::default(),
            masked_fill_value: 0.0,
            inputs: Inputs::default(),
            gap_factor: DEFAULT_GAP_FACTOR,
            strictness: Strictness::default(),
            io: ReadMethod::default(),
        }
    }

    /// Sets the windows.
    pub fn with_window(mut self, window: WindowOptions) -> Self {
        self.window = window;
        self
    }

    /// Uses only the days of `time`, both ends included.
    pub fn with_time(mut self, time: DateRange) -> Self {
        self.time = Some(time);
        self
    }

    /// Sets the order of normalising and masking.
    pub fn with_mask_order(mut self, order: MaskOrder) -> Self {
        self.mask_order = order;
        self
    }

    /// Sets the value of land.
    pub fn with_masked_fill_value(mut self, value: f32) -> Self {
        self.masked_fill_value = value;
        self
    }

    /// Chooses which rollout steps get an input of their own.
    pub fn with_inputs(mut self, inputs: Inputs) -> Self {
        self.inputs = inputs;
        self
    }

    /// Sets what to do about missing chunks and unusable statistics.
    pub fn with_strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// Chooses by which system calls chunks are read.
    pub fn with_io(mut self, io: ReadMethod) -> Self {
        self.io = io;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_channels(&self.prognostic)?;
        check_channels(&self.boundary)?;
        self.window.validate()?;
        if self.gap_factor.is_nan() || self.gap_factor < 1.0 {
            return Err(
                Error::config("a gap is longer than a step of the time axis")
                    .expected("a gap factor of at least 1")
                    .found(self.gap_factor),
            );
        }
        if !self.masked_fill_value.is_finite() {
            return Err(
                Error::config("the masked fill value must be finite").found(self.masked_fill_value)
            );
        }
        Ok(())
    }

    pub(crate) fn wanted(&self) -> Vec<Channel> {
        let mut wanted = self.prognostic.clone();
        for channel in &self.boundary {
            if !wanted.contains(channel) {
                wanted.push(channel.clone());
            }
        }
        wanted
    }
}

/// A group of channels that are read together, as positions in their source.
#[derive(Clone, Debug)]
pub(crate) struct ChannelGroup {
    pub positions: Vec<usize>,
    pub constants: Vec<ChannelConstants>,
}

/// Labels that come from a store of their own.
pub(crate) struct LabelSource {
    pub planes: Arc<dyn PlaneSource>,
    pub group: ChannelGroup,
    /// Row of the label store = row of the input store + this.
    pub offset: isize,
}

impl LabelSource {
    /// Rows of the label store that carry the times of a planned group.
    pub fn rows(&self, group: &GroupPlan) -> Result<Vec<usize>> {
        let shifted = group.rows.iter().map(|&row| {
            row.checked_add_signed(self.offset).ok_or_else(|| {
                Error::config("the label store lacks a time of the input store").row(row)
            })
        });
        shifted.collect()
    }
}

/// One source of windows.
pub(crate) struct Source {
    pub planes: Arc<dyn PlaneSource>,
    pub prognostic: ChannelGroup,
    pub boundary: ChannelGroup,
    pub label: Option<LabelSource>,
    pub starts: Vec<usize>,
    pub context: Arc<BatchContext>,
    pub warnings: Vec<String>,
}

impl Source {
    pub fn labels(&self) -> Labels {
        if self.label.is_some() {
            Labels::Own
        } else {
            Labels::Shared
        }
    }
}

/// What the numbers of a batch mean: names, units, grid, time.
pub struct BatchContext {
    prognostic: Vec<Channel>,
    boundary: Vec<Channel>,
    units: Vec<Option<String>>,
    /// Of the labels: mean, deviation and mask per prognostic channel.
    constants: Vec<ChannelConstants>,
    boundary_constants: Vec<ChannelConstants>,
    surface: Arc<WetMask>,
    window: WindowOptions,
    preparation: Preparation,
    own_labels: bool,
    grid: Arc<Grid>,
    label_grid: Arc<Grid>,
    shape: PlaneShape,
    label_shape: PlaneShape,
    time: TimeAxis,
}

impl BatchContext {
    /// Prognostic channels: with history h, channel c at time j of an input or label stands at
    /// position `j * prognostic().len() + c` of the channel axis.
    pub fn prognostic(&self) -> &[Channel] {
        &self.prognostic
    }

    /// Boundary channels; positions as for [`prognostic`](Self::prognostic).
    pub fn boundary(&self) -> &[Channel] {
        &self.boundary
    }

    /// Position of a prognostic channel in the list, by its name.
    pub fn prognostic_position(&self, name: &str) -> Option<usize> {
        self.prognostic.iter().position(|c| c.name() == name)
    }

    /// Unit of a prognostic channel by its position in the list, where the store states one.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn unit(&self, channel: usize) -> Option<&str> {
        self.units[channel].as_deref()
    }

    /// Mean, standard deviation and wet mask `(y, x)` of a prognostic channel by its position in the
    /// list (the label store's). A value x of a label is `x * std + mean` in the channel's unit.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn constants(&self, channel: usize) -> &ChannelConstants {
        &self.constants[channel]
    }

    /// Mean and standard deviation of a boundary channel; its mask is the surface's.
    pub fn boundary_constants(&self, channel: usize) -> &ChannelConstants {
        &self.boundary_constants[channel]
    }

    /// Wet mask of the surface of the input grid.
    pub fn surface(&self) -> &Arc<WetMask> {
        &self.surface
    }

    /// Shape of the windows.
    pub fn window(&self) -> &WindowOptions {
        &self.window
    }

    /// How planes were normalised and masked.
    pub fn preparation(&self) -> Preparation {
        self.preparation
    }

    /// Whether labels come from a store of their own.
    pub fn has_own_labels(&self) -> bool {
        self.own_labels
    }

    /// Grid of inputs and boundaries.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Grid of labels; the same unless labels come from a store of their own.
    pub fn label_grid(&self) -> &Grid {
        &self.label_grid
    }

    /// Extent of inputs and boundaries.
    pub fn shape(&self) -> PlaneShape {
        self.shape
    }

    /// Extent of labels.
    pub fn label_shape(&self) -> PlaneShape {
        self.label_shape
    }

    /// Time axis of the input store; [`Window`]s count its rows.
    pub fn time(&self) -> &TimeAxis {
        &self.time
    }
}

impl std::fmt::Debug for BatchContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchContext")
            .field("prognostic", &self.prognostic)
            .field("boundary", &self.boundary)
            .field("window", &self.window)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// Windows over one or several sources, in one index space: all windows of the first source, then
/// all of the second. Cheap to clone.
///
/// It is a Burn [`Dataset`] of light [`Window`]s; the planes are read by the batcher.
#[derive(Clone)]
pub struct OceanDataset {
    pub(crate) sources: Arc<Vec<Source>>,
    /// Index of each source's first window, and the total.
    offsets: Arc<Vec<usize>>,
    inputs: Inputs,
    pub(crate) fingerprint: Arc<OnceLock<Fingerprint>>,
}

impl OceanDataset {
    /// Makes a data set of opened sources.
    ///
    /// # Errors
    /// No source, a channel that a source lacks, days or windows that one cannot serve.
    pub fn from_oceans(pairs: Vec<OceanPair>, options: &DatasetOptions) -> Result<Self> {
        options.check()?;
        let window = |pair| (pair, options.window.clone());
        Self::from_parts(pairs.into_iter().map(window).collect(), options)
    }

    /// Sources with their windows; those of the options do not count.
    pub(crate) fn from_parts(
        parts: Vec<(OceanPair, WindowOptions)>,
        options: &DatasetOptions,
    ) -> Result<Self> {
        if parts.is_empty() {
            return Err(Error::config("a data set needs at least one source"));
        }
        let sources = parts
            .into_iter()
            .map(|(pair, window)| Source::new(pair, window, options))
            .collect::<Result<Vec<_>>>()?;
        let mut offsets = vec![0];
        for source in &sources {
            offsets.push(offsets[offsets.len() - 1] + source.starts.len());
        }
        Ok(Self {
            sources: Arc::new(sources),
            offsets: Arc::new(offsets),
            inputs: options.inputs,
            fingerprint: Arc::default(),
        })
    }

    /// The window at `index`, if there is one.
    pub fn window(&self, index: usize) -> Option<Window> {
        let source = self
            .offsets
            .partition_point(|&first| first <= index)
            .checked_sub(1)?;
        let starts = &self.sources.get(source)?.starts;
        let start = *starts.get(index - self.offsets[source])?;
        Some(Window { source, start })
    }

    /// Windows over all sources.
    pub fn windows(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    /// The index space for a [`Schedule`](crate::Schedule): every source is a group of its own, so
    /// that no batch mixes sources, strides or grids.
    ///
    /// Sorted ([`GroupOrder`](crate::order::GroupOrder)) they come by the grid `(ny, nx)` of their inputs,
    /// smaller ones first, and on one grid as listed.
    pub fn groups(&self) -> Groups {
        let data_set = |(i, s): (usize, &Source)| {
            let PlaneShape { ny, nx } = s.context.shape();
            (s.starts.len() as u64, (ny, nx, i))
        };
        let groups = Groups::by_key(self.sources.iter().enumerate().map(data_set));
        groups.expect("a data set's windows are counted in usize")
    }

    /// Names, masks, grid and units of a source's batches.
    ///
    /// # Panics
    /// When there is no such source.
    pub fn context(&self, source: usize) -> &Arc<BatchContext> {
        &self.sources[source].context
    }

    /// What is odd about the sources without being an error.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        let all = self.sources.iter().flat_map(|s| &s.warnings);
        all.map(String::as_str)
    }

    /// What a batch of these windows reads, and how its tensors are put together.
    ///
    /// # Errors
    /// No window, an unknown source, or windows of several sources in one batch.
    pub fn plan(&self, windows: &[Window]) -> Result<BatchPlan> {
        let source = self.source_of(windows)?;
        let starts: Vec<usize> = windows.iter().map(|w| w.start).collect();
        let rows = source.planes.rows();
        let window = source.context.window();
        for &start in &starts {
            if start
                .checked_add(window.span())
                .is_none_or(|end| end > rows)
            {
                return Err(Error::config("a window reaches past the end of the store")
                    .row(start)
                    .expected(format!("at most {rows} rows"))
                    .found(format!("a window of {} rows", window.span())));
            }
        }
        BatchPlan::new(
            window,
            &starts,
            source.prognostic.positions.len(),
            source.boundary.positions.len(),
            self.inputs,
            source.labels(),
        )
    }

    pub(crate) fn source_of(&self, windows: &[Window]) -> Result<&Source> {
        let first = windows
            .first()
            .ok_or_else(|| Error::config("a batch of no windows"))?;
        if let Some(other) = windows.iter().find(|w| w.source != first.source) {
            return Err(Error::config("a batch mixes windows of several sources")
                .expected(format!("source {}", first.source))
                .found(format!("source {}", other.source)));
        }
        self.sources.get(first.source).ok_or_else(|| {
            Error::config("a window of an unknown source")
                .expected(format!("one of {} sources", self.sources.len()))
                .found(first.source)
        })
    }
}

/// A source of inputs and boundaries, and where labels come from when not from there.
#[derive(Clone)]
pub struct OceanPair {
    /// Inputs and boundaries.
    pub input: Ocean,
    /// Labels, on a grid of their own.
    pub label: Option<Ocean>,
}

impl Source {
    fn new(pair: OceanPair, window: WindowOptions, options: &DatasetOptions) -> Result<Self> {
        let OceanPair { input, label } = pair;
        let prognostic = group(&input, &options.prognostic)?;
        let mut boundary = group(&input, &options.boundary)?;
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
        let of_labels = label.as_ref().unwrap_or(&input);
        let label_group = group(of_labels, &options.prognostic)?;
        let units = options
            .prognostic
            .iter()
            .map(|c| of_labels.channels[c].unit.clone());
        let context = BatchContext {
            prognostic: options.prognostic.clone(),
            boundary: options.boundary.clone(),
            units: units.collect(),
            constants: label_group.constants.clone(),
            boundary_constants: boundary.constants.clone(),
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
        let mut warnings = input.warnings;
        let label = match label {
            None => None,
            Some(label) => {
                warnings.extend(label.warnings);
                Some(LabelSource {
                    offset: label_offset(&input.time, &label.time, rows)?,
                    planes: label.planes,
                    group: label_group,
                })
            }
        };
        Ok(Self {
            planes: input.planes,
            prognostic,
            boundary,
            label,
            starts,
            context: Arc::new(context),
            warnings,
        })
    }
}

fn group(ocean: &Ocean, channels: &[Channel]) -> Result<ChannelGroup> {
    let shape = ocean.planes.shape();
    let mut group = ChannelGroup {
        positions: Vec::new(),
        constants: Vec::new(),
    };
    for channel in channels {
        let position = ocean.planes.channels().iter().position(|c| c == channel);
        let info = ocean.channels.get(channel);
        let (Some(position), Some(info)) = (position, info) else {
            return Err(Error::config("the source lacks a channel").expected(channel));
        };
        let mask = info.constants.wet.shape();
        if mask != shape {
            return Err(Error::config("a wet mask differs from the grid")
                .array(channel.name())
                .expected(format!("{} x {}", shape.ny, shape.nx))
                .found(format!("{} x {}", mask.ny, mask.nx)));
        }
        group.positions.push(position);
        group.constants.push(info.constants.clone());
    }
    Ok(group)
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

impl Dataset<Window> for OceanDataset {
    /// The window at `index`.
    ///
    /// # Panics
    /// When there is no such window; [`OceanDataset::window`] answers `None`.
    fn get(&self, index: usize) -> Result<Window, DatasetError> {
        let window = self.window(index);
        Ok(window.unwrap_or_else(|| panic!("window {index} of {}", self.windows())))
    }

    fn len(&self) -> usize {
        self.windows()
    }
}
