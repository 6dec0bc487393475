//! What a configuration reads and holds: counted from metadata, nothing is read.

use crate::output::{self, Verdict};
use anyhow::{Result, bail};
use burn_om4::ocean::{PlaneRequest, PlaneSource};
use burn_om4::plan::BatchPlan;
use burn_om4::store::{OpenOptions, Store};
use burn_om4::{
    Channel, DatasetOptions, OceanDataset, Om4Paths, Order, PrefetchOptions, Schedule,
    ScheduleOptions, Strictness, WindowOptions, parse_channels,
};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Copy, ValueEnum)]
enum Visit {
    Sequential,
    Shuffled,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Folder with OM4.zarr, OM4_means.zarr and OM4_stds.zarr.
    #[arg(long)]
    data: PathBuf,
    /// Predicted channels: a preset or names.
    #[arg(long, default_value = "thermo_dynamic_all")]
    prognostic: String,
    /// Given channels: a preset or names.
    #[arg(long, default_value = "tau_hfds")]
    boundary: String,
    #[arg(long, default_value_t = 1)]
    history: usize,
    #[arg(long, default_value_t = 4)]
    steps: usize,
    #[arg(long, default_value_t = 1)]
    stride: usize,
    #[arg(long, default_value_t = 4)]
    batch: usize,
    #[arg(long, value_enum, default_value_t = Visit::Shuffled)]
    order: Visit,
    /// Batches read ahead.
    #[arg(long, default_value_t = 2)]
    prefetch: usize,
    /// Take missing chunks and statistics that cannot normalise for what the original took them for.
    #[arg(long)]
    lenient: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let prognostic = parse_channels(&options.prognostic)?;
    let boundary = parse_channels(&options.boundary)?;
    let window = WindowOptions::default()
        .with_history(options.history)
        .with_steps(options.steps)
        .with_stride(options.stride);
    let strictness = match options.lenient {
        true => Strictness::Lenient,
        false => Strictness::Strict,
    };
    let dataset_options = DatasetOptions::new(prognostic.clone(), boundary.clone())
        .with_window(window)
        .with_strictness(strictness);
    let paths = Om4Paths::in_dir(&options.data);
    let dataset = OceanDataset::open(&paths, &dataset_options)?;
    let every: Vec<Channel> = prognostic.iter().chain(&boundary).cloned().collect();
    let opening = OpenOptions::default()
        .with_channels(every)
        .with_strictness(strictness);
    let store = Store::open(&paths.data, &opening)?;
    let spec = ScheduleOptions::default()
        .with_order(match options.order {
            Visit::Sequential => Order::Sequential,
            Visit::Shuffled => Order::Shuffled,
        })
        .with_batch_size(options.batch);
    let schedule = Schedule::new(spec, dataset.groups())?;
    let epoch = schedule.epoch(0);
    if epoch.is_empty() {
        bail!("no batch fits");
    }
    let positions = [store.positions(&prognostic)?, store.positions(&boundary)?];
    let mut counts = Counts::default();
    for batch in 0..epoch.len() {
        let windows = epoch.batch(batch);
        let windows = windows.iter().filter_map(|&i| dataset.window(i as usize));
        let plan = dataset.plan(&windows.collect::<Vec<_>>())?;
        counts.add(&plan, &store, &positions)?;
    }
    let plane = dataset.context(0).shape();
    let plane_bytes = (plane.cells() * size_of::<f32>()) as u64;
    let prefetch = PrefetchOptions::default().with_batches(options.prefetch);
    let mut report = counts.report(dataset.windows(), epoch.len(), plane_bytes, &prefetch);
    report.warnings = store.warnings().to_vec();
    output::warn(&report.warnings);
    match options.json {
        true => output::print_json(&report)?,
        false => output::print(&report.text())?,
    }
    Ok(Verdict::Clean)
}

/// Sums over the batches of an epoch.
#[derive(Default)]
struct Counts {
    unique_planes: u64,
    shown_planes: u64,
    chunks: u64,
    /// Planes that the largest batch shows.
    largest: u64,
    /// How often each prognostic row is read.
    uses: BTreeMap<usize, u64>,
}

