//! Ocean data for [Burn](https://burn.dev): OM4 Zarr stores in, batches for ocean emulators out.
//!
//! ```text
//!  order ─────▶ plan ──────▶ store ─────▶ host ──────▶ device ─────▶ loader ─────▶ the model
//!  which        which        planes       leased       upload,       one batch     ModelBatch:
//!  windows,     planes,      read and     memory,      normalise,    ahead, in     input, boundary,
//!  by seed      each once    decoded      filled once  mask, gather  order         label per step
//! ```
//!
//! A *plane* is one `(y, x)` field of one channel at one time. A *window* is a training sample: rows
//! of the time axis that make inputs and labels of an autoregressive rollout. A batch of windows
//! shows most of its planes several times; each is read, decoded, normalised and masked once.
//!
//! Modules are the stages of the data, and folders of the source bear the same names:
//!
//! | stage | what happens there | start at |
//! |---|---|---|
//! | [`ocean`] | the vocabulary: channels, time, grid, masks, planes | [`ocean::PlaneSource`] |
//! | [`order`] | which windows make batch k of epoch e | [`Schedule`] |
//! | [`plan`] | which planes a batch needs, and where each goes | [`plan::BatchPlan`] |
//! | [`prepare`] | the arithmetic: normalise, mask, round | [`prepare::Preparation`] |
//! | [`store`] | an OM4 store opened, checked, read | [`store::Store`] |
//! | [`survey`] | a store as a whole: statistics, what it is, what is wrong with it | [`survey::Examination`] |
//! | [`dataset`] | windows over one or several sources | [`OceanDataset`] |
//! | [`host`] | page-locked or ordinary memory, leased and returned | [`host::HostPool`] |
//! | [`device`] | upload, kernel, tensors | [`ModelBatch`] |
//! | [`augment`] | batches changed on their device, by keys | [`augment::Transform`] |
//! | [`loader`] | passes ahead of the model, exact resume | [`OceanLoader`] |
//! | [`observe`] | counters, waits, a timeline | [`LoaderCounters`] |
//!
//! What a training program names is re-exported here; all else is found under its stage.
//!
//! ```
//! # use burn_om4::synth::SynthOptions;
//! # let temp = tempfile::tempdir()?;
//! # let dir = temp.path();
//! # SynthOptions::new(6, 12).with_levels(2).with_rows(12).write(dir)?;
//! use burn::data::dataloader::DataLoader;
//! use burn_om4::*;
//!
//! let options = DatasetOptions::new(parse_channels("thetao_0, zos")?, parse_channels("hfds")?)
//!     .with_window(WindowOptions::default().with_history(1).with_steps(2));
//! let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options)?;
//! let device = DeviceChoice::Cpu.open()?;
//! let loader = OceanLoader::builder(dataset).batch_size(3).shuffle(15).build(&device)?;
//! for batch in loader.iter() {
//!     let batch = batch?;
//!     assert_eq!(batch.input(0)?.dims()[1..], [2 * 2, 6, 12]);
//!     assert_eq!(batch.boundary(1).dims()[1..], [2 * 1, 6, 12]);
//!     assert_eq!(batch.label(1).dims()[1..], [2 * 2, 6, 12]);
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! [`OceanDataset`] is a Burn `Dataset` of windows, [`OceanBatcher`] a `Batcher`, [`OceanLoader`] a
//! `DataLoader`: each works with Burn's own counterparts, and says what those cannot promise. Anything
//! else that holds planes takes the place of a store by implementing [`ocean::PlaneSource`].
//!
//! Every failure is an [`Error`] that names store, array, chunk and time row. The crate does not
//! panic on what users or stores give it; where a Burn trait leaves no other way out, its method says
//! so.

#![warn(missing_docs)]

pub mod augment;
#[cfg(doctest)]
mod book;
pub mod dataset;
mod derive;
pub mod device;
mod error;
pub mod host;
pub mod loader;
pub mod observe;
pub mod ocean;
mod open;
mod open_files;
mod options;
pub mod order;
pub mod plan;
pub mod prepare;
// Public through `synth`.
#[cfg_attr(not(feature = "synth"), allow(unreachable_pub))]
mod splitmix;
pub mod store;
pub mod survey;
mod sync;
#[cfg(feature = "synth")]
pub mod synth;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod zarr;

// What a training program names; all else is found under its stage.
pub use dataset::{BatchContext, DatasetOptions, OceanDataset};
pub use device::{DeviceChoice, ModelBatch};
pub use error::{Error, ErrorKind, Result};
pub use loader::{OceanBatcher, OceanLoader, PrefetchOptions, PrefetchTo};
pub use observe::{LoaderCounters, Timeline};
pub use ocean::{Channel, Date, DateRange, PRESETS, parse_channels, preset};
pub use open::{Om4Paths, Om4Source};
pub use options::{DeriveOptions, DeriveProgress, ReadMethod, StoreLimits, Strictness};
pub use order::{LoaderState, Order, Schedule, ScheduleOptions};
pub use plan::{Inputs, Role, Window, WindowOptions};
pub use prepare::{MaskOrder, Precision, Transfer};
