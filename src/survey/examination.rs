//! An examination: everything about a store that can be wrong, looked at in turn.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::open::Om4Paths;
use crate::options::Strictness;
use crate::store::array_names::{Levels, resolve};
use crate::store::axes::{Axis, LEVEL_NAMES, axes_of};
use crate::store::masks::{WetMasks, is_mask};
use crate::store::om4_store::Store;
use crate::store::open::read_time;
use crate::store::opening::Opening;
use crate::store::options::OpenOptions;
use crate::survey::finding::{Finding, FindingKind, Severity, condense};
use crate::survey::planes::{Depth, Seen, Unit, is_hole, look, units};
use crate::survey::resume::{Progress, finished};
use crate::survey::tables::{check_statistics, consolidated, is_absent};
use crate::survey::{axes, files};
use crate::zarr::group::ZarrGroup;
use crate::zarr::metadata::ArrayMeta;
use serde::Serialize;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What is examined, and how.
///
/// Files are compared with the metadata by listing folders; planes are read to look at values. What does
/// not open is a finding, and the rest is looked at nevertheless.
pub struct Examination<'a> {
    paths: Om4Paths,
    options: OpenOptions,
    depth: Depth,
    state: Option<PathBuf>,
    progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// What an examination found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Examined {
    /// What is or may be wrong: metadata first, then files, axes, values, statistics.
    pub findings: Vec<Finding>,
    /// What is worth knowing and nothing wrong.
    pub notes: Vec<Finding>,
    /// Arrays whose files were compared with their metadata.
    pub arrays: usize,
    /// Channels that could be read.
    pub channels: usize,
    /// Planes that were read and looked at.
    pub planes: u64,
}

impl Examined {
    fn take(&mut self, findings: Vec<Finding>) {
        let findings = condense(one_for_each_chunk(findings)).into_iter();
        let (notes, findings) = findings.partition(|f| f.severity == Severity::Note);
        (self.notes, self.findings) = (notes, findings);
    }
}

/// Units between two writings of the state.
const UNITS: usize = 256;

impl<'a> Examination<'a> {
    /// An examination of a store, and of its statistics where they are.
    pub fn new(paths: &Om4Paths) -> Self {
        Self {
            paths: paths.clone(),
            options: OpenOptions::default(),
            depth: Depth::Sample,
            state: None,
            progress: &|_, _| {},
        }
    }

    /// Opens the store in another way: by another name of its time axis, say. How strict, and which
    /// channels, is the examination's own choice.
    pub fn with_options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Looks at more or less of the values.
    pub fn with_depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    /// Keeps what was seen so far in a file, and goes on from it.
    pub fn with_state(mut self, file: impl Into<PathBuf>) -> Self {
        self.state = Some(file.into());
        self
    }

