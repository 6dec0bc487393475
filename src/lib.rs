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

mod arrange;
mod array;
mod augment;
mod batch;
mod batcher;
mod blosc;
#[cfg(doctest)]
mod book;
mod calendar;
mod carry;
mod claims;
mod codec;
mod conformance;
mod counters;
mod cpython_random;
mod dataset;
mod device;
mod dims;
mod error;
mod fingerprint;
mod grid;
mod group;
mod groups;
mod host;
mod host_batch;
#[cfg(feature = "cube")]
mod kernel;
mod keys;
mod lane;
mod loader;
mod local;
mod lz4;
mod mask;
mod mirror;
mod naming;
mod noise;
mod numbers;
mod ocean;
mod options;
mod pass;
mod permutation;
mod place;
mod plan;
mod pool;
mod precision;
mod prefetch;
mod prepare;
mod queue;
mod read;
mod reader;
mod readers;
mod samudra_order;
mod schedule;
mod schema;
mod shard;
mod sink;
mod slots;
mod sources;
mod split;
mod state;
mod stats;
mod store;
mod sync;
pub mod synth;
pub mod testing;
mod time;
mod trace;
mod transfer;
#[cfg(feature = "cube")]
mod upload;
mod window;

pub use augment::{Pick, Transform};
pub use batch::{ModelBatch, Role};
pub use batcher::OceanBatcher;
pub use calendar::{Calendar, Date, DateRange, DateTime};
pub use counters::{LoaderCounters, Waits};
pub use dataset::{BatchContext, DatasetOptions, OceanDataset, OceanPair};
pub use device::{DeviceChoice, is_cpu};
pub use error::{Error, ErrorKind, Result};
pub use grid::{AreaSource, CellAreaWeights, Coordinate, Grid};
pub use group::ZarrFormat;
pub use groups::{GroupOrder, Groups};
#[cfg(feature = "cuda")]
pub use host::PageLockedMemory;
pub use host::{
    HOST_ALIGN, HostAllocator, HostLease, HostPool, HostPoolOptions, HostPoolState, OrdinaryMemory,
};
pub use lane::DevicePath;
pub use loader::OceanLoader;
pub use mask::{WetMask, WetMasks};
pub use mirror::EquatorMirror;
pub use noise::Noise;
pub use ocean::{Ocean, OceanChannel, Om4Paths};
pub use options::{OpenOptions, ReadMethod, Strictness};
pub use plan::{
    ArrayLayout, BatchPlan, ChannelSlot, Gather, GroupPlan, Inputs, Labels, PlannedPlane, ReadTask,
    read_tasks,
};
pub use pool::{READERS_VARIABLE, reader_threads, set_reader_threads};
pub use precision::Precision;
pub use prefetch::{Prefetch, PrefetchTo};
pub use prepare::{ChannelConstants, DevicePreparation, MaskOrder, Preparation};
pub use read::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts};
pub use schedule::{Batches, Epoch, Order, Schedule, ScheduleSpec, Shard};
pub use schema::{Channel, DEPTHS, PRESETS, THICKNESSES, parse_channels, preset};
pub use sink::{Gathered, HostPlanes, PreparedTensors};
pub use sources::Om4Source;
pub use state::{Fingerprint, FingerprintBuilder, FingerprintPart, LoaderState, Position};
pub use stats::{ChannelStats, Statistics};
pub use store::{MaskReport, Store};
pub use time::{DEFAULT_GAP_FACTOR, TimeAxis, TimeValues};
pub use trace::Timeline;
pub use transfer::Transfer;
pub use window::{Window, WindowSpec, inference_starts};
