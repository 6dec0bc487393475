//! Ocean data for [Burn](https://burn.dev): OM4 Zarr stores in, batches for ocean emulators out.
//!
//! ```text
//!  schedule ──▶ window ──▶ plan ──▶ store, reader ──▶ host ──▶ device ──▶ batch ──▶ the model
//!  which        which      unique   planes, decoded   leased   normalise  input, boundary,
//!  windows      rows       planes   in parallel       memory   and mask   label per step
//! ```
//!
//! A *plane* is one `(y, x)` field of one channel at one time. A *window* is a training sample: rows
//! of the time axis that make inputs and labels of an autoregressive rollout. A batch of windows
//! shows most of its planes several times; each is read, decoded, normalised and masked once.
//!
//! * [`OceanDataset`] opens stores and lays windows over them; it is a Burn `Dataset`.
//! * [`OceanBatcher`] plans, reads and prepares a batch; it is a Burn `Batcher`.
//! * [`OceanLoader`] does so ahead of the model, in the order of a [`Schedule`]; it is a Burn
//!   `DataLoader`.
//! * [`ModelBatch`] is what the model gets: `(batch, time*channel, y, x)`, float32.
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
//! let spec = ScheduleOptions::default().with_batch_size(3);
//! let schedule = Schedule::new(spec, dataset.groups())?;
//! let device = DeviceChoice::Cpu.open()?;
//! let batcher = OceanBatcher::new(dataset);
//! let loader = OceanLoader::new(batcher, schedule, PrefetchOptions::default(), &device)?;
//! for batch in loader.iter() {
//!     let batch = batch?;
//!     assert_eq!(batch.input(0)?.dims()[1..], [2 * 2, 6, 12]);
//!     assert_eq!(batch.boundary(1).dims()[1..], [2 * 1, 6, 12]);
//!     assert_eq!(batch.label(1).dims()[1..], [2 * 2, 6, 12]);
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Anything else that holds planes can take the place of a store by implementing [`PlaneSource`](ocean::PlaneSource).
//!
//! Every failure is an [`Error`] that names store, array, chunk and time row. The crate does not
//! panic on what users or stores give it; where a Burn trait leaves no other way out, its method says
//! so.

#![warn(missing_docs)]

pub mod augment;
#[cfg(doctest)]
mod book;
pub mod dataset;
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
pub mod store;
mod sync;
pub mod synth;
pub mod testing;
mod threads;
mod zarr;

// What a training program names; all else is found under its stage.
pub use dataset::{BatchContext, DatasetOptions, OceanDataset};
pub use device::{DeviceChoice, ModelBatch, Role};
pub use error::{Error, ErrorKind, Result};
pub use loader::{OceanBatcher, OceanLoader, PrefetchOptions, PrefetchTo};
pub use observe::{LoaderCounters, Timeline};
pub use ocean::{Channel, Date, DateRange, PRESETS, parse_channels, preset};
pub use open::{Om4Paths, Om4Source};
pub use options::{ReadMethod, Strictness};
pub use order::{LoaderState, Order, Schedule, ScheduleOptions};
pub use plan::{Inputs, Window, WindowOptions};
pub use prepare::{MaskOrder, Precision, Transfer};
