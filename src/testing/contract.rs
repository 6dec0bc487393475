//! The contract of [`PlaneSource`]: a suite to run on a source of one's own, and a probe that
//! watches one while it is used.

use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::{PlaneRequest, PlaneSink, PlaneSource, ReadCounts};
use crate::sync::{into_inner, lock};
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// Holds a source to the contract of [`PlaneSource`], on a few of its rows and channels:
///
/// * it has channels, each once, rows, and planes with cells;
/// * every plane of a request is filled exactly once, in memory of its size, and counted;
/// * a plane has the same values whenever, with whatever else and on whichever thread it is read;
/// * an empty request reads nothing;
/// * a row or channel that is not there is an error, by [`PlaneSource::read`] before anything is
///   filled and by [`PlaneSource::planned_chunks`];
/// * as many chunks are read as were planned;
/// * an error of the sink is returned, and the source goes on working.
///
/// ```
/// use burn_om4::testing::{MemorySource, check_source};
/// use burn_om4::parse_channels;
/// use burn_om4::ocean::PlaneShape;
///
/// let shape = PlaneShape { ny: 2, nx: 3 };
/// let channels = parse_channels("zos, hfds")?;
/// check_source(&MemorySource::new(channels.clone(), 9, shape, |row, _, _| row as f32))?;
///
/// // A source whose values depend on when they are read.
/// let reads = std::sync::atomic::AtomicUsize::new(0);
/// let next = move || reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as f32;
/// let impure = MemorySource::new(channels, 9, shape, move |_, _, _| next());
/// assert!(check_source(&impure).unwrap_err().to_string().contains("other values"));
/// # Ok::<(), burn_om4::Error>(())
/// ```
///
/// # Errors
/// The first breach that is found, or an error of the source where there should be none.
pub fn check_source(source: &dyn PlaneSource) -> Result<()> {
    check_extents(source)?;
    let (rows, channels) = (spread(source.rows()), spread(source.channels().len()));
    let all = read(source, &rows, &channels)?;
    // Each alone, in another order, and among others.
    for (i, &row) in rows.iter().enumerate() {
        for (j, &channel) in channels.iter().enumerate() {
            let alone = read(source, &[row], &[channel])?;
            same(
                source,
                row,
                channel,
                &all[i * channels.len() + j],
                &alone[0],
            )?;
        }
    }
    let back = |of: &[usize]| of.iter().rev().copied().collect::<Vec<_>>();
    let reversed = read(source, &back(&rows), &back(&channels))?;
    agree(source, &rows, &channels, &all, &back_values(reversed))?;
    let elsewhere = std::thread::scope(|scope| {
        let reading = || scope.spawn(|| read(source, &rows, &channels));
        let threads = [reading(), reading()];
        threads.map(|t| t.join().unwrap_or_else(|_| Err(breach("a read panicked"))))
    });
    for found in elsewhere {
        agree(source, &rows, &channels, &all, &found?)?;
    }

    check_nothing(source, &[], &channels)?;
    check_nothing(source, &rows, &[])?;
    let (past, beyond) = (source.rows(), source.channels().len());
    check_refused(source, &[rows[0], past], &channels)?;
    check_refused(source, &rows, &[channels[0], beyond])?;
    check_sink_errors(source, &rows, &channels)?;
    let after = read(source, &rows, &channels)?;
    agree(source, &rows, &channels, &all, &after)
}

fn breach(what: &str) -> Error {
    Error::config(format!("a breach of the contract of PlaneSource: {what}"))
}

/// The first, one in the middle and its neighbour, and the last.
fn spread(n: usize) -> Vec<usize> {
    let mut some = vec![0, n / 2, (n / 2 + 1).min(n - 1), n - 1];
    some.sort_unstable();
    some.dedup();
    some
}

fn check_extents(source: &dyn PlaneSource) -> Result<()> {
    if source.channels().is_empty() || source.rows() == 0 || source.shape().cells() == 0 {
        return Err(breach("nothing to read")
            .expected("channels, rows and cells")
            .found(format!(
                "{} channels, {} rows, {:?}",
                source.channels().len(),
                source.rows(),
                source.shape()
            )));
    }
    let mut names: Vec<&Channel> = source.channels().iter().collect();
    names.sort_by_key(|c| c.name());
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(breach("a channel is there twice").found(pair[0])),
        None => Ok(()),
    }
}

/// Planes of one request, in its order, each once.
struct Collected {
    cells: usize,
    /// What memory holds before it is filled.
    before: f32,
    planes: Mutex<Vec<Option<Vec<f32>>>>,
}

