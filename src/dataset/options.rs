//! What a training sample is made of, as the user says it.

use crate::error::{Error, Result};
use crate::ocean::calendar::DateRange;
use crate::ocean::channel::{Channel, check_channels};
use crate::ocean::time::DEFAULT_GAP_FACTOR;
use crate::options::{DeriveOptions, ReadMethod, StoreLimits, Strictness};
use crate::plan::batch::Inputs;
use crate::plan::window::WindowOptions;
use crate::prepare::arithmetic::MaskOrder;
use serde::{Deserialize, Serialize};

/// What a training sample is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DatasetOptions {
    /// Channels that the model predicts, in this order.
    pub prognostic: Vec<Channel>,
    /// Channels that are given at every step, in this order.
    pub boundary: Vec<Channel>,
    /// Shape and spacing of the windows.
    #[serde(default)]
    pub window: WindowOptions,
    /// Days to use, both ends included; all by default.
    #[serde(default)]
    pub time: Option<DateRange>,
    /// Whether normalising or masking comes first.
    #[serde(default)]
    pub mask_order: MaskOrder,
    /// Value of land; normalised afterwards when masking comes first. Default 0.
    #[serde(default)]
    pub masked_fill_value: f32,
    /// Which rollout steps get an input of their own.
    #[serde(default)]
    pub inputs: Inputs,
    /// A step longer than this many median steps is a gap, which no window crosses. Default 1.5.
    #[serde(default = "default_gap_factor")]
    pub gap_factor: f64,
    /// What to do about missing chunks, unusable statistics, and values that would spoil a training.
    #[serde(default)]
    pub strictness: Strictness,
    /// Share of a plane's wet cells that may be NaN, 0 to 1: above it reading is an error, unless the
    /// data set is lenient. Default 0.25: what a store lacks here and there is said and set to the
    /// mean, but a mask that is inverted, or another store's, is refused.
    #[serde(default = "default_max_nan_share")]
    pub max_nan_share: f64,
    /// By which system calls chunks are read.
    #[serde(default)]
    pub io: ReadMethod,
    /// How channels are derived that the store lacks (`hfds_anomalies`).
    #[serde(default)]
    pub derive: DeriveOptions,
    /// How much memory a store's own numbers may ask for.
    #[serde(default)]
    pub limits: StoreLimits,
    /// Name of the time dimension and of its coordinate; `None` (the default) is `time`.
    #[serde(default)]
    pub time_name: Option<String>,
}

fn default_gap_factor() -> f64 {
    DEFAULT_GAP_FACTOR
}

const fn default_max_nan_share() -> f64 {
    0.25
}

impl DatasetOptions {
    /// Defaults for the given channels: history 1, one step, all times, strict.
    pub fn new(prognostic: Vec<Channel>, boundary: Vec<Channel>) -> Self {
        Self {
            prognostic,
            boundary,
            window: WindowOptions::default(),
            time: None,
            mask_order: MaskOrder::default(),
            masked_fill_value: 0.0,
            inputs: Inputs::default(),
            gap_factor: DEFAULT_GAP_FACTOR,
            strictness: Strictness::default(),
            max_nan_share: default_max_nan_share(),
            io: ReadMethod::default(),
            derive: DeriveOptions::default(),
            limits: StoreLimits::default(),
            time_name: None,
        }
    }

    /// Sets the windows.
    pub fn with_window(mut self, window: WindowOptions) -> Self {
        self.window = window;
        self
    }

    /// Uses only the days of `time`, both ends included.
    pub fn with_time(mut self, time: DateRange) -> Self {
        self.time = Some(time);
        self
    }

    /// Sets the order of normalising and masking.
    pub fn with_mask_order(mut self, order: MaskOrder) -> Self {
        self.mask_order = order;
        self
    }

    /// Sets the value of land.
    pub fn with_masked_fill_value(mut self, value: f32) -> Self {
        self.masked_fill_value = value;
        self
    }

    /// Chooses which rollout steps get an input of their own.
    pub fn with_inputs(mut self, inputs: Inputs) -> Self {
        self.inputs = inputs;
        self
    }

    /// Sets what to do about missing chunks, unusable statistics, and values that would spoil a
    /// training.
    pub fn with_strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// Sets the share of a plane's wet cells that may be NaN, 0 to 1.
    pub fn with_max_nan_share(mut self, share: f64) -> Self {
        self.max_nan_share = share;
        self
    }

    /// Chooses by which system calls chunks are read.
    pub fn with_io(mut self, io: ReadMethod) -> Self {
        self.io = io;
        self
    }

    /// Sets how channels are derived that the store lacks.
    pub fn with_derive(mut self, derive: DeriveOptions) -> Self {
        self.derive = derive;
        self
    }

    /// Sets how much memory a store's own numbers may ask for.
    pub fn with_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the name of the time axis, where it is not `time`.
    pub fn with_time_name(mut self, name: impl Into<String>) -> Self {
        self.time_name = Some(name.into());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_channels(&self.prognostic)?;
        check_channels(&self.boundary)?;
        self.window.validate()?;
        if self.gap_factor.is_nan() || self.gap_factor < 1.0 {
            return Err(
                Error::config("a gap is longer than a step of the time axis")
                    .expected("a gap factor of at least 1")
                    .found(self.gap_factor),
            );
        }
        if !(0.0..=1.0).contains(&self.max_nan_share) {
            return Err(Error::config("the share of NaN is a share of wet cells")
                .expected("0 to 1")
                .found(self.max_nan_share));
        }
        if !self.masked_fill_value.is_finite() {
            return Err(
                Error::config("the masked fill value must be finite").found(self.masked_fill_value)
            );
        }
        Ok(())
    }

    pub(crate) fn wanted(&self) -> Vec<Channel> {
        let mut wanted = self.prognostic.clone();
        for channel in &self.boundary {
            if !wanted.contains(channel) {
                wanted.push(channel.clone());
            }
        }
        wanted
    }
}
