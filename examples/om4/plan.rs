//! What a configuration reads and holds: counted from metadata, nothing is read.

use anyhow::{Result, bail};
use burn_om4::ocean::{PlaneRequest, PlaneSource};
use burn_om4::store::{OpenOptions, Store};
use burn_om4::{
    Channel, DatasetOptions, OceanDataset, Om4Paths, Order, PrefetchOptions, Schedule,
    ScheduleOptions, WindowOptions, parse_channels,
};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Copy, ValueEnum)]
enum Visit {
    Sequential,
    Shuffled,
}

#[derive(Args)]
pub struct Options {
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
}

pub fn run(options: &Options) -> Result<()> {
    let prognostic = parse_channels(&options.prognostic)?;
    let boundary = parse_channels(&options.boundary)?;
    let window = WindowOptions::default()
        .with_history(options.history)
        .with_steps(options.steps)
        .with_stride(options.stride);
    let dataset_options =
        DatasetOptions::new(prognostic.clone(), boundary.clone()).with_window(window);
    let paths = Om4Paths::in_dir(&options.data);
    let dataset = OceanDataset::open(&paths, &dataset_options)?;
    let every: Vec<Channel> = prognostic.iter().chain(&boundary).cloned().collect();
    let store = Store::open(&paths.data, &OpenOptions::default().with_channels(every))?;
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
    let plane = dataset.context(0).shape();
    let plane_bytes = (plane.cells() * size_of::<f32>()) as u64;
    let positions = [store.positions(&prognostic)?, store.positions(&boundary)?];
    let (mut unique, mut shown, mut chunks, mut largest, mut uses) = (0, 0, 0, 0, BTreeMap::new());
    for batch in 0..epoch.len() {
        let windows = epoch.batch(batch);
        let windows = windows.iter().filter_map(|&i| dataset.window(i as usize));
        let plan = dataset.plan(&windows.collect::<Vec<_>>())?;
        unique += plan.unique_planes() as u64;
        shown += plan.touched_planes() as u64;
        largest = largest.max(plan.touched_planes() as u64 * plane_bytes);
        for (group, channels) in [&plan.prognostic, &plan.boundary].iter().zip(&positions) {
            let rows = &group.rows;
            chunks += store.planned_chunks(&PlaneRequest { rows, channels })?;
        }
        for row in plan.prognostic.rows {
            *uses.entry(row).or_insert(0u64) += 1;
        }
    }
    let batches = epoch.len();
    let rows = uses.len() as u64;
    let reread = uses.values().sum::<u64>() as f64 / rows as f64;
    let prefetch = PrefetchOptions::default().with_batches(options.prefetch);
    // In use, waiting, being read.
    let held = (prefetch.batches as u64 + 2).min(batches) * largest;
    let bound = match () {
        _ if reread > 1.5 => {
            "reading: rows are read again and again; an order that keeps neighbours together, or \
             memory for a tier, saves it"
        }
        _ if chunks * plane_bytes < unique * plane_bytes / 2 => {
            "decoding: few large chunks; more reader threads help"
        }
        _ => "reading, once per plane: the storage",
    };
    let report = json!({
        "windows": dataset.windows(),
        "batches": batches,
        "unique_planes_per_batch": unique as f64 / batches as f64,
        "unique_bytes_per_batch": unique as f64 / batches as f64 * plane_bytes as f64,
        "unique_planes_per_epoch": unique,
        "unique_bytes_per_epoch": unique * plane_bytes,
        "planes_shown_per_epoch": shown,
        "shown_over_unique": shown as f64 / unique as f64,
        "chunks_per_batch": chunks as f64 / batches as f64,
        "chunks_per_epoch": chunks,
        "times_each_row_is_read": reread,
        "host_memory_bytes": held,
        "bound_by": bound,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
