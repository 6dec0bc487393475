//! Opening a store: which arrays it has, which channels they hold, and whether they fit together.
//!
//! Everything that metadata can tell is checked here, once, before anything is read. What remains for
//! a read to find is what only the chunks know: that one is missing, damaged or unreadable.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::grid::Grid;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource};
use crate::ocean::time::{TimeAxis, TimeValues};
use crate::open_files;
use crate::options::ReadMethod;
use crate::options::Strictness;
use crate::store::array_names::{Levels, resolve};
use crate::store::axes::{Axis, EXPECTED, LEVEL_NAMES, TIME_NAMES, axes_of};
use crate::store::grid::check_plane;
use crate::store::masks::{WetMasks, is_mask};
use crate::store::options::OpenOptions;
use crate::store::plane_array::PlaneArray;
use crate::store::tasks::{ArrayLayout, ChannelSlot};
use crate::sync::{into_inner, lock};
use crate::threads;
use crate::zarr::files::open_file::ChunkFiles;
use crate::zarr::files::storage::LocalStorage;
use crate::zarr::metadata::{ArrayMeta, Group, ZarrFormat};
use crate::zarr::small_array::{Numbers, read_numbers};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How many missing chunks a lenient store remembers by name; all are counted.
const REMEMBERED: usize = 1000;

/// An opened OM4 store, flat or compact, Zarr v2 or v3. Immutable: share it behind an
/// [`Arc`].
///
/// Planes are read through [`PlaneSource`]; values are `f32`, `(y, x)` in C order, in the unit of the
/// channel. NaN stays NaN; a value that equals a `_FillValue` or `missing_value` attribute beyond any
/// measurement (1e15 or more) reads as NaN; a stored value that equals a plausible fill value is data.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    format: ZarrFormat,
    strictness: Strictness,
    channels: Vec<Channel>,
    time: TimeAxis,
    grid: Grid,
    masks: WetMasks,
    warnings: Vec<String>,
    missing: Mutex<Vec<String>>,
    pub(crate) storage: Arc<LocalStorage>,
    /// How chunks are read.
    pub(crate) files: Box<dyn ChunkFiles>,
    pub(crate) arrays: Vec<PlaneArray>,
    /// The layouts of `arrays`, side by side as the plan wants them.
    pub(crate) layouts: Vec<ArrayLayout>,
    /// Where each of `channels` lives.
    pub(crate) slots: Vec<ChannelSlot>,
}

/// How a plane's values agree with its wet mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MaskReport {
    /// Wet cells whose value is NaN: the model would see the mean there.
    pub nan_in_ocean: usize,
    /// Dry cells whose value is finite: the mask alone hides them.
    pub finite_on_land: usize,
    /// Cells, wet or dry, whose value is infinite.
    pub infinite: usize,
    /// Wet cells whose finite value is beyond any measurement (1e15 or more), as unmarked missing
    /// values are.
    pub extreme_in_ocean: usize,
    /// Wet cells.
    pub wet: usize,
}

impl MaskReport {
    /// Whether every wet cell has a plausible value and every dry one none.
    pub fn is_clean(&self) -> bool {
        let Self {
            nan_in_ocean,
            finite_on_land,
            infinite,
            extreme_in_ocean,
            wet: _,
        } = *self;
        nan_in_ocean + finite_on_land + infinite + extreme_in_ocean == 0
    }

    fn of(values: &[f32], mask: &WetMask) -> Self {
        let mut report = Self::default();
        for (value, wet) in std::iter::zip(values, mask.as_slice()) {
            report.wet += usize::from(*wet);
            report.nan_in_ocean += usize::from(*wet && value.is_nan());
            report.finite_on_land += usize::from(!wet && value.is_finite());
            report.infinite += usize::from(value.is_infinite());
            let extreme = value.is_finite()
                && f64::from(value.abs()) >= crate::store::plane_array::MARK_LIMIT;
            report.extreme_in_ocean += usize::from(*wet && extreme);
        }
        report
    }
}

