//! An opened store: what it has, and where it lies.
//!
//! Everything that metadata can tell is checked once, before anything is read. What remains for a
//! read to find is what only the chunks know: that one is missing, damaged or unreadable.

#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::ocean::channel::Channel;
use crate::ocean::grid::Grid;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource};
use crate::ocean::time::TimeAxis;
use crate::options::Strictness;
use crate::store::depths;
use crate::store::gaps::check_outer_chunks;
use crate::store::masks::{MaskReport, WetMasks};
use crate::store::open::{self, Found};
use crate::store::opening::Opening;
use crate::store::options::OpenOptions;
use crate::store::plane_array::PlaneArray;
use crate::store::tasks::{ArrayLayout, ChannelSlot};
use crate::sync::{into_inner, lock};
use crate::zarr::files::chunk_files::ChunkFiles;
use crate::zarr::files::storage::LocalStorage;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How many missing chunks a lenient store remembers by name; all are counted.
const REMEMBERED: usize = 1000;

/// An opened OM4 store, flat or compact, Zarr v2 or v3. Immutable: share it behind an
/// [`Arc`].
///
/// Planes are read through [`PlaneSource`]; values are `f32`, `(y, x)` in C order, in the unit of
/// the channel, unpacked where they are stored packed. NaN stays NaN; a stored value that the array
/// names as missing reads as NaN: by the attributes `_FillValue` and `missing_value`, and in Zarr v2 by
/// its fill value, if that is not 0. A fill value of Zarr v3 is a value like any other.
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
    pub(crate) files: ChunkFiles,
    pub(crate) arrays: Vec<PlaneArray>,
    /// The layouts of `arrays`, side by side as `read_tasks` wants them.
    pub(crate) layouts: Vec<ArrayLayout>,
    /// Where each of `channels` lives.
    pub(crate) slots: Vec<ChannelSlot>,
}

impl Store {
    /// Opens a store and validates it.
    ///
    /// Arrays are told apart by their dimension names (`_ARRAY_DIMENSIONS` in v2, `dimension_names`
    /// in v3): with time and a horizontal plane they hold channels, one (`thetao_4`, or by its
    /// older name `thetao_lev_65_0`) or one per level (`thetao`). An array without names is
    /// recognised by its extents alone where that is unambiguous, with a warning.
    ///
    /// What nobody asked for may be of any kind, or broken: it is a warning. What is asked for is
    /// missing only where the system says that it is not there; a link that leads nowhere, a
    /// permission, a pipe in a file's place are errors.
    ///
    /// # Errors
    /// - [`ErrorKind::Io`]: no such directory, or the operating system refused.
    /// - [`ErrorKind::Metadata`]: no Zarr group; unknown or reordered dimensions; values that are no
    ///   numbers; attributes about missing or packed values that are no numbers; extents that are
    ///   zero or disagree with the grid, the levels or the time coordinate; a channel that is there
    ///   twice; a wanted channel that is not; a codec that is not served.
    ///   More levels, rows or bytes than [`OpenOptions::limits`](OpenOptions) allow. Fields of the
    ///   metadata that must be understood and are not. Arrays of one format in a group of the other.
    /// - [`ErrorKind::Values`]: times that are missing or do not increase, coordinates that are none,
    ///   levels that do not run from the surface down; in strict mode, masks of other values than 0, 1
    ///   and missing ones.
    /// - [`ErrorKind::MissingChunk`]: in strict mode, when the first or the last chunk of an array
    ///   is not there and has wet cells, as when metadata runs ahead of the data.
    /// - [`ErrorKind::Config`]: the system or the file system refuses
    ///   [`OpenOptions::io`](OpenOptions), the process may not open as many files as the readers
    ///   hold at most, or `BURN_OM4_READERS` is no number above zero.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let group = ZarrGroup::open(path, options.limits)?;
        let mut opening = Opening::new(&group, options);
        let time = open::read_time(&mut opening)?;
        let found = Found::channels(&mut opening, time.len())?;
        let leveled = found.channels.iter().any(|(c, _)| c.level().is_some());
        let leveled = leveled || group.arrays.contains_key("wetmask");
        let mut grid = Grid::read(&mut opening, found.plane)?;
        grid.depths = depths::read(&mut opening, leveled)?;
        let masks = WetMasks::read(&group, Some(found.plane), options)?;
        let mut warnings = opening.warnings;
        warnings.extend(masks.warnings().iter().cloned());
        warnings.extend(check_outer_chunks(
            &group,
            &found.arrays,
            &found.channels,
            &masks,
            options.strictness,
        )?);
        let files = open::start_reading(&group, &found.arrays, options.io)?;
        warnings.extend(named_as_missing(&found.arrays));
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

    /// Warnings about this store, found when it was opened.
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

    /// The channel in an array and level that planes were planned for.
    pub(crate) fn channel_at(&self, slot: ChannelSlot) -> &Channel {
        let position = self.slots.iter().position(|s| *s == slot);
        &self.channels[position.expect("planned by its slot")]
    }

    pub(crate) fn note_missing(&self, line: String) {
        log::warn!("{line}: read as fill value");
        let mut missing = lock(&self.missing);
        if missing.len() < REMEMBERED && !missing.contains(&line) {
            missing.push(line);
        }
    }

    pub(crate) fn position(&self, channel: &Channel) -> Result<usize> {
        let position = self.channels.iter().position(|c| c == channel);
        position.ok_or_else(|| {
            open::absent(&self.path, channel, self.channels.iter().map(Channel::name))
        })
    }

    fn array_of(&self, channel: &Channel) -> Option<&PlaneArray> {
        let position = self.channels.iter().position(|c| c == channel)?;
        self.arrays.get(self.slots[position].array)
    }
}

/// A line for each set of values that arrays name as missing.
fn named_as_missing(arrays: &[PlaneArray]) -> Vec<String> {
    let mut sets: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for array in arrays {
        let (marks, name) = (array.values.marks(), array.layout.name.as_str());
        match sets.iter_mut().find(|(known, _)| *known == marks) {
            _ if marks.is_empty() => {}
            Some((_, names)) => names.push(name),
            None => sets.push((marks, vec![name])),
        }
    }
    let line = |(marks, names): (Vec<String>, Vec<&str>)| {
        let arrays = match names[..] {
            [one] => format!("array {one}"),
            [first, ..] => format!("array {first} and {} more", names.len() - 1),
            [] => String::new(),
        };
        let marks = marks.join(", ");
        format!("{arrays}: stored values that are named as missing, and read as NaN: {marks}")
    };
    sets.into_iter().map(line).collect()
}

struct OnePlane(Mutex<Vec<f32>>);

impl PlaneSink for OnePlane {
    fn fill(&self, _: Range<usize>, fill: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        fill(&mut lock(&self.0))
    }
}
