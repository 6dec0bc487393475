//! Opening a store: which arrays it has, which channels they hold, and whether they fit together.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::PlaneShape;
use crate::ocean::time::{TimeAxis, TimeValues};
use crate::open_files;
use crate::options::{ReadMethod, Strictness};
use crate::store::array_names::{Levels, may_hold, resolve};
use crate::store::axes::{Axis, EXPECTED, LEVEL_NAMES, PLANE_AXES, axes_of};
use crate::store::grid::check_plane;
use crate::store::masks::is_mask;
use crate::store::opening::Opening;
use crate::store::plane_array::PlaneArray;
use crate::store::tasks::ChannelSlot;
use crate::threads;
use crate::zarr::files::chunk_files::ChunkFiles;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::limits;
use crate::zarr::metadata::ArrayMeta;
use crate::zarr::sharding::Sharding;
use crate::zarr::small_array::{Numbers, SmallArray};
use std::collections::BTreeMap;
use std::path::Path;

/// The arrays that hold channels.
pub(crate) struct Found {
    pub(crate) arrays: Vec<PlaneArray>,
    /// By variable and level.
    pub(crate) channels: Vec<(Channel, ChannelSlot)>,
    pub(crate) plane: PlaneShape,
}

/// What was found so far, array by array.
struct Search {
    /// Rows of the time coordinate.
    rows: usize,
    arrays: Vec<PlaneArray>,
    /// By variable and level.
    slots: BTreeMap<(String, Option<usize>), (Channel, ChannelSlot)>,
    plane: Option<PlaneShape>,
    levels: Option<LevelCount>,
}

/// Levels of the store, and the array that says so.
struct LevelCount {
    levels: u64,
    array: String,
}

impl Found {
    /// Finds every array that holds wanted channels, and checks that all fit together. `rows` is
    /// the length of the time coordinate.
    ///
    /// # Errors
    /// See [`Store::open`](crate::store::Store::open).
    pub(crate) fn channels(opening: &mut Opening<'_>, rows: usize) -> Result<Self> {
        let group = opening.group;
        let mut search = Search {
            rows,
            arrays: Vec::new(),
            slots: BTreeMap::new(),
            plane: None,
            levels: level_count(group)?,
        };
        for (name, why) in &group.unusable {
            let wanted = opening.options.channels.as_ref();
            // What was not asked for by name is a warning, unless the system is at fault.
            if wanted.map_or(why.kind() == ErrorKind::Io, |w| {
                w.iter().any(|c| may_hold(name, c))
            }) {
                return Err(why.again());
            }
        }
        for meta in group.arrays.values() {
            if let Some(axes) = plane_axes(opening, meta, rows)? {
                search.add(opening, meta, &axes)?;
            }
        }
        let channels: Vec<_> = search.slots.into_values().collect();
        for wanted in opening.options.channels.iter().flatten() {
            if !channels.iter().any(|(c, _)| c == wanted) {
                // All arrays, wanted or not: the right name may be among them.
                let there = group.arrays.values().map(|meta| meta.name.as_str());
                return Err(absent(group.storage.root(), wanted, there));
            }
        }
        let Some(plane) = search.plane.filter(|_| !channels.is_empty()) else {
            return Err(Error::new(ErrorKind::Metadata, "no channel in this store")
                .store(group.storage.root())
                .expected(format!("arrays of {EXPECTED}"))
                .found(group.contents()));
        };
        Ok(Self {
            arrays: search.arrays,
            channels,
            plane,
        })
    }
}

impl Search {
    /// Opens an array of planes, unless nobody wants what it holds.
    fn add(&mut self, opening: &Opening<'_>, meta: &ArrayMeta, axes: &[Axis]) -> Result<()> {
        let (group, only) = (opening.group, opening.options.channels.as_ref());
        let level_axis = axes.iter().position(|a| *a == Axis::Level);
        let shape = match level_axis {
            None => Levels::Single,
            Some(axis) => Levels::Levels(meta.shape[axis]),
        };
        let channels = match resolve(group, meta, shape) {
            Err(_) if only.is_some() => return Ok(()),
            channels => channels?,
        };
        let wanted = |c: &Channel| only.is_none_or(|w| w.contains(c));
        if only.is_some() && !channels.iter().any(wanted) {
            return Ok(());
        }
        self.check_extents(group, meta, axes)?;
        check_plane(group, meta, &mut self.plane)?;
        check_pieces(group, meta)?;
        let array = self.arrays.len();
        self.arrays.push(PlaneArray::open(group, meta, axes)?);
        for (level, channel) in channels.into_iter().enumerate() {
            if !wanted(&channel) {
                continue;
            }
            let key = (channel.variable().to_owned(), channel.level());
            let slot = ChannelSlot { array, level };
            if let Some((_, other)) = self.slots.insert(key, (channel.clone(), slot)) {
                let other = &self.arrays[other.array].layout.name;
                return Err(group
                    .error(ErrorKind::Metadata, &meta.name, "a channel is there twice")
                    .expected("each channel in one array")
                    .found(format!("{channel} also in array {other}")));
            }
        }
        Ok(())
    }