impl Store {
    /// Opens a store and validates it.
    ///
    /// Arrays are told apart by their dimension names (`_ARRAY_DIMENSIONS` in v2, `dimension_names` in
    /// v3): with time and a horizontal plane they hold channels, one (`thetao_4`, or by its older name
    /// `thetao_lev_65_0`) or one per level (`thetao`). An array without names is recognised by its
    /// extents alone where that is unambiguous, with a warning.
    ///
    /// # Errors
    /// - [`ErrorKind::Io`]: no such directory, or the operating system refused.
    /// - [`ErrorKind::Metadata`]: no Zarr group; unknown or reordered dimensions; another value type
    ///   than `f32`, or packed values; extents that are zero or disagree with the grid, the levels or
    ///   the time coordinate; a channel that is there twice; a wanted channel that is not; a codec that
    ///   is not served.
    /// - [`ErrorKind::Values`]: times that do not increase, coordinates that are none.
    /// - [`ErrorKind::MissingChunk`]: in strict mode, when the first or the last chunk of an array is
    ///   not there, as when metadata runs ahead of the data.
    /// - [`ErrorKind::Config`]: the system or the file system refuses
    ///   [`OpenOptions::io`](OpenOptions), the process may not open as many files as the readers hold
    ///   at most, or `BURN_OM4_READERS` is no number above zero.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let group = Group::open(path)?;
        let mut warnings = group.warnings.clone();
        let time = read_time(&group, &mut warnings)?;
        let found = Found::channels(&group, options, time.len(), &mut warnings)?;
        let grid = Grid::read(&group, found.plane, options, &mut warnings)?;
        let masks = WetMasks::read(&group, Some(found.plane), options)?;
        warnings.extend(masks.warnings().iter().cloned());
        check_outer_chunks(&group, &found.arrays, options.strictness, &mut warnings)?;
        let files = start_reading(&group, &found.arrays, options.io)?;
        for array in found.arrays.iter().filter(|a| !a.marks.is_empty()) {
            warnings.push(format!(
                "array {}: values {:?} are marked as missing and read as NaN",
                array.layout.name, array.marks
            ));
        }
        let (channels, slots) = found.channels.into_iter().unzip();
        Ok(Self {
            path: path.to_owned(),
            format: group.format,
            strictness: options.strictness,
            channels,
            time,
            grid,
            masks,
            warnings,
            missing: Mutex::new(Vec::new()),
            storage: group.storage.clone(),
            files,
            layouts: found.arrays.iter().map(|a| a.layout.clone()).collect(),
            arrays: found.arrays,
            slots,
        })
    }

    /// Where the store lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of its Zarr format.
    pub fn format(&self) -> ZarrFormat {
        self.format
    }

    /// How missing chunks are taken.
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }

    /// Every channel, by variable and level, the same whichever layout the store has.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Positions of channels in [`Store::channels`], in their order: what a
    /// [`PlaneRequest`] wants.
    ///
    /// # Errors
    /// The store does not have one of them.
    pub fn positions(&self, channels: &[Channel]) -> Result<Vec<usize>> {
        channels
            .iter()
            .map(|channel| self.position(channel))
            .collect()
    }

    /// The time axis.
    pub fn time(&self) -> &TimeAxis {
        &self.time
    }

    /// The horizontal grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The wet masks.
    pub fn masks(&self) -> &WetMasks {
        &self.masks
    }

    /// The wet mask of a level (counted from 0 at the surface).
    ///
    /// # Errors
    /// The store has no mask for this level.
    pub fn wet_mask(&self, level: usize) -> Result<Arc<WetMask>> {
        self.masks.level(level)
    }

    /// The unit of a channel's values, where the store says so.
    pub fn unit(&self, channel: &Channel) -> Option<&str> {
        self.array_of(channel)?.unit.as_deref()
    }

    /// The name of a channel in words, where the store has one. In a compact store all levels of a
    /// variable share it.
    pub fn long_name(&self, channel: &Channel) -> Option<&str> {
        self.array_of(channel)?.long_name.as_deref()
    }

    /// What a careful person would want to know about this store, found when it was opened.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Chunks that were read as fill value since the store was opened, one line each, at most 1000
    /// (lenient mode only).
    pub fn missing_chunks(&self) -> Vec<String> {
        let missing = lock(&self.missing);
        missing.clone()
    }

    /// Reads one plane, `(y, x)` in C order.
    ///
    /// # Errors
    /// As [`PlaneSource::read`].
    pub fn read_plane(&self, channel: &Channel, row: usize) -> Result<Vec<f32>> {
        let PlaneShape { ny, nx } = self.grid.shape();
        let sink = OnePlane(Mutex::new(vec![0.0; ny * nx]));
        let request = PlaneRequest {
            rows: &[row],
            channels: &[self.position(channel)?],
        };
        self.read(&request, &sink)?;
        Ok(into_inner(sink.0))
    }

    /// Compares a plane with the wet mask of its level.
    ///
    /// # Errors
    /// As [`Store::read_plane`]; no mask for the level.
    pub fn check_mask(&self, channel: &Channel, row: usize) -> Result<MaskReport> {
        let mask = self.masks.of(channel)?;
        let values = self.read_plane(channel, row)?;
        Ok(MaskReport::of(&values, &mask))
    }

    pub(crate) fn note_missing(&self, line: String) {
        log::warn!("{line}: read as fill value");
        let mut missing = lock(&self.missing);
        if missing.len() < REMEMBERED && !missing.contains(&line) {
            missing.push(line);
        }
    }

    fn position(&self, channel: &Channel) -> Result<usize> {
        let position = self.channels.iter().position(|c| c == channel);
        position.ok_or_else(|| absent(&self.path, channel, self.channels.iter().map(Channel::name)))
    }

    fn array_of(&self, channel: &Channel) -> Option<&PlaneArray> {
        let position = self.channels.iter().position(|c| c == channel)?;
        self.arrays.get(self.slots[position].array)
    }
}

