//! What the numbers of a batch mean: names, units, statistics, masks, grid and time.

use crate::ocean::channel::Channel;
use crate::ocean::grid::Grid;
use crate::ocean::mask::WetMask;
use crate::ocean::plane::PlaneShape;
use crate::ocean::time::TimeAxis;
use crate::plan::roles::{PerRole, Role};
use crate::plan::window::WindowOptions;
use crate::prepare::arithmetic::{ChannelConstants, Preparation};
use std::sync::Arc;

/// What the numbers of a batch mean: names, units, grid, time.
pub struct BatchContext {
    pub(super) prognostic: Vec<Channel>,
    pub(super) boundary: Vec<Channel>,
    pub(super) units: Vec<Option<String>>,
    /// Mean, deviation and mask of each channel of each kind of tensor.
    pub(super) constants: PerRole<Vec<ChannelConstants>>,
    pub(super) surface: Arc<WetMask>,
    pub(super) window: WindowOptions,
    pub(super) preparation: Preparation,
    pub(super) own_labels: bool,
    pub(super) grid: Arc<Grid>,
    pub(super) label_grid: Arc<Grid>,
    pub(super) shape: PlaneShape,
    pub(super) label_shape: PlaneShape,
    pub(super) time: TimeAxis,
}

impl BatchContext {
    /// Prognostic channels: with history h, channel c at time j of an input or label stands at
    /// position `j * prognostic().len() + c` of the channel axis.
    pub fn prognostic(&self) -> &[Channel] {
        &self.prognostic
    }

    /// Boundary channels; positions as for [`prognostic`](Self::prognostic).
    pub fn boundary(&self) -> &[Channel] {
        &self.boundary
    }

    /// Channels of a kind of tensor; positions as for [`prognostic`](Self::prognostic).
    pub fn channels(&self, role: Role) -> &[Channel] {
        match role {
            Role::Input | Role::Label => &self.prognostic,
            Role::Boundary => &self.boundary,
        }
    }

    /// Mean, standard deviation and wet mask `(y, x)` of each of [`channels`](Self::channels). A value
    /// x in the ocean is `x * std + mean` in the channel's unit.
    pub fn constants_of(&self, role: Role) -> &[ChannelConstants] {
        self.constants.of(role)
    }

    /// Position of a prognostic channel in the list, by its name.
    pub fn prognostic_position(&self, name: &str) -> Option<usize> {
        self.prognostic.iter().position(|c| c.name() == name)
    }

    /// Unit of a prognostic channel by its position in the list, where the store states one.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn unit(&self, channel: usize) -> Option<&str> {
        self.units[channel].as_deref()
    }

    /// Mean, standard deviation and wet mask `(y, x)` of a prognostic channel by its position in
    /// the list (the label store's). A value x of a label is `x * std + mean` in the channel's
    /// unit.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn constants(&self, channel: usize) -> &ChannelConstants {
        &self.constants.label[channel]
    }

    /// Mean and standard deviation of a boundary channel; its mask is the surface's.
    pub fn boundary_constants(&self, channel: usize) -> &ChannelConstants {
        &self.constants.boundary[channel]
    }

    /// Wet mask of the surface of the input grid.
    pub fn surface(&self) -> &Arc<WetMask> {
        &self.surface
    }

    /// Shape of the windows.
    pub fn window(&self) -> &WindowOptions {
        &self.window
    }

    /// How planes were normalised and masked.
    pub fn preparation(&self) -> Preparation {
        self.preparation
    }

    /// Whether labels come from a store of their own.
    pub fn has_own_labels(&self) -> bool {
        self.own_labels
    }

    /// Grid of inputs and boundaries.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Grid of labels; the same unless labels come from a store of their own.
    pub fn label_grid(&self) -> &Grid {
        &self.label_grid
    }

    /// Extent of inputs and boundaries.
    pub fn shape(&self) -> PlaneShape {
        self.shape
    }

    /// Extent of labels.
    pub fn label_shape(&self) -> PlaneShape {
        self.label_shape
    }

    /// Time axis of the input store; [`Window`](crate::Window)s count its rows.
    pub fn time(&self) -> &TimeAxis {
        &self.time
    }
}

impl std::fmt::Debug for BatchContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchContext")
            .field("prognostic", &self.prognostic)
            .field("boundary", &self.boundary)
            .field("window", &self.window)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
