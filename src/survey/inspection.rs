//! What a store is: its form, its axes, its channels, and what its folders hold.

use crate::error::Result;
use crate::ocean::calendar::Calendar;
use crate::ocean::grid::Coordinate;
use crate::ocean::plane::PlaneSource;
use crate::open::Om4Paths;
use crate::store::om4_store::Store;
use crate::store::options::OpenOptions;
use crate::survey::axes::long_steps;
use crate::survey::listing::Listing;
use crate::survey::tables::is_absent;
use crate::zarr::format::ZarrFormat;
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a store is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Where it lies.
    pub store: PathBuf,
    /// The version of its Zarr format.
    pub zarr_format: u8,
    /// `flat` (an array per level), `compact` (levels in one array), `mixed`, or `surface` where there are
    /// no levels.
    pub layout: &'static str,
    /// Rows and columns of a plane.
    pub plane: [usize; 2],
    /// First and last latitude, degrees north, where the store says.
    pub latitude: Option<[f64; 2]>,
    /// First and last longitude, degrees east, where the store says.
    pub longitude: Option<[f64; 2]>,
    /// Whether there are cell areas (`areacello`).
    pub cell_area: bool,
    /// Rows of the time axis.
    pub rows: usize,
    /// Of the time axis.
    pub calendar: String,
    /// The first and the last time.
    pub times: [String; 2],
    /// The shortest and the longest step of time, days; none for one row.
    pub step_days: Option<[f64; 2]>,
    /// Steps that windows never cross.
    pub gaps: Vec<Gap>,
    /// Variables, each with its levels.
    pub variables: Vec<VariableSummary>,
    /// Masks by level.
    pub masks: Vec<MaskSummary>,
    /// Arrays of planes, masks and coordinates.
    pub arrays: Vec<ArraySummary>,
    /// Whether means and standard deviations lie beside the store.
    pub statistics: [bool; 2],
    /// Bytes of all chunk files.
    pub bytes: u64,
    /// Chunks that are not there: they read as fill value, or are errors where there is ocean in them.
    pub missing_chunks: u64,
    /// What was found odd when the store was opened.
    pub warnings: Vec<String>,
}

/// A step of time much longer than the others.
#[derive(Clone, Debug, Serialize)]
pub struct Gap {
    /// The row after it.
    pub row: usize,
    /// The time before it.
    pub from: String,
    /// The time after it.
    pub to: String,
}

/// A variable: the channels that differ in their level alone.
#[derive(Clone, Debug, Serialize)]
pub struct VariableSummary {
    /// Its name without a level.
    pub name: String,
    /// Levels, ascending; none for a field of the surface.
    pub levels: Vec<usize>,
    /// Its unit, where the store says.
    pub unit: Option<String>,
    /// Its name in words, where the store has one for all its levels.
    pub long_name: Option<String>,
}

/// The mask of a level.
#[derive(Clone, Debug, Serialize)]
pub struct MaskSummary {
    /// From 0 at the surface.
    pub level: usize,
    /// Ocean cells.
    pub wet: usize,
}

/// An array and its files.
#[derive(Clone, Debug, Serialize)]
pub struct ArraySummary {
    /// Its name.
    pub name: String,
    /// Names of its dimensions, where it has them.
    pub dimensions: Option<Vec<String>>,
    /// Its extents.
    pub shape: Vec<u64>,
    /// Extents of a chunk.
    pub chunk: Vec<u64>,
    /// Its type, as written.
    pub dtype: String,
    /// What encodes its chunks, from the values on.
    pub codec: String,
    /// Chunks that the metadata promises.
    pub chunks: u64,
    /// Chunks that are not there.
    pub missing_chunks: u64,
    /// Bytes of the chunk files.
    pub bytes: u64,
}