struct OnePlane(Mutex<Vec<f32>>);

impl PlaneSink for OnePlane {
    fn fill(&self, _: Range<usize>, fill: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        fill(&mut lock(&self.0))
    }
}

/// The arrays that hold channels.
struct Found {
    arrays: Vec<PlaneArray>,
    /// By variable and level.
    channels: Vec<(Channel, ChannelSlot)>,
    plane: PlaneShape,
}

impl Found {
    fn channels(
        group: &Group,
        options: &OpenOptions,
        rows: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let mut arrays = Vec::new();
        let mut slots: BTreeMap<(String, Option<usize>), (Channel, ChannelSlot)> = BTreeMap::new();
        let mut plane = None;
        let mut levels = level_count(group)?;
        for meta in group.arrays.values() {
            let Some(axes) = plane_axes(group, meta, rows, options, warnings)? else {
                continue;
            };
            let level_axis = axes.iter().position(|a| *a == Axis::Level);
            let shape = match level_axis {
                None => Levels::Single,
                Some(axis) => Levels::Levels(meta.shape[axis]),
            };
            let restricted = options.channels.is_some();
            let channels = match resolve(group, meta, shape) {
                Err(_) if restricted => continue,
                channels => channels?,
            };
            let wanted = |c: &Channel| options.channels.as_ref().is_none_or(|w| w.contains(c));
            if restricted && !channels.iter().any(wanted) {
                continue;
            }
            check_extents(group, meta, &axes, rows, &mut levels)?;
            check_plane(group, meta, &mut plane)?;
            let array = arrays.len();
            arrays.push(PlaneArray::open(group, meta, &axes)?);
            for (level, channel) in channels.into_iter().enumerate() {
                if !wanted(&channel) {
                    continue;
                }
                let key = (channel.variable().to_owned(), channel.level());
                let slot = ChannelSlot { array, level };
                if let Some((_, other)) = slots.insert(key, (channel.clone(), slot)) {
                    return Err(group
                        .error(ErrorKind::Metadata, &meta.name, "a channel is there twice")
                        .expected("each channel in one array")
                        .found(format!(
                            "{channel} also in array {}",
                            arrays[other.array].layout.name
                        )));
                }
            }
        }
        let channels: Vec<_> = slots.into_values().collect();
        for wanted in options.channels.iter().flatten() {
            if !channels.iter().any(|(c, _)| c == wanted) {
                // All arrays, wanted or not: the right name may be among them.
                let there = group.arrays.values().map(|meta| meta.name.as_str());
                return Err(absent(group.storage.root(), wanted, there));
            }
        }
        let Some(plane) = plane.filter(|_| !channels.is_empty()) else {
            return Err(Error::new(ErrorKind::Metadata, "no channel in this store")
                .store(group.storage.root())
                .expected(format!("arrays of {EXPECTED}"))
                .found(format!("{:?}", group.arrays.keys().collect::<Vec<_>>())));
        };
        Ok(Self {
            arrays,
            channels,
            plane,
        })
    }
}