    /// Tells how many steps are done, of how many, from any thread.
    pub fn with_progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        self.progress = progress;
        self
    }

    /// Examines the store.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: nothing is at the path. A state that is that of another examination or cannot be
    /// written; reader threads that cannot be started. What is wrong with the store is no error.
    pub fn run(&self) -> Result<Examined> {
        let data = &self.paths.data;
        if is_absent(data) {
            return Err(Error::new(ErrorKind::Io, "no such store").store(data));
        }
        let mut examined = Examined {
            findings: Vec::new(),
            notes: Vec::new(),
            arrays: 0,
            channels: 0,
            planes: 0,
        };
        let group = match ZarrGroup::open(data, self.options.limits) {
            Ok(group) => group,
            Err(e) => {
                examined
                    .findings
                    .push(Finding::of(&e, data, FindingKind::Metadata));
                return Ok(examined);
            }
        };
        let mut findings = Vec::new();
        let said = group.warnings.iter();
        findings.extend(said.filter_map(|warning| consolidated(data, warning)));
        findings.extend(group.unusable.values().map(|e| Finding {
            severity: Severity::Warning,
            ..Finding::of(e, data, kind_of(e))
        }));
        let time = self.options.time();
        if is_masks_alone(&group, time) {
            let options = self.strict();
            let masks = WetMasks::read(&group, None, &options).err();
            findings.extend(masks.map(|e| Finding::of(&e, data, FindingKind::Mask)));
            findings.extend(files::check_files(&group, None, &|_| {})?);
            examined.arrays = group.arrays.len();
            examined.take(findings);
            return Ok(examined);
        }
        let store = self.open(&group, &mut findings);
        let mut groups = vec![&group];
        let beside = self.statistics_groups(&mut findings);
        groups.extend(&beside);
        for group in groups {
            examined.arrays += group.arrays.len();
            let is_data = group.storage.root() == data;
            let store = store.as_ref().filter(|_| is_data);
            findings.extend(files::check_files(group, store, &|_| {})?);
        }
        if let Some(store) = &store {
            let said = store.warnings().iter();
            let others = said.filter(|warning| {
                consolidated(data, warning).is_none() && !warning.contains(" is not used: ")
            });
            findings.extend(
                others.map(|w| Finding::new(Severity::Note, FindingKind::Metadata, data, w)),
            );
            findings.extend(axes::check_gaps(store));
            let options = self.lenient();
            let mut opening = Opening::new(&group, &options);
            findings.extend(axes::check_levels(&group, &mut opening, store));
            let seen = self.look(&group, store)?;
            let known: HashSet<_> = findings.iter().filter_map(file_defect).collect();
            let unexplained = |f: &&Finding| !is_hole(store, f, &known);
            let unexplained: Vec<_> = seen.findings.iter().filter(unexplained).cloned().collect();
            findings.extend(unexplained);
            findings.extend(seen.constants(store));
            let full = (self.depth == Depth::Full).then_some(&seen);
            findings.extend(check_statistics(&self.paths, store, full));
            examined.channels = store.channels().len();
            examined.planes = seen.planes;
            if let Some(path) = &self.state {
                finished(path)?;
            }
        }
        examined.take(findings);
        Ok(examined)
    }

    fn strict(&self) -> OpenOptions {
        let mut options = self.options.clone().with_strictness(Strictness::Strict);
        options.channels = None;
        options
    }

    fn lenient(&self) -> OpenOptions {
        self.strict().with_strictness(Strictness::Lenient)
    }

    /// Opens as much of a store as opens.
    fn open(&self, group: &ZarrGroup, findings: &mut Vec<Finding>) -> Option<Store> {
        let data = &self.paths.data;
        let options = self.lenient();
        let mut opening = Opening::new(group, &options);
        let time = read_time(&mut opening);
        if let Some(finding) = axes::time_finding(group, time) {
            findings.push(finding);
            return None;
        }
        let time_name = self.options.time();
        let mut note = |e: &Error| {
            // Chunks are looked for one by one.
            if e.kind() != ErrorKind::MissingChunk {
                findings.push(Finding::of(e, data, kind_of(e)));
            }
        };
        let strictly = Store::open(data, &self.strict());
        let _ = strictly.as_ref().map_err(&mut note);
        if let Ok(store) = Store::open(data, &options) {
            return Some(store);
        }
        let mut good: Vec<Channel> = Vec::new();
        for meta in group
            .arrays
            .values()
            .filter(|meta| holds_planes(meta, time_name))
        {
            let levels = axes_of(meta, time_name)
                .and_then(|axes| axes.iter().position(|a| *a == Axis::Level))
                .map_or(Levels::Single, |axis| Levels::Levels(meta.shape[axis]));
            let opened = resolve(group, meta, levels).and_then(|channels| {
                Store::open(data, &options.clone().with_channels(channels.clone()))?;
                Ok(channels)
            });
            match opened {
                Ok(channels) => good.extend(channels),
                Err(e) => note(&e),
            }
        }
        if good.is_empty() {
            return None;
        }
        match Store::open(data, &options.clone().with_channels(good)) {
            Ok(store) => Some(store),
            Err(e) => {
                note(&e);
                None
            }
        }
    }

    /// The groups of the statistics, as far as they are there and open.
    fn statistics_groups(&self, findings: &mut Vec<Finding>) -> Vec<ZarrGroup> {
        let Om4Paths { means, stds, .. } = &self.paths;
        let mut groups = Vec::new();
        for path in [means, stds].into_iter().filter(|path| !is_absent(path)) {
            match ZarrGroup::open(path, self.options.limits) {
                Ok(group) => {
                    let said = group.warnings.iter();
                    findings.extend(said.filter_map(|warning| consolidated(path, warning)));
                    groups.push(group);
                }
                Err(e) => findings.push(Finding::of(&e, path, FindingKind::Statistics)),
            }
        }
        groups
    }

    /// Looks at the planes, and keeps what was seen.
    fn look(&self, group: &ZarrGroup, store: &Store) -> Result<Seen> {
        let units: Vec<Unit> = units(store, self.depth);
        let of = fingerprint(group, self.depth, units.len());
        let mut state = match &self.state {
            Some(path) => Progress::read(path, &of)?,
            None => Progress {
                of,
                ..Progress::default()
            },
        };
        (self.progress)(state.units, units.len());
        while state.units < units.len() {
            let end = (state.units + UNITS).min(units.len());
            look(store, &units[state.units..end], &mut state.seen)?;
            state.units = end;
            if let Some(path) = &self.state {
                state.write(path)?;
            }
            (self.progress)(end, units.len());
        }
        Ok(state.seen)
    }
}