impl Collected {
    fn new(source: &dyn PlaneSource, request: &PlaneRequest<'_>, before: f32) -> Self {
        Self {
            cells: source.shape().cells(),
            before,
            planes: Mutex::new(vec![None; request.planes()]),
        }
    }
}

impl PlaneSink for Collected {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let n = lock(&self.planes).len();
        within(&planes, n)?;
        let mut memory = vec![self.before; planes.len() * self.cells];
        fill(&mut memory)?;
        let mut filled = lock(&self.planes);
        for (plane, values) in planes.zip(memory.chunks_exact(self.cells)) {
            let place = &mut filled[plane];
            if place.replace(values.to_vec()).is_some() {
                return Err(breach("a plane is filled twice").found(plane));
            }
        }
        Ok(())
    }
}

/// Planes that a request of `n` planes has.
fn within(planes: &Range<usize>, n: usize) -> Result<()> {
    if planes.start < planes.end && planes.end <= n {
        return Ok(());
    }
    Err(breach("planes that were not asked for are filled")
        .expected(format!("some of 0..{n}"))
        .found(format!("{planes:?}")))
}

/// Reads a good request, into memory that held one thing and then another: what memory held before
/// must not matter.
fn read(source: &dyn PlaneSource, rows: &[usize], channels: &[usize]) -> Result<Vec<Vec<f32>>> {
    let found = read_over(source, rows, channels, 1.0)?;
    let again = read_over(source, rows, channels, -2.0)?;
    agree(source, rows, channels, &found, &again)?;
    Ok(found)
}

fn read_over(
    source: &dyn PlaneSource,
    rows: &[usize],
    channels: &[usize],
    before: f32,
) -> Result<Vec<Vec<f32>>> {
    let request = PlaneRequest { rows, channels };
    let sink = Collected::new(source, &request, before);
    let planned = source.planned_chunks(&request)?;
    let counts = source.read(&request, &sink)?;
    let expected = (request.planes() as u64, planned);
    if (counts.planes, counts.chunks) != expected {
        return Err(
            breach("what was read is not what was asked for and planned")
                .expected(format!("{} planes, {planned} chunks", request.planes()))
                .found(format!(
                    "{} planes, {} chunks",
                    counts.planes, counts.chunks
                )),
        );
    }
    let planes = into_inner(sink.planes).into_iter();
    let missing = |plane| breach("a plane is not filled").found(plane);
    let each = planes.enumerate().map(|(i, p)| p.ok_or_else(|| missing(i)));
    each.collect()
}

fn same(
    source: &dyn PlaneSource,
    row: usize,
    channel: usize,
    before: &[f32],
    now: &[f32],
) -> Result<()> {
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    match before.iter().zip(now).position(differs) {
        None => Ok(()),
        Some(cell) => Err(breach("a plane has other values when it is read again")
            .array(source.channels()[channel].name())
            .row(row)
            .expected(format!("{} in cell {cell}", before[cell]))
            .found(now[cell])),
    }
}

fn agree(
    source: &dyn PlaneSource,
    rows: &[usize],
    channels: &[usize],
    before: &[Vec<f32>],
    now: &[Vec<f32>],
) -> Result<()> {
    let places = rows
        .iter()
        .flat_map(|&row| channels.iter().map(move |&c| (row, c)));
    let mut each = places.zip(before.iter().zip(now));
    each.try_for_each(|((row, channel), (before, now))| same(source, row, channel, before, now))
}

fn back_values(mut planes: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    planes.reverse();
    planes
}

fn check_nothing(source: &dyn PlaneSource, rows: &[usize], channels: &[usize]) -> Result<()> {
    read(source, rows, channels).map(drop)
}

/// A request for something that is not there, among what is.
fn check_refused(source: &dyn PlaneSource, rows: &[usize], channels: &[usize]) -> Result<()> {
    let request = PlaneRequest { rows, channels };
    let asked = format!("rows {rows:?}, channels {channels:?}");
    if source.planned_chunks(&request).is_ok() {
        return Err(breach("chunks are planned for what is not there").found(asked));
    }
    let sink = Collected::new(source, &request, 0.0);
    match source.read(&request, &sink) {
        Ok(_) => return Err(breach("what is not there is read").found(asked)),
        Err(e) if e.kind() != ErrorKind::Config => {
            return Err(breach("the wrong kind of error for what is not there")
                .expected("ErrorKind::Config")
                .found(asked)
                .caused_by(e));
        }
        Err(_) => {}
    }
    let filled = into_inner(sink.planes);
    match filled.iter().flatten().count() {
        0 => Ok(()),
        n => Err(breach("planes are filled before the whole request is checked").found(n)),
    }
}