fn absent<'a>(path: &Path, channel: &Channel, there: impl Iterator<Item = &'a str>) -> Error {
    let there: Vec<&str> = there.collect();
    Error::new(ErrorKind::Metadata, "the store does not have a channel")
        .store(path)
        .expected(format!("channel {channel}"))
        .found(format!("[{}]", there.join(", ")))
}

/// The axes of an array that holds planes; `None` for coordinates, masks and other company.
fn plane_axes(
    group: &Group,
    meta: &ArrayMeta,
    rows: usize,
    options: &OpenOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<Axis>>> {
    use Axis::{Level, Time, X, Y};
    let known: [&[Axis]; 3] = [&[Time, Y, X], &[Time, Level, Y, X], &[Level, Time, Y, X]];
    if is_mask(&meta.name) || meta.shape.len() < 3 {
        return Ok(None);
    }
    let Some(dims) = &meta.dims else {
        let is_rows = |axis: usize| meta.shape[axis] == rows as u64;
        let axes = match (meta.shape.len(), is_rows(0), is_rows(1)) {
            (3, true, _) => known[0],
            (4, true, false) => known[1],
            (4, false, true) => known[2],
            (4, true, true) => {
                return Err(group
                    .error(
                        ErrorKind::Metadata,
                        &meta.name,
                        "dimensions without names, and as many levels as rows",
                    )
                    .expected("_ARRAY_DIMENSIONS or dimension_names")
                    .found(format!("{:?}", meta.shape)));
            }
            _ => return Ok(None),
        };
        warnings.push(format!(
            "array {}: dimensions without names, taken as {axes:?} by their extents",
            meta.name
        ));
        return Ok(Some(axes.to_vec()));
    };
    if !dims.iter().any(|d| TIME_NAMES.contains(&d.as_str())) {
        return Ok(None);
    }
    match axes_of(meta).filter(|axes| known.contains(&axes.as_slice())) {
        Some(axes) => Ok(Some(axes)),
        // What nobody asked for may have any shape.
        None if options
            .channels
            .as_ref()
            .is_some_and(|wanted| !wanted.iter().any(|c| may_hold(&meta.name, c))) =>
        {
            Ok(None)
        }
        None => Err(group
            .error(
                ErrorKind::Metadata,
                &meta.name,
                "unknown dimensions or another order",
            )
            .expected(EXPECTED)
            .found(format!("({})", dims.join(", ")))),
    }
}

/// Whether an array of this name could hold a channel, in any layout.
fn may_hold(name: &str, channel: &Channel) -> bool {
    let older = name
        .strip_prefix(channel.variable())
        .is_some_and(|rest| rest.starts_with("_lev_"));
    older || name == channel.name() || name == channel.variable()
}

/// Length of the level coordinate, with the name of the array that says so.
fn level_count(group: &Group) -> Result<Option<(u64, String)>> {
    let Some(meta) = group.first_of(&LEVEL_NAMES) else {
        return Ok(None);
    };
    match meta.shape[..] {
        [n] => Ok(Some((n, meta.name.clone()))),
        _ => Ok(None),
    }
}

fn check_extents(
    group: &Group,
    meta: &ArrayMeta,
    axes: &[Axis],
    rows: usize,
    levels: &mut Option<(u64, String)>,
) -> Result<()> {
    let bad = |message: String| group.error(ErrorKind::Metadata, &meta.name, message);
    if meta.shape.contains(&0) {
        return Err(bad("an extent is zero".to_owned())
            .expected("no empty dimension")
            .found(format!("{:?}", meta.shape)));
    }
    for (axis, extent) in std::iter::zip(axes, &meta.shape) {
        match axis {
            Axis::Time if *extent != rows as u64 => {
                return Err(bad("not as many rows as the time coordinate".to_owned())
                    .expected(rows)
                    .found(extent));
            }
            Axis::Level => {
                let (expected, source) = levels.get_or_insert((*extent, meta.name.clone()));
                if extent != expected {
                    return Err(bad(format!("not as many levels as array {source}"))
                        .expected(*expected)
                        .found(extent));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_time(group: &Group, warnings: &mut Vec<String>) -> Result<TimeAxis> {
    let Some(meta) = group.first_of(&TIME_NAMES) else {
        return Err(group
            .error(ErrorKind::Metadata, "time", "no time coordinate")
            .expected("an array named time")
            .found(format!("{:?}", group.arrays.keys().collect::<Vec<_>>())));
    };
    let bad = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
    if meta.shape.len() != 1 || meta.shape[0] == 0 {
        return Err(bad("not a time coordinate")
            .expected("one dimension that is not empty")
            .found(format!("{:?}", meta.shape)));
    }
    let units = meta.text("units").ok_or_else(|| {
        bad("the time coordinate has no units").expected("units such as `days since 1958-01-01`")
    })?;
    let calendar = meta.text("calendar").unwrap_or_else(|| {
        warnings.push("the time coordinate names no calendar: standard, as CF says".to_owned());
        "standard"
    });
    // A time that is not there cannot be made up, however lenient one is.
    let values = match read_numbers(group, meta, Strictness::Strict, warnings)? {
        Numbers::Int(values) => TimeValues::Int(values),
        Numbers::Float(values) => TimeValues::Float(values),
        Numbers::Bool(_) => {
            return Err(bad("times of this type are not served")
                .expected("integers or floats")
                .found(&meta.dtype));
        }
    };
    TimeAxis::decode(&values, units, calendar)
        .map_err(|e| e.store(group.storage.root()).array(&meta.name))
}

/// Sees that the first and the last chunk of every array are there: two looks per array that find a
/// writer that was killed, or a store whose metadata was extended first.
fn check_outer_chunks(
    group: &Group,
    arrays: &[PlaneArray],
    strictness: Strictness,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for array in arrays {
        let name = &array.layout.name;
        for key in array.outer_keys() {
            let size = group.storage.size(&key).map_err(|e| {
                group
                    .error(ErrorKind::Io, name, "cannot look at a chunk")
                    .chunk(&key)
                    .caused_by(e)
            })?;
            if size.is_some() {
                continue;
            }
            let missing = group
                .error(
                    ErrorKind::MissingChunk,
                    name,
                    "the first or last chunk that the metadata promises is not there",
                )
                .chunk(key.strip_prefix(&format!("{name}/")).unwrap_or(&key));
            match strictness {
                Strictness::Strict => return Err(missing),
                Strictness::Lenient => warnings.push(missing.to_string()),
            }
        }
    }
    Ok(())
}

/// Starts the wanted way of reading, tries it on a chunk, and sees that the process may open as many
/// files as the readers will hold.
fn start_reading(
    group: &Group,
    arrays: &[PlaneArray],
    method: ReadMethod,
) -> Result<Box<dyn ChunkFiles>> {
    let root = group.storage.root();
    let there = |key: &String| matches!(group.storage.size(key), Ok(Some(_)));
    let chunks = arrays
        .iter()
        .filter_map(|a| a.outer_keys().into_iter().find(there));
    let mut chunks = chunks.peekable();
    // A lenient store may have none of the chunks that are looked for; metadata it has.
    let document = chunks
        .peek()
        .is_none()
        .then(|| group.format.document().to_owned());
    let mut samples = document.into_iter().chain(chunks).map(|key| root.join(key));
    let files = method.start(&mut samples);
    let files = files.map_err(|e| e.store(root))?;
    let threads = threads::planned_threads()?;
    open_files::check(threads, files.descriptors_per_thread()).map_err(|e| e.store(root))?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_ocean_from_land() {
        let shape = PlaneShape { ny: 1, nx: 6 };
        let mask = WetMask::new(shape, vec![true, true, true, false, false, true]).unwrap();
        let values = [1.0, f32::NAN, f32::INFINITY, 7.0, f32::NAN, 1e20];
        let report = MaskReport::of(&values, &mask);
        assert_eq!(
            report,
            MaskReport {
                nan_in_ocean: 1,
                finite_on_land: 1,
                infinite: 1,
                extreme_in_ocean: 1,
                wet: 4
            }
        );
        assert!(!report.is_clean());
        let mask = WetMask::new(shape, vec![true, false, true, true, false, true]).unwrap();
        assert!(MaskReport::of(&[1.0, f32::NAN, 0.0, 7.0, f32::NAN, -1.0], &mask).is_clean());
    }
}
