//! A source is held to its promise: every plane of a request, once.

use crate::dataset::channel_group::ChannelGroup;
use crate::error::{Error, Result};
use crate::ocean::plane::{PlaneRequest, PlaneSink};
use crate::plan::groups::ReadGroup;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sink of one request, and which planes have been filled. Costs two bits for each plane.
pub(crate) struct PromisedPlanes<'a> {
    sink: &'a dyn PlaneSink,
    group: ReadGroup,
    channels: &'a ChannelGroup,
    request: PlaneRequest<'a>,
    lent: PlaneSet,
    filled: PlaneSet,
}

impl<'a> PromisedPlanes<'a> {
    pub(crate) fn new(
        sink: &'a dyn PlaneSink,
        group: ReadGroup,
        channels: &'a ChannelGroup,
        request: PlaneRequest<'a>,
    ) -> Self {
        let planes = request.planes();
        Self {
            sink,
            group,
            channels,
            request,
            lent: PlaneSet::new(planes),
            filled: PlaneSet::new(planes),
        }
    }

    /// Sees that every plane was filled, after the source said that it had.
    ///
    /// # Errors
    /// One was not; names the first.
    pub(crate) fn kept(&self) -> Result<()> {
        let planes = self.request.planes();
        let missing = (0..planes).filter(|plane| !self.filled.has(*plane));
        let mut missing = missing.peekable();
        match missing.peek().copied() {
            None => Ok(()),
            Some(first) => Err(self
                .broken(
                    "a plane source did not fill a plane that it was asked for",
                    first,
                )
                .expected(format!("{planes} planes filled"))
                .found(planes - missing.count())),
        }
    }

    fn broken(&self, message: &str, plane: usize) -> Error {
        let n = self.request.channels.len();
        let group = self.group.name();
        let error = Error::config(format!("{message} ({group} planes)"))
            .array(self.channels.channel(plane % n).name())
            .row(self.request.rows[plane / n]);
        match self.channels.planes.location() {
            Some(store) => error.store(store),
            None => error,
        }
    }
}

impl PlaneSink for PromisedPlanes<'_> {
    fn fill(
        &self,
        planes: Range<usize>,
        fill: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let asked = self.request.planes();
        if planes.is_empty() || planes.end > asked {
            let group = self.group.name();
            return Err(Error::config(format!(
                "a plane source filled planes that it was not asked for ({group} planes)"
            ))
            .expected(format!("some of 0..{asked}"))
            .found(format!("{planes:?}")));
        }
        for plane in planes.clone() {
            if self.lent.add(plane) {
                return Err(self.broken("a plane source filled a plane twice", plane));
            }
        }
        self.sink.fill(planes.clone(), fill)?;
        for plane in planes {
            self.filled.add(plane);
        }
        Ok(())
    }
}

/// Planes of a request, added by many threads.
struct PlaneSet(Vec<AtomicU64>);

impl PlaneSet {
    /// None of `planes` yet.
    fn new(planes: usize) -> Self {
        Self(
            (0..planes.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// Adds a plane; whether it was there.
    fn add(&self, plane: usize) -> bool {
        let bit = 1 << (plane % 64);
        // What a plane holds becomes known with the end of the read, not by this.
        self.0[plane / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    fn has(&self, plane: usize) -> bool {
        self.0[plane / 64].load(Ordering::Relaxed) & 1 << (plane % 64) != 0
    }
}