impl Counts {
    /// `positions` are those of the prognostic and of the boundary channels in the store.
    fn add(&mut self, plan: &BatchPlan, store: &Store, positions: &[Vec<usize>; 2]) -> Result<()> {
        self.unique_planes += plan.unique_planes() as u64;
        let shown = plan.touched_planes() as u64;
        self.shown_planes += shown;
        self.largest = self.largest.max(shown);
        for (group, channels) in [&plan.groups.prognostic, &plan.groups.boundary]
            .iter()
            .zip(positions)
        {
            let rows = &group.rows;
            self.chunks += store.planned_chunks(&PlaneRequest { rows, channels })?;
        }
        for &row in &plan.groups.prognostic.rows {
            *self.uses.entry(row).or_insert(0) += 1;
        }
        Ok(())
    }

    fn report(
        &self,
        windows: usize,
        batches: u64,
        plane_bytes: u64,
        prefetch: &PrefetchOptions,
    ) -> Report {
        let per_batch = |n: u64| n as f64 / batches as f64;
        let reread = self.uses.values().sum::<u64>() as f64 / self.uses.len() as f64;
        // In use, waiting, being read.
        let held = (prefetch.batches as u64 + 2).min(batches);
        Report {
            windows,
            batches,
            unique_planes_per_batch: per_batch(self.unique_planes),
            unique_bytes_per_batch: per_batch(self.unique_planes) * plane_bytes as f64,
            unique_planes_per_epoch: self.unique_planes,
            unique_bytes_per_epoch: self.unique_planes * plane_bytes,
            planes_shown_per_epoch: self.shown_planes,
            shown_over_unique: self.shown_planes as f64 / self.unique_planes as f64,
            chunks_per_batch: per_batch(self.chunks),
            chunks_per_epoch: self.chunks,
            times_each_row_is_read: reread,
            host_memory_bytes: held * self.largest * plane_bytes,
            bound_by: self.bound(reread),
            warnings: Vec::new(),
        }
    }

    /// The stage that bounds the run, and what helps.
    fn bound(&self, reread: f64) -> &'static str {
        if reread > 1.5 {
            "reading: rows are read again and again; an order that keeps neighbours together, or \
             memory for a tier, saves it"
        } else if 2 * self.chunks < self.unique_planes {
            "decoding: few large chunks; more reader threads help"
        } else {
            "reading, once per plane: the storage"
        }
    }
}

#[derive(Serialize)]
struct Report {
    windows: usize,
    batches: u64,
    unique_planes_per_batch: f64,
    unique_bytes_per_batch: f64,
    unique_planes_per_epoch: u64,
    unique_bytes_per_epoch: u64,
    planes_shown_per_epoch: u64,
    shown_over_unique: f64,
    chunks_per_batch: f64,
    chunks_per_epoch: u64,
    times_each_row_is_read: f64,
    host_memory_bytes: u64,
    bound_by: &'static str,
    warnings: Vec<String>,
}

impl Report {
    fn text(&self) -> String {
        let bytes = |n: u64| output::bytes(n as f64);
        output::table(&[
            ("windows", self.windows.to_string()),
            ("batches in an epoch", self.batches.to_string()),
            (
                "read per batch",
                format!(
                    "{:.1} planes, {}, {:.1} chunks",
                    self.unique_planes_per_batch,
                    output::bytes(self.unique_bytes_per_batch),
                    self.chunks_per_batch
                ),
            ),
            (
                "read per epoch",
                format!(
                    "{} planes, {}, {} chunks",
                    self.unique_planes_per_epoch,
                    bytes(self.unique_bytes_per_epoch),
                    self.chunks_per_epoch
                ),
            ),
            (
                "shown per epoch",
                format!(
                    "{} planes, {:.2} times what is read",
                    self.planes_shown_per_epoch, self.shown_over_unique
                ),
            ),
            (
                "each row is read",
                format!("{:.2} times an epoch", self.times_each_row_is_read),
            ),
            ("host memory at most", bytes(self.host_memory_bytes)),
            ("bound by", self.bound_by.to_owned()),
        ])
    }
}
