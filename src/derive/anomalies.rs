//! A source over a source: what it has, and anomalies of some of its channels.

use crate::derive::climatology::Climatology;
use crate::error::{Error, ErrorKind, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A channel that is not in the store: another one less its climatology.
pub(crate) struct Anomaly {
    pub(crate) channel: Channel,
    /// Position of the other one in the source below.
    pub(crate) base: usize,
    pub(crate) climatology: Climatology,
}

/// All channels of a source, and after them anomalies.
///
/// A plane that is asked for both as it is and less its climatology is read once, and so are its
/// chunks. Costs a copy of each such plane, and the subtraction.
pub(crate) struct WithAnomalies {
    inner: Arc<dyn PlaneSource>,
    channels: Vec<Channel>,
    anomalies: Vec<Anomaly>,
}

impl WithAnomalies {
    pub(crate) fn new(inner: Arc<dyn PlaneSource>, anomalies: Vec<Anomaly>) -> Self {
        let derived = anomalies.iter().map(|a| &a.channel);
        Self {
            channels: inner.channels().iter().chain(derived).cloned().collect(),
            inner,
            anomalies,
        }
    }

    /// The anomaly at a position of `channels`, unless the source below has that channel.
    fn anomaly(&self, channel: usize) -> Option<&Anomaly> {
        let position = channel.checked_sub(self.inner.channels().len())?;
        self.anomalies.get(position)
    }

    /// What the source below is asked for.
    fn below(&self, channels: &[usize]) -> Below {
        let mut below = Below::default();
        for (place, &channel) in channels.iter().enumerate() {
            let base = self.anomaly(channel).map_or(channel, |a| a.base);
            let known = below.channels.iter().position(|c| *c == base);
            match known {
                Some(position) => below.places[position].push(place),
                None => {
                    below.channels.push(base);
                    below.places.push(vec![place]);
                }
            }
        }
        below
    }
}

/// Channels of the source below, each once.
#[derive(Default)]
struct Below {
    channels: Vec<usize>,
    /// Positions in the request where each of them is wanted, as it is or as an anomaly.
    places: Vec<Vec<usize>>,
}

impl PlaneSource for WithAnomalies {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn shape(&self) -> PlaneShape {
        self.inner.shape()
    }

    fn location(&self) -> Option<&Path> {
        self.inner.location()
    }

    fn read(&self, request: &PlaneRequest<'_>, sink: &dyn PlaneSink) -> Result<ReadCounts> {
        if request.channels.iter().all(|c| self.anomaly(*c).is_none()) {
            return self.inner.read(request, sink);
        }
        request.check(self)?;
        let below = self.below(request.channels);
        let asked = PlaneRequest {
            rows: request.rows,
            channels: &below.channels,
        };
        let deriving = Deriving {
            source: self,
            request,
            places: &below.places,
            sink,
        };
        let counts = self.inner.read(&asked, &deriving)?;
        let planes = request.planes() as u64;
        let left_out = asked.planes() as u64 - counts.planes.min(asked.planes() as u64);
        Ok(ReadCounts {
            planes: planes.saturating_sub(left_out),
            ..counts
        })
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> Result<u64> {
        request.check(self)?;
        let below = self.below(request.channels);
        self.inner.planned_chunks(&PlaneRequest {
            rows: request.rows,
            channels: &below.channels,
        })
    }
}

/// Takes planes of the source below, and fills what was asked for.
struct Deriving<'a> {
    source: &'a WithAnomalies,
    request: &'a PlaneRequest<'a>,
    /// [`Below::places`].
    places: &'a [Vec<usize>],
    sink: &'a dyn PlaneSink,
}

thread_local! {
    /// Planes that are wanted as anomalies: at most one chunk's, kept by the reader threads. Taken out
    /// while in use, because `fill` may come back here on the same thread.
    static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

impl Deriving<'_> {
    /// The planes of the request that these are, if they are all wanted as they are, each in one
    /// place, side by side.
    fn as_they_are(&self, planes: &Range<usize>) -> Option<Range<usize>> {
        let n = self.places.len();
        let mut each = planes.clone().map(|plane| {
            let (row, channel) = (plane / n, plane % n);
            match self.places[channel][..] {
                [place] if self.source.anomaly(self.request.channels[place]).is_none() => {
                    Some(row * self.request.channels.len() + place)
                }
                _ => None,
            }
        });
        let first = each.next()??;
        each.enumerate()
            .all(|(i, plane)| plane == Some(first + i + 1))
            .then(|| first..first + planes.len())
    }

    /// Fills every place where a plane of the source below is wanted.
    fn hand_on(&self, plane: usize, values: &[f32]) -> Result<()> {
        let n = self.places.len();
        let (position, row) = (plane / n, self.request.rows[plane / n]);
        for &place in &self.places[plane % n] {
            let wanted = position * self.request.channels.len() + place;
            let anomaly = self.source.anomaly(self.request.channels[place]);
            self.sink.fill(wanted..wanted + 1, &mut |memory| {
                match anomaly {
                    None => memory.copy_from_slice(values),
                    Some(anomaly) => {
                        let means = anomaly.climatology.of(row);
                        for ((out, value), mean) in memory.iter_mut().zip(values).zip(means) {
                            *out = value - mean;
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl PlaneSink for Deriving<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let asked = self.request.rows.len() * self.places.len();
        if planes.is_empty() || planes.end > asked {
            return Err(Error::new(
                ErrorKind::Interrupted,
                "a plane source filled a plane that was not asked for",
            )
            .expected(format!("some of 0..{asked}"))
            .found(format!("{planes:?}")));
        }
        if let Some(planes) = self.as_they_are(&planes) {
            return self.sink.fill(planes, fill);
        }
        let cells = self.source.shape().cells();
        let mut scratch = SCRATCH.take();
        scratch.resize(planes.len() * cells, 0.0);
        let outcome = fill(&mut scratch).and_then(|()| {
            let mut each = planes.zip(scratch.chunks_exact(cells));
            each.try_for_each(|(plane, values)| self.hand_on(plane, values))
        });
        SCRATCH.set(scratch);
        outcome
    }
}