impl Inspection {
    /// Opens a store and lists its folders; no plane is read.
    ///
    /// # Errors
    /// As [`Store::open`]; a folder that cannot be listed.
    pub fn of(paths: &Om4Paths, options: &OpenOptions) -> Result<Self> {
        let store = Store::open(&paths.data, options)?;
        let group = ZarrGroup::open(&paths.data, options.limits)?;
        let arrays: Vec<ArraySummary> = group
            .arrays
            .values()
            .map(|meta| ArraySummary::of(&group, meta))
            .collect::<Result<_>>()?;
        let time = store.time();
        let last = time.len() - 1;
        let days = |row: usize| (time.seconds(row) - time.seconds(row - 1)) / 86_400.0;
        let steps = (1..time.len()).map(days);
        let gaps = long_steps(time).into_iter().map(|step| Gap {
            row: step.row,
            from: step.before.to_string(),
            to: step.after.to_string(),
        });
        let calendar: Calendar = time.calendar();
        let grid = store.grid();
        let masks = store.masks();
        let shape = store.shape();
        Ok(Self {
            zarr_format: match store.format() {
                ZarrFormat::V2 => 2,
                ZarrFormat::V3 => 3,
            },
            layout: layout(&store),
            plane: [shape.ny, shape.nx],
            latitude: grid.latitude().map(ends),
            longitude: grid.longitude().map(ends),
            cell_area: grid.cell_area().is_some(),
            rows: time.len(),
            calendar: calendar.to_string(),
            times: [time.label(0), time.label(last)],
            step_days: steps
                .map(|days| [days, days])
                .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]),
            gaps: gaps.collect(),
            variables: variables(&store),
            masks: masks
                .levels()
                .map(|level| {
                    let wet = masks.level(level)?.wet_count();
                    Ok(MaskSummary { level, wet })
                })
                .collect::<Result<_>>()?,
            bytes: arrays.iter().map(|array| array.bytes).sum(),
            missing_chunks: arrays.iter().map(|array| array.missing_chunks).sum(),
            arrays,
            statistics: [&paths.means, &paths.stds].map(|path| !is_absent(path)),
            warnings: store.warnings().to_vec(),
            store: paths.data.clone(),
        })
    }
}

impl ArraySummary {
    fn of(group: &ZarrGroup, meta: &ArrayMeta) -> Result<Self> {
        let mut summary = Self {
            name: meta.name.clone(),
            dimensions: meta.dims.clone(),
            shape: meta.shape.clone(),
            chunk: meta.chunk.clone(),
            dtype: meta.dtype.clone(),
            codec: codec(group.format, meta),
            chunks: 0,
            missing_chunks: 0,
            bytes: 0,
        };
        match Listing::of(group, meta) {
            Ok(listing) => {
                summary.chunks = listing.chunks;
                summary.missing_chunks = listing.missing.len() as u64;
                summary.bytes = listing.bytes;
            }
            // An array of another kind is company, and no reason to know nothing of the rest.
            Err(e) if e.kind() == crate::ErrorKind::Io => return Err(e),
            Err(_) => {}
        }
        Ok(summary)
    }
}

/// The ends of a coordinate, in the order of its cells.
fn ends(coordinate: &Coordinate) -> [f64; 2] {
    let (Coordinate::Line(values) | Coordinate::Plane(values)) = coordinate;
    let of = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
    [of(values.first()), of(values.last())]
}

fn layout(store: &Store) -> &'static str {
    let levels = |slot: usize| {
        store.arrays[store.slots[slot].array]
            .layout
            .level_axis
            .is_some()
    };
    let deep = (0..store.channels().len()).filter(|at| store.channels()[*at].level().is_some());
    let (compact, flat): (Vec<usize>, Vec<usize>) = deep.partition(|at| levels(*at));
    match (flat.is_empty(), compact.is_empty()) {
        (true, true) => "surface",
        (false, true) => "flat",
        (true, false) => "compact",
        (false, false) => "mixed",
    }
}

fn variables(store: &Store) -> Vec<VariableSummary> {
    let mut by_name: BTreeMap<&str, VariableSummary> = BTreeMap::new();
    for channel in store.channels() {
        let name = channel.variable();
        let variable = by_name.entry(name).or_insert_with(|| VariableSummary {
            name: name.to_owned(),
            levels: Vec::new(),
            unit: store.unit(channel).map(str::to_owned),
            long_name: store.long_name(channel).map(str::to_owned),
        });
        variable.levels.extend(channel.level());
        if variable.long_name.as_deref() != store.long_name(channel) {
            variable.long_name = None;
        }
    }
    by_name.into_values().collect()
}

/// What encodes chunks, by the names that the metadata has for it.
fn codec(format: ZarrFormat, meta: &ArrayMeta) -> String {
    let name = |codec: &Value| -> Option<String> {
        let of = |field: &str| codec.get(field).and_then(Value::as_str);
        let own = codec.as_str().or(of("id")).or(of("name"))?;
        let within = of("cname").or_else(|| codec.pointer("/configuration/cname")?.as_str());
        Some(match within {
            Some(within) => format!("{own} {within}"),
            None => own.to_owned(),
        })
    };
    let list = |codecs: Option<&Value>| -> Vec<String> {
        let codecs = codecs.and_then(Value::as_array);
        codecs.into_iter().flatten().filter_map(name).collect()
    };
    let document = &meta.document;
    let mut names = match format {
        ZarrFormat::V2 => {
            let mut names = list(document.get("filters"));
            names.extend(document.get("compressor").and_then(name));
            names
        }
        ZarrFormat::V3 => list(document.get("codecs")),
    };
    names.retain(|name| name != "bytes");
    let inner = document.pointer("/codecs/0/configuration/codecs");
    let mut inner = list(inner);
    inner.retain(|name| name != "bytes");
    names.extend(inner);
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}
