//! The Samudra ocean emulators (m2lines) as Burn modules.
//!
//! A Samudra network maps the ocean at `history + 1` times, and what drives it (wind, heat), to the
//! ocean at the `history + 1` times after. It is a U-Net of convolutions that know the globe: rows
//! close on themselves, and beyond the poles there are zeros. Networks, losses and recipe are
//! numerically those of the PyTorch originals, and their weights load.
//!
//! ```text
//!  prognostic  (batch, (history+1) P, y, x) +
//!  boundary    (batch, (history+1) B, y, x) +--> channels together
//!  positional, coordinates (optional) ------+          |
//!                                                      v
//!  level 0   block d0 ---------------------- + -> block d1 --> decoder 3x3 --> land = 0 --> next
//!              | half                        ^ twice                                      state
//!  level 1   block d1 ---------------- + -> block d1
//!              | half                  ^ twice
//!  level 2   block d2 ---------- + -> block d2
//!              | half            ^ twice
//!  level 3   block d3 ---- + -> block d3
//!              | half      ^ twice
//!  level 4   block d3 -----+
//! ```
//!
//! `block` is two dilated 3 x 3 convolutions with norm and capped GELU, in a space `upscale_factor`
//! times wider than its input, with a way around; `half` is a mean over 2 x 2 cells, `twice` is
//! bilinear, `+` adds what went around. Dilations d0 to d3 are 1, 2, 4, 8 in every preset.
//!
//! SamudraMini ([`SamudraConfig::mini`]) has a Perceiver in the U-Net's place: learned latents that
//! attend to all cells, and cells that ask them.
//!
//! # Use
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use samudra::{Grid, SamudraConfig};
//!
//! let device = Device::flex();
//! let network = SamudraConfig::tiny(2, 1).init(&Grid::new(6, 8), 15, &device)?;
//! let state = Tensor::ones([1, 4, 6, 8], &device);
//! let boundary = Tensor::ones([1, 2, 6, 8], &device);
//! let mask = Tensor::<3>::ones([4, 6, 8], &device).bool();
//! let next = network.forward(state, boundary, mask);
//! assert_eq!(next.dims(), [1, 4, 6, 8]);
//! # Ok::<(), samudra::Error>(())
//! ```
//!
//! To train: [`Samudra::rollout_loss`] gives a [`Loss`], [`clip_total_norm`] bounds the gradients,
//! [`Ema`] follows the parameters, [`Schedule`] sets the rate, and [`DynamicWeights`] keeps
//! the variables in balance. To predict: [`Rollout`] or [`Samudra::rollout`]. Weights:
//! [`StateDict`] and [`Samudra::load_weights`].
//!
//! # Differences from the originals
//!
//! - Everything is computed in float32; see [`Precision`].
//! - Recomputation in the backward pass ("checkpointing") is not done. In the original it makes
//!   batch norm's running statistics follow each training batch twice.
//! - Drop path, layer norm, transposed convolutions and max pooling, which no preset uses, are not
//!   built.

#![warn(missing_docs)]

mod block;
mod clip;
mod config;
mod conv;
mod cosine;
mod cpu;
mod ema;
mod error;
mod grid;
mod init;
mod loss;
mod metric;
mod norm;
mod pad;
mod perceiver;
mod python_config;
mod rollout;
mod samudra;
mod schedule;
mod state_walk;
mod unet;
mod upsample;
mod weights;

pub use clip::clip_total_norm;
pub use config::{
    CoordinateChannels, NormKind, PerceiverConfig, PointwiseKind, Precision, Prediction,
    SamudraConfig, UpsampleKind,
};
pub use cosine::CosineSchedule;
pub use cpu::keep_freed_memory;
pub use ema::Ema;
pub use error::{Error, Result, ShapeMismatch, WeightMismatch};
pub use grid::Grid;
pub use loss::{Composed, DynamicWeights, Loss, RolloutLoss, RolloutStep};
pub use metric::Metric;
pub use python_config::{OriginalBlock, OriginalModel, OriginalPerceiver, OriginalUNet};
pub use rollout::Rollout;
pub use samudra::{NamedParameter, Samudra};
pub use schedule::Schedule;
pub use weights::StateDict;
