//! The channels of a read group in their source.

use crate::dataset::ocean::Ocean;
use crate::error::{Error, Result};
use crate::ocean::channel::Channel;
use crate::ocean::plane::PlaneSource;
use crate::plan::batch::GroupPlan;
use crate::prepare::arithmetic::ChannelConstants;
use std::borrow::Cow;
use std::sync::Arc;

/// Channels that are read together, and where they are read from.
#[derive(Clone)]
pub(crate) struct ChannelGroup {
    pub planes: Arc<dyn PlaneSource>,
    /// Positions in [`PlaneSource::channels`].
    pub positions: Vec<usize>,
    pub constants: Vec<ChannelConstants>,
    /// Row of `planes` = row of the input store + this: 0 but for labels with a store of their own.
    pub offset: isize,
}

impl ChannelGroup {
    pub(super) fn new(ocean: &Ocean, channels: &[Channel]) -> Result<Self> {
        let shape = ocean.planes.shape();
        let mut group = Self {
            planes: ocean.planes.clone(),
            positions: Vec::new(),
            constants: Vec::new(),
            offset: 0,
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

    /// The channel at a position in the group.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn channel(&self, position: usize) -> &Channel {
        &self.planes.channels()[self.positions[position]]
    }

    /// The first channel of each mask, by position in the group.
    pub(super) fn one_of_each_mask(&self) -> Vec<usize> {
        let mask = |position: &usize| &self.constants[*position].wet;
        let mut first: Vec<usize> = Vec::new();
        for position in 0..self.constants.len() {
            if !first
                .iter()
                .any(|known| Arc::ptr_eq(mask(known), mask(&position)))
            {
                first.push(position);
            }
        }
        first
    }

    /// Values in a row: every channel's plane.
    pub(crate) fn row_values(&self) -> usize {
        self.positions.len() * self.planes.shape().cells()
    }

    /// Rows of `planes` that carry the times of a planned group.
    ///
    /// # Errors
    /// A time before the first row.
    pub(crate) fn rows<'a>(&self, plan: &'a GroupPlan) -> Result<Cow<'a, [usize]>> {
        if self.offset == 0 {
            return Ok(Cow::Borrowed(&plan.rows));
        }
        let shifted = plan.rows.iter().map(|&row| {
            row.checked_add_signed(self.offset).ok_or_else(|| {
                Error::config("the label store lacks a time of the input store").row(row)
            })
        });
        shifted.collect::<Result<Vec<_>>>().map(Cow::Owned)
    }
}
