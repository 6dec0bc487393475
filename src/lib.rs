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
//!     .with_window(WindowSpec::default().with_history(1).with_steps(2));
//! let dataset = OceanDataset::open(&Om4Paths::in_dir(dir), &options)?;
//! let spec = ScheduleSpec { batch_size: 3, ..Default::default() };
//! let schedule = Schedule::new(spec, dataset.groups())?;
//! let device = DeviceChoice::Cpu.open()?;
//! let batcher = OceanBatcher::new(dataset);
//! let loader = OceanLoader::new(batcher, schedule, Prefetch::default(), &device)?;
//! for batch in loader.iter() {
//!     let batch = batch?;
//!     assert_eq!(batch.input(0)?.dims()[1..], [2 * 2, 6, 12]);
//!     assert_eq!(batch.boundary(1).dims()[1..], [2 * 1, 6, 12]);
//!     assert_eq!(batch.label(1).dims()[1..], [2 * 2, 6, 12]);
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Anything else that holds planes can take the place of a store by implementing [`PlaneSource`].
//!
//! Every failure is an [`Error`] that names store, array, chunk and time row. The crate does not
//! panic on what users or stores give it; where a Burn trait leaves no other way out, its method says
//! so.

#![warn(missing_docs)]

mod augment;
#[cfg(doctest)]
mod book;
mod dataset;
mod device;
mod error;
mod host;
mod loader;
mod observe;
mod ocean;
mod open;
mod open_files;
mod options;
mod order;
mod plan;
mod prepare;
mod store;
mod sync;
pub mod synth;
pub mod testing;
mod threads;
mod zarr;

pub use crate::augment::mirror::EquatorMirror;
pub use crate::augment::noise::Noise;
pub use crate::augment::transform::Transform;
pub use crate::dataset::ocean::{Ocean, OceanChannel};
pub use crate::dataset::ocean_dataset::{BatchContext, DatasetOptions, OceanDataset, OceanPair};
pub use crate::device::batch::{ModelBatch, Role};
pub use crate::device::choice::{DeviceChoice, is_cpu};
pub use crate::device::operations::DevicePreparation;
#[cfg(feature = "cuda")]
pub use crate::host::pool::PageLockedMemory;
pub use crate::host::pool::{
    HOST_ALIGN, HostAllocator, HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory,
};
pub use crate::host::sink::{Gathered, HostPlanes, PreparedTensors};
pub use crate::loader::batcher::OceanBatcher;
pub use crate::loader::ocean_loader::OceanLoader;
pub use crate::loader::prefetch::{Prefetch, PrefetchTo};
pub use crate::observe::counters::{LoaderCounters, Waits};
pub use crate::observe::timeline::Timeline;
pub use crate::ocean::calendar::{Calendar, Date, DateRange, DateTime};
pub use crate::ocean::channel::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use crate::ocean::grid::{AreaSource, CellAreaWeights, Coordinate, Grid};
pub use crate::ocean::mask::WetMask;
pub use crate::ocean::plane::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use crate::ocean::time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
pub use crate::open::{Om4Paths, Om4Source};
pub use crate::options::ReadMethod;
pub use crate::options::Strictness;
pub use crate::order::fingerprint::{Fingerprint, FingerprintBuilder, FingerprintPart};
pub use crate::order::groups::{GroupOrder, Groups};
pub use crate::order::pick::Pick;
pub use crate::order::schedule::{Batches, Epoch, Schedule};
pub use crate::order::spec::{Order, ScheduleSpec, Shard};
pub use crate::order::state::{LoaderState, Position};
pub use crate::plan::batch::{BatchPlan, Gather, GroupPlan, Inputs, Labels};
pub use crate::plan::window::{Window, WindowSpec, inference_starts};
pub use crate::prepare::arithmetic::{ChannelConstants, MaskOrder, Preparation};
pub use crate::prepare::path::DevicePath;
pub use crate::prepare::precision::Precision;
pub use crate::prepare::transfer::Transfer;
pub use crate::store::masks::WetMasks;
pub use crate::store::om4_store::{MaskReport, Store};
pub use crate::store::options::OpenOptions;
pub use crate::store::statistics::{ChannelStats, Statistics};
pub use crate::store::tasks::{ArrayLayout, ChannelSlot, PlannedPlane, ReadTask, read_tasks};
pub use crate::threads::{READERS_VARIABLE, reader_threads, set_reader_threads};
pub use crate::zarr::metadata::ZarrFormat;
pub use error::{Error, ErrorKind, Result};
