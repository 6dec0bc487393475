//! Training of Samudra ocean emulators: from an OM4 Zarr store to a scored forecast.
//!
//! This is the program behind `cargo run --release --example samudra_train`, as a library. Data come
//! from [`burn_om4`], networks and losses from [`samudra`]; what is here joins them.
//!
//! ```text
//!  options --> data --------> epochs ----------------------------> weights
//!  (command    (loaders to    (trainer: one optimiser step         report
//!   line)       train and      score: RMSE beside persistence      (JSON and a table)
//!               to validate)   checkpoint: everything to go on)    pictures
//!               network                                            (maps and curves)
//!               (fitted to the grid)
//! ```
//!
//! [`run::run`] does all of it in order; [`command::main`] is the program. The parts also serve alone:
//! [`trainer::Trainer`] takes steps on any [`ModelBatch`](burn_om4::ModelBatch), [`score`] compares any
//! network with persistence, [`demo`] writes a small ocean that can be learned in minutes.
//!
//! ```
//! use burn::data::dataloader::DataLoader;
//! use burn::tensor::Device;
//! use burn_om4::{DatasetOptions, OceanDataset, OceanLoader, Om4Paths, parse_channels};
//! use samudra_training::network::{Size, config, grid};
//! use samudra_training::trainer::Trainer;
//! # let store = tempfile::tempdir()?;
//! # burn_om4::synth::SynthOptions::new(8, 16).with_levels(1).with_rows(12).write(store.path())?;
//!
//! let channels = DatasetOptions::new(parse_channels("thetao_0,zos")?, parse_channels("hfds")?);
//! let dataset = OceanDataset::open(&Om4Paths::in_dir(store.path()), &channels)?;
//! let context = dataset.context(0).clone();
//! let device = Device::flex();
//! let loader = OceanLoader::builder(dataset).batch_size(2).shuffle(0).build(&device)?;
//!
//! let network = config(Size::Tiny, &context).init(&grid(context.grid()), 15, &device.autodiff())?;
//! let mut trainer = Trainer::new(network, 5e-3, 2);
//! for batch in loader.iter().take(2) {
//!     assert!(trainer.step(&batch?)? > 0.0);
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Processes exchange no gradients: each of several [`ranks`] trains a network of its own on its share of
//! the batches. Everything is computed in float32.

#![warn(missing_docs)]

mod before;
mod blame;
pub mod checkpoint;
pub mod command;
pub mod config;
pub mod data;
pub mod demo;
pub mod epochs;
mod facts;
mod files;
mod floats;
mod found;
pub mod network;
pub mod optimiser;
pub mod options;
pub mod output;
pub mod pictures;
pub mod plots;
mod progress;
pub mod ranks;
pub mod report;
pub mod run;
pub mod score;
pub mod signals;
pub mod trainer;
