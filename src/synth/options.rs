//! Which form of store to write.

use super::waves::Waves;
use crate::error::{Error, Result};
use crate::ocean::calendar::{Calendar, Date};
use crate::ocean::channel::{Channel, DEPTHS};

/// Names that no variable may have.
const COORDINATES: [&str; 12] = [
    "time",
    "x",
    "y",
    "lev",
    "dz",
    "lat",
    "lon",
    "areacello",
    "lat_b",
    "lon_b",
    "ocean_fraction",
    "wetmask",
];

/// How the variables with depth are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `thetao_4 (time, y, x)` and `mask_4 (y, x)`: the published layout.
    Flat,
    /// `thetao_lev_65_0 (time, y, x)` and `wetmask (lev, y, x)`: the older names.
    FlatDepthNames,
    /// `thetao (lev, time, y, x)` and `wetmask (lev, y, x)`.
    CompactLevTime,
    /// `thetao (time, lev, y, x)` and `wetmask (lev, y, x)`.
    CompactTimeLev,
}

/// The Zarr format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `.zgroup`, `.zarray`, `.zattrs`, as zarr-python 2.18 writes them.
    V2,
    /// `zarr.json`, as zarr-python 3 writes it.
    V3,
}

/// The compression of data variables and masks. Statistics without a dimension have none in v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Plain bytes, as published.
    None,
    /// Blosc with lz4 level 5 and byte shuffle.
    BloscLz4,
    /// Blosc with zstd level 5 and byte shuffle.
    BloscZstd,
    /// Zstandard, the library's default level.
    Zstd,
    /// numcodecs' lz4: the length in 4 bytes, little-endian, then one LZ4 block.
    Lz4,
    /// gzip level 5.
    Gzip,
}

/// How time is cut into chunks. A chunk always has whole planes; in the compact layouts all levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunking {
    /// One time row per chunk, as published.
    OneRow,
    /// So many time rows per chunk.
    Rows(usize),
    /// Shards of so many time rows; the inner chunk is one plane. Zarr v3 only.
    Shards(usize),
}

/// How the time coordinate is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeEncoding {
    /// int64 "days since" the first row's noon.
    Int,
    /// float64 "days since" 1 January of the first row's year; noon is `.5`.
    Float,
}

/// How masks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskType {
    /// int8 with the attribute `dtype: "bool"`.
    Int8,
    /// Zarr's bool (`|b1` in v2).
    Bool,
}

/// What stands between the indices of a chunk key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Separator {
    /// v2: `.`, without the key `dimension_separator`; v3: `/`.
    Usual,
    /// `.`, said in the metadata.
    Dot,
    /// `/`, said in the metadata.
    Slash,
}

/// Whether the group holds a copy of all metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consolidation {
    /// `.zmetadata` in v2, inside the group's `zarr.json` in v3.
    Consolidated,
    /// Each array's metadata only in its own place.
    Separate,
}

/// What land cells hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Land {
    /// NaN, as published.
    Nan,
    /// Whatever the [`Field`](super::Field) gave.
    AsGiven,
}

/// What to do when the directory already holds a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Existing {
    /// Fail, and leave it alone.
    Refuse,
    /// Write the new one, then put it in the old one's place.
    Replace,
}

/// The form and size of a synthetic store. See the [module](super) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SynthOptions {
    pub(super) ny: usize,
    pub(super) nx: usize,
    pub(super) levels: usize,
    pub(super) rows: usize,
    pub(super) depth_variables: Vec<String>,
    pub(super) surface_variables: Vec<String>,
    pub(super) layout: Layout,
    pub(super) format: Format,
    pub(super) codec: Codec,
    pub(super) chunking: Chunking,
    pub(super) separator: Separator,
    pub(super) consolidation: Consolidation,
    pub(super) calendar: Calendar,
    pub(super) start: Date,
    pub(super) time: TimeEncoding,
    pub(super) masks: MaskType,
    pub(super) land: Land,
    pub(super) existing: Existing,
    pub(super) seed: u64,
}

impl SynthOptions {
    /// The published form on a grid of `ny` by `nx` cells: 19 levels, one year (73 rows), all
    /// variables, starting at noon of 1958-01-03 in the Julian calendar.
    pub fn new(ny: usize, nx: usize) -> Self {
        let names = |names: [&str; 4]| names.map(String::from).to_vec();
        Self {
            ny,
            nx,
            levels: DEPTHS.len(),
            rows: 73,
            depth_variables: names(["thetao", "so", "uo", "vo"]),
            surface_variables: names(["zos", "hfds", "tauuo", "tauvo"]),
            layout: Layout::Flat,
            format: Format::V2,
            codec: Codec::None,
            chunking: Chunking::OneRow,
            separator: Separator::Usual,
            consolidation: Consolidation::Consolidated,
            calendar: Calendar::Julian,
            start: Date {
                year: 1958,
                month: 1,
                day: 3,
            },
            time: TimeEncoding::Int,
            masks: MaskType::Int8,
            land: Land::Nan,
            existing: Existing::Refuse,
            seed: 1,
        }
    }

    /// The number of levels, 1 to 19, from the surface down. Default 19.
    pub fn with_levels(mut self, levels: usize) -> Self {
        self.levels = levels;
        self
    }