/// Refuses one plane.
struct Refusing {
    cells: usize,
    plane: usize,
}

const REFUSED: &str = "this plane is refused on purpose";

impl PlaneSink for Refusing {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if planes.contains(&self.plane) {
            return Err(Error::new(ErrorKind::Device, REFUSED));
        }
        fill(&mut vec![0.0; planes.len() * self.cells])
    }
}

fn check_sink_errors(source: &dyn PlaneSource, rows: &[usize], channels: &[usize]) -> Result<()> {
    let request = PlaneRequest { rows, channels };
    for plane in [0, request.planes() - 1] {
        let cells = source.shape().cells();
        match source.read(&request, &Refusing { cells, plane }) {
            Ok(_) => return Err(breach("an error of the sink is swallowed").found(plane)),
            Err(e) if e.kind() == ErrorKind::Device && e.to_string().contains(REFUSED) => {}
            Err(e) => {
                return Err(breach("an error of the sink is replaced by another").caused_by(e));
            }
        }
    }
    Ok(())
}

/// A source that is watched: every plane that is read again must have the values it had. Costs a
/// digest of each plane that is read, and 24 bytes or so for each that was; made for debugging.
///
/// ```
/// use burn_om4::testing::{MemorySource, PurityProbe};
/// use burn_om4::parse_channels;
/// use burn_om4::ocean::{PlaneShape, PlaneSource};
///
/// let shape = PlaneShape { ny: 2, nx: 3 };
/// let source = MemorySource::new(parse_channels("zos")?, 9, shape, |row, _, _| row as f32);
/// let watched = PurityProbe::new(source);
/// assert_eq!(watched.rows(), 9);
/// assert_eq!(watched.planes_seen(), 0);
/// # Ok::<(), burn_om4::Error>(())
/// ```
pub struct PurityProbe<S> {
    inner: S,
    seen: Mutex<HashMap<(usize, usize), u64>>,
}

impl<S: PlaneSource> PurityProbe<S> {
    /// Watches `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            seen: Mutex::default(),
        }
    }

    /// Different planes that were read so far.
    pub fn planes_seen(&self) -> usize {
        let seen = lock(&self.seen);
        seen.len()
    }

    fn saw(&self, row: usize, channel: usize, values: &[f32]) -> Result<()> {
        let mut digest = SipHasher13::new();
        for value in values {
            // Which of the many NaN it is does not matter.
            let bits = if value.is_nan() { f32::NAN } else { *value };
            digest.write_u32(bits.to_bits());
        }
        let digest = digest.finish();
        let mut seen = lock(&self.seen);
        let before = *seen.entry((row, channel)).or_insert(digest);
        if before == digest {
            return Ok(());
        }
        Err(breach("a plane has other values when it is read again")
            .array(self.inner.channels()[channel].name())
            .row(row)
            .expected(format!("values of digest {before:016x}"))
            .found(format!("{digest:016x}")))
    }
}

impl<S: PlaneSource> PlaneSource for PurityProbe<S> {
    fn channels(&self) -> &[Channel] {
        self.inner.channels()
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn shape(&self) -> crate::ocean::plane::PlaneShape {
        self.inner.shape()
    }

    fn location(&self) -> Option<&Path> {
        self.inner.location()
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        let cells = self.shape().cells();
        let watching = Watching(|planes: Range<usize>, fill: &mut Fill<'_>| {
            within(&planes, request.planes())?;
            sink.fill(planes.clone(), &mut |memory| {
                fill(memory)?;
                let n = request.channels.len();
                let mut each = planes.clone().zip(memory.chunks_exact(cells));
                each.try_for_each(|(plane, values)| {
                    self.saw(request.rows[plane / n], request.channels[plane % n], values)
                })
            })
        });
        self.inner.read(request, &watching)
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        self.inner.planned_chunks(request)
    }
}

type Fill<'a> = dyn FnMut(&mut [f32]) -> Result<()> + 'a;

/// A sink that is a function.
struct Watching<F>(F);

impl<F: Fn(Range<usize>, &mut Fill<'_>) -> Result<()> + Sync> PlaneSink for Watching<F> {
    fn fill(&self, planes: Range<usize>, fill: &mut Fill<'_>) -> Result<()> {
        (self.0)(planes, fill)
    }
}