    /// Compares extents with the time coordinate and with the levels of the arrays before.
    fn check_extents(&mut self, group: &ZarrGroup, meta: &ArrayMeta, axes: &[Axis]) -> Result<()> {
        let bad = |message: String| group.error(ErrorKind::Metadata, &meta.name, message);
        if meta.shape.contains(&0) {
            return Err(bad("an extent is zero".to_owned())
                .expected("no empty dimension")
                .found(format!("{:?}", meta.shape)));
        }
        for (axis, extent) in std::iter::zip(axes, &meta.shape) {
            match axis {
                Axis::Time if *extent != self.rows as u64 => {
                    return Err(bad("not as many rows as the time coordinate".to_owned())
                        .expected(self.rows)
                        .found(extent));
                }
                Axis::Level => {
                    let expected = self.levels.get_or_insert_with(|| LevelCount {
                        levels: *extent,
                        array: meta.name.clone(),
                    });
                    if *extent != expected.levels {
                        let source = &expected.array;
                        return Err(bad(format!("not as many levels as array {source}"))
                            .expected(expected.levels)
                            .found(extent));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Sees that what is decoded at once is within the limits, before memory or codecs are asked for it.
fn check_pieces(group: &ZarrGroup, meta: &ArrayMeta) -> Result<()> {
    let shards = match group.format {
        ZarrFormat::V2 => None,
        ZarrFormat::V3 => Sharding::of_array(group, meta)?,
    };
    let piece = shards.as_ref().map_or(&meta.chunk, |s| &s.inner);
    // In memory, values are `f32`.
    limits::check_chunk(group, meta, piece, 4)
}

/// A channel that the store does not have.
pub(crate) fn absent<'a>(
    path: &Path,
    channel: &Channel,
    there: impl Iterator<Item = &'a str>,
) -> Error {
    let there: Vec<&str> = there.collect();
    Error::new(ErrorKind::Metadata, "the store does not have a channel")
        .store(path)
        .expected(format!("channel {channel}"))
        .found(format!("[{}]", there.join(", ")))
}

/// The axes of an array that holds planes; `None` for coordinates, masks and others.
fn plane_axes(
    opening: &mut Opening<'_>,
    meta: &ArrayMeta,
    rows: usize,
) -> Result<Option<Vec<Axis>>> {
    if is_mask(&meta.name) || meta.shape.len() < 3 {
        return Ok(None);
    }
    let Some(dims) = &meta.dims else {
        let Some(axes) = axes_by_extents(opening.group, meta, rows)? else {
            return Ok(None);
        };
        opening.warnings.push(format!(
            "array {}: dimensions without names, taken as {axes:?} by their extents",
            meta.name
        ));
        return Ok(Some(axes.to_vec()));
    };
    let time = opening.options.time();
    if !dims.iter().any(|d| d == time) {
        return Ok(None);
    }
    match axes_of(meta, time).filter(|axes| PLANE_AXES.contains(&axes.as_slice())) {
        Some(axes) => Ok(Some(axes)),
        // What nobody asked for may have any shape.
        None if opening
            .options
            .channels
            .as_ref()
            .is_some_and(|wanted| !wanted.iter().any(|c| may_hold(&meta.name, c))) =>
        {
            Ok(None)
        }
        None => Err(opening
            .group
            .error(
                ErrorKind::Metadata,
                &meta.name,
                "unknown dimensions or another order",
            )
            .expected(EXPECTED)
            .found(format!("({})", dims.join(", ")))),
    }
}

/// The axes of an array whose dimensions have no names, where its extents tell them apart.
fn axes_by_extents(
    group: &ZarrGroup,
    meta: &ArrayMeta,
    rows: usize,
) -> Result<Option<&'static [Axis]>> {
    let is_rows = |axis: usize| meta.shape[axis] == rows as u64;
    match (meta.shape.len(), is_rows(0), is_rows(1)) {
        (3, true, _) => Ok(Some(PLANE_AXES[0])),
        (4, true, false) => Ok(Some(PLANE_AXES[1])),
        (4, false, true) => Ok(Some(PLANE_AXES[2])),
        (4, true, true) => Err(group
            .error(
                ErrorKind::Metadata,
                &meta.name,
                "dimensions without names, and as many levels as rows",
            )
            .expected("_ARRAY_DIMENSIONS or dimension_names")
            .found(format!("{:?}", meta.shape))),
        _ => Ok(None),
    }
}

/// Length of the level coordinate, where the store has one.
fn level_count(group: &ZarrGroup) -> Result<Option<LevelCount>> {
    let meta = group.first_of(&LEVEL_NAMES)?;
    let meta = meta.filter(|meta| meta.shape.len() == 1);
    Ok(meta.map(|meta| LevelCount {
        levels: meta.shape[0],
        array: meta.name.clone(),
    }))
}

/// More rows than any axis has: a damaged shape must not decide how much to allocate.
const MOST_ROWS: u64 = 1 << 24;

/// Reads and decodes the time coordinate.
///
/// # Errors
/// There is none, or its times cannot be read or do not increase.
pub(crate) fn read_time(opening: &mut Opening<'_>) -> Result<TimeAxis> {
    let (group, time) = (opening.group, opening.options.time());
    let Some(meta) = group.first_of(&[time])? else {
        return Err(group
            .error(ErrorKind::Metadata, time, "no time coordinate")
            .expected(format!(
                "an array named {time}, or another time_name in the options"
            ))
            .found(group.contents()));
    };
    let bad = |message: &str| group.error(ErrorKind::Metadata, &meta.name, message);
    if meta.shape.len() != 1 || meta.shape[0] == 0 {
        return Err(bad("not a time coordinate")
            .expected("one dimension that is not empty")
            .found(format!("{:?}", meta.shape)));
    }
    if meta.shape[0] > MOST_ROWS {
        return Err(bad("impossibly many times")
            .expected(format!("at most {MOST_ROWS}"))
            .found(meta.shape[0]));
    }
    let units = meta.text("units").ok_or_else(|| {
        bad("the time coordinate has no units").expected("units such as `days since 1958-01-01`")
    })?;
    let calendar = meta.text("calendar").unwrap_or_else(|| {
        let warning = "the time coordinate names no calendar: standard, as CF says";
        opening.warnings.push(warning.to_owned());
        "standard"
    });
    // A time that is not there cannot be made up, however lenient one is.
    let all = 0..meta.shape[0];
    let read = SmallArray::read(group, meta, &[all], Strictness::Strict)?;
    opening.warnings.extend(read.absent);
    if let Some(missing) = read.first_missing {
        return Err(group
            .error(ErrorKind::Values, &meta.name, "a time is missing")
            .row(missing.at)
            .found(format!(
                "{}, which the array names as missing",
                missing.value
            )));
    }
    let values = match read.numbers {
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

/// Starts the wanted way of reading, tries it on a chunk, and sees that the process may open as
/// many files as the readers will hold.
///
/// # Errors
/// The system or the file system refuses it, a sample cannot be read, too few files may be opened.
pub(crate) fn start_reading(
    group: &ZarrGroup,
    arrays: &[PlaneArray],
    method: ReadMethod,
) -> Result<ChunkFiles> {
    let root = group.storage.root();
    let there = |key: &String| matches!(group.storage.size(key), Ok(Some(_)));
    let chunks = arrays.iter().filter_map(|array| {
        let keys = array.outer_chunks().map(|chunk| chunk.key);
        keys.into_iter().find(there)
    });
    let mut chunks = chunks.peekable();
    // A store may have none of the chunks that are looked for; metadata it has.
    let document = chunks
        .peek()
        .is_none()
        .then(|| group.format.document().to_owned());
    let mut samples = document.into_iter().chain(chunks).map(|key| root.join(key));
    let files = ChunkFiles::start(method, &mut samples);
    let files = files.map_err(|e| e.store(root))?;
    let threads = threads::planned_threads()?;
    open_files::check(threads, files.descriptors_per_thread()).map_err(|e| e.store(root))?;
    Ok(files)
}