    /// The number of time rows. Default 73, one year.
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.rows = rows;
        self
    }

    /// The variables with depth and those without. Default `thetao so uo vo` and
    /// `zos hfds tauuo tauvo`.
    pub fn with_variables(mut self, depth: &[&str], surface: &[&str]) -> Self {
        self.depth_variables = depth.iter().map(|v| (*v).into()).collect();
        self.surface_variables = surface.iter().map(|v| (*v).into()).collect();
        self
    }

    /// Default [`Layout::Flat`].
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Default [`Format::V2`]. The statistics have the same format.
    pub fn with_format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Default [`Codec::None`]. Coordinates have the format's usual codec whatever this says.
    pub fn with_codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Default [`Chunking::OneRow`].
    pub fn with_chunking(mut self, chunking: Chunking) -> Self {
        self.chunking = chunking;
        self
    }

    /// Default [`Separator::Usual`].
    pub fn with_separator(mut self, separator: Separator) -> Self {
        self.separator = separator;
        self
    }

    /// Default [`Consolidation::Consolidated`].
    pub fn with_consolidation(mut self, consolidation: Consolidation) -> Self {
        self.consolidation = consolidation;
        self
    }

    /// Default [`Calendar::Julian`]. Rows are 5 days apart, 73 to a year: in a year with a
    /// 29 February the step over it has 6 days. `360_day` has 72 rows to a year.
    pub fn with_calendar(mut self, calendar: Calendar) -> Self {
        self.calendar = calendar;
        self
    }

    /// The day of the first row, at noon. Default 1958-01-03.
    pub fn with_start(mut self, start: Date) -> Self {
        self.start = start;
        self
    }

    /// Default [`TimeEncoding::Int`].
    pub fn with_time(mut self, time: TimeEncoding) -> Self {
        self.time = time;
        self
    }

    /// Default [`MaskType::Int8`].
    pub fn with_masks(mut self, masks: MaskType) -> Self {
        self.masks = masks;
        self
    }

    /// Default [`Land::Nan`].
    pub fn with_land(mut self, land: Land) -> Self {
        self.land = land;
        self
    }

    /// Default [`Existing::Refuse`].
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// The seed of [`Waves`] in [`write`](Self::write). Default 1.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The channels of the store in the order in which their planes are asked for: each variable
    /// with depth from the surface down, then the variables without.
    pub fn channels(&self) -> Vec<Channel> {
        let levels = |v| (0..self.levels).map(move |k| Channel::at_level(v, k));
        let deep = self.depth_variables.iter().flat_map(|v| levels(v));
        let surface = self.surface_variables.iter();
        deep.chain(surface.filter_map(|v| v.parse().ok())).collect()
    }

    /// The field that [`write`](Self::write) writes.
    pub fn waves(&self) -> Waves {
        Waves::new(self.ny, self.nx, self.levels, self.seed)
    }

    /// Refuses what cannot be written.
    pub(super) fn check(&self) -> Result<()> {
        let limit = |what: &str, range: std::ops::RangeInclusive<usize>, found: usize| {
            if range.contains(&found) {
                return Ok(());
            }
            let (low, high) = range.into_inner();
            let expected = format!("{low} to {high}");
            Err(Error::config(what).expected(expected).found(found))
        };
        limit("number of grid rows", 1..=1 << 16, self.ny)?;
        limit("number of grid columns", 1..=1 << 16, self.nx)?;
        limit("number of levels", 1..=DEPTHS.len(), self.levels)?;
        limit("number of time rows", 1..=1 << 20, self.rows)?;
        match self.chunking {
            Chunking::OneRow => {}
            Chunking::Rows(n) | Chunking::Shards(n) => {
                limit("time rows in a chunk", 1..=1 << 16, n)?;
            }
        }
        if let (Chunking::Shards(_), Format::V2) = (self.chunking, self.format) {
            return Err(Error::config("Zarr v2 has no shards"));
        }
        check_start(self.start, self.calendar)?;
        for name in self.depth_variables.iter().chain(&self.surface_variables) {
            let channel: Channel = name.parse()?;
            if channel.level().is_some() {
                let found = format!("`{name}`");
                return Err(Error::config("a variable is named with a level").found(found));
            }
            if COORDINATES.contains(&name.as_str()) {
                let found = format!("`{name}`");
                return Err(Error::config("a variable is named like a coordinate").found(found));
            }
        }
        crate::ocean::channel::check_channels(&self.channels())
    }
}

/// Refuses a first day that the calendar lacks, or that the 73-step year does not hold.
fn check_start(start: Date, calendar: Calendar) -> Result<()> {
    let wrong = |expected: &str| {
        Err(Error::config("first day of the time axis")
            .expected(expected)
            .found(start))
    };
    if !(1..=9000).contains(&start.year) {
        return wrong("a date in the years 1 to 9000");
    }
    if calendar == Calendar::Standard && start.year < 1583 {
        return wrong("a year after 1582, where the standard calendar skips ten days");
    }
    let every_year = calendar == Calendar::Day360 || Calendar::NoLeap.contains(start);
    if !calendar.contains(start) || !every_year {
        return wrong("a day that every year of the calendar has");
    }
    Ok(())
}