/// What a failure of opening is about, by the array that it names.
fn kind_of(e: &Error) -> FindingKind {
    match e.array_name() {
        Some(name) if LEVEL_NAMES.contains(&name) => FindingKind::Levels,
        Some(name) if is_mask(name) => FindingKind::Mask,
        _ => FindingKind::Metadata,
    }
}

/// Whether a group has masks and no fields, as is published for other uses.
fn is_masks_alone(group: &ZarrGroup, time: &str) -> bool {
    let mut arrays = group.arrays.values();
    let fields = group.arrays.values().any(|meta| holds_planes(meta, time));
    arrays.any(|meta| is_mask(&meta.name)) && !fields && group.unusable.is_empty()
}

fn holds_planes(meta: &ArrayMeta, time: &str) -> bool {
    let dims = meta.dims.as_ref();
    let time = dims.is_none_or(|dims| dims.iter().any(|d| d == time));
    meta.shape.len() > 2 && time && !is_mask(&meta.name)
}

/// The array and the key within it of a chunk that cannot be read as it should.
fn file_defect(finding: &Finding) -> Option<(String, String)> {
    use FindingKind::{MissingChunk, Size, Unreadable};
    let is_file = matches!(finding.kind, MissingChunk | Size | Unreadable);
    let (array, chunk) = (finding.array.as_ref()?, finding.chunk.as_ref()?);
    let rest = chunk
        .strip_prefix(array)
        .and_then(|rest| rest.strip_prefix('/'));
    is_file.then(|| (array.clone(), rest.unwrap_or(chunk).to_owned()))
}

/// What a chunk's listing says and what reading it says are one defect: the listing comes first.
fn one_for_each_chunk(findings: Vec<Finding>) -> Vec<Finding> {
    let mut listed = HashSet::new();
    let mut kept = Vec::new();
    for finding in findings {
        let place = finding.chunk.as_ref().map(|chunk| {
            let array = finding.array.clone().unwrap_or_default();
            let rest = chunk
                .strip_prefix(&array)
                .and_then(|rest| rest.strip_prefix('/'));
            let key = rest.unwrap_or(chunk).to_owned();
            (finding.store.clone(), array, key)
        });
        if place.as_ref().is_some_and(|place| listed.contains(place)) {
            continue;
        }
        if let (Some(place), Some(_)) = (place, file_defect(&finding)) {
            listed.insert(place);
        }
        kept.push(finding);
    }
    kept
}

/// Of what is examined, so that a state is not taken for that of another store.
fn fingerprint(group: &ZarrGroup, depth: Depth, units: usize) -> String {
    let mut hasher = DefaultHasher::new();
    let root: &Path = group.storage.root();
    root.hash(&mut hasher);
    for meta in group.arrays.values() {
        meta.name.hash(&mut hasher);
        meta.document.to_string().hash(&mut hasher);
    }
    format!(
        "{} {depth:?} {units} {:016x}",
        root.display(),
        hasher.finish()
    )
}
