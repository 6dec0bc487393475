//! Builds the batch that a case of a fixtures manifest describes and writes it as NumPy files.
//!
//! ```sh
//! cargo run --release --example dump_batch -- \
//!     --manifest manifest.json --case p03_h1_s4_overlap --store 0 --out out
//! ```

use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Tensor};
use burn_om4::{
    Channel, DatasetOptions, Date, DateRange, DeviceChoice, Inputs, MaskOrder, ModelBatch,
    OceanBatcher, OceanDataset, OceanLoader, Om4Paths, Order, PrefetchOptions, ReadMethod,
    Schedule, ScheduleOptions, Strictness, WindowOptions,
};
use clap::Parser;
use npyz::WriterBuilder;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(about = "Writes the batch of a fixtures case as NumPy files")]
struct Options {
    /// The manifest; its paths are relative to its folder.
    #[arg(long)]
    manifest: PathBuf,
    /// Id of the case.
    #[arg(long)]
    case: String,
    /// Which of the case's stores to read.
    #[arg(long, default_value_t = 0)]
    store: usize,
    /// Folder to write to.
    #[arg(long)]
    out: PathBuf,
    /// auto, cpu, cuda[:N] or vulkan.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// By which system calls chunks are read: pread, mmap, direct or io_uring.
    #[arg(long, default_value_t = ReadMethod::default())]
    io: ReadMethod,
}

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

/// The fields of a case that describe its batch; expectations are not looked at.
#[derive(Deserialize)]
struct Case {
    id: String,
    prognostic: Vec<String>,
    boundary: Vec<String>,
    hist: usize,
    steps: usize,
    stride: usize,
    indices: Vec<u64>,
    normalize_before_mask: bool,
    masked_fill_value: f32,
    time_slice: Option<[Date; 2]>,
    stores: Vec<PathBuf>,
    label_stores: Option<Vec<PathBuf>>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let text = fs::read_to_string(&options.manifest)
        .with_context(|| format!("cannot read {}", options.manifest.display()))?;
    let manifest: Manifest = serde_json::from_str(&text)?;
    let case = manifest.cases.into_iter().find(|c| c.id == options.case);
    let case = case.with_context(|| format!("no case `{}`", options.case))?;
    let root = options.manifest.parent().unwrap_or(Path::new("."));

    let dataset = open(&case, root, &options)?;
    let length = dataset.windows();
    let window = dataset.context(0).window().clone();
    let device = options.device.open()?;
    let spec = ScheduleOptions::default()
        .with_order(Order::Custom(vec![case.indices.clone()]))
        .with_batch_size(case.indices.len());
    let schedule = Schedule::new(spec, dataset.groups())?;
    let batcher = OceanBatcher::new(dataset);
    let loader = OceanLoader::new(batcher, schedule, PrefetchOptions::default(), &device)?;
    let batch = loader
        .iter()
        .next()
        .context("the loader delivered nothing")??;

    fs::create_dir_all(&options.out)?;
    let steps = 0..batch.steps();
    let inputs = steps
        .clone()
        .map(|k| batch.input(k))
        .collect::<Result<Vec<_>, _>>()?;
    write_steps(&options.out.join("input.npy"), inputs)?;
    let boundaries = steps.clone().map(|k| batch.boundary(k)).collect();
    write_steps(&options.out.join("boundary.npy"), boundaries)?;
    let labels = steps.clone().map(|k| batch.label(k)).collect();
    write_steps(&options.out.join("label.npy"), labels)?;
    write_mask(&options.out.join("label_mask.npy"), &batch)?;

    let rows = |of: &dyn Fn(usize, usize) -> Vec<usize>| -> Vec<Vec<Vec<usize>>> {
        let of_step = |k| batch.windows().iter().map(|w| of(w.start, k)).collect();
        steps.clone().map(of_step).collect()
    };
    let counters = loader.counters();
    let meta = serde_json::json!({
        "length": length,
        "input_time_indices": rows(&|start, k| window.input_rows(start, k).collect()),
        "label_time_indices": rows(&|start, k| window.label_rows(start, k).collect()),
        "unique_planes": counters.unique_planes,
        "planes_read": counters.planes_read,
        "chunks_read": counters.chunks_read,
        "missing_chunks": counters.missing_chunks,
    });
    fs::write(
        options.out.join("meta.json"),
        serde_json::to_string_pretty(&meta)?,
    )?;
    Ok(())
}

fn open(case: &Case, root: &Path, asked: &Options) -> Result<OceanDataset> {
    let store = asked.store;
    ensure!(
        store < case.stores.len(),
        "case `{}` has {} stores, there is none at {store}",
        case.id,
        case.stores.len()
    );
    let channels =
        |names: &[String]| -> Result<Vec<Channel>, _> { names.iter().map(|n| n.parse()).collect() };
    let window = WindowOptions::default()
        .with_history(case.hist)
        .with_steps(case.steps)
        .with_stride(case.stride);
    let order = match case.normalize_before_mask {
        true => MaskOrder::NormaliseFirst,
        false => MaskOrder::MaskFirst,
    };
    let mut options = DatasetOptions::new(channels(&case.prognostic)?, channels(&case.boundary)?)
        .with_window(window)
        .with_mask_order(order)
        .with_masked_fill_value(case.masked_fill_value)
        .with_inputs(Inputs::All)
        .with_strictness(Strictness::Lenient)
        .with_io(asked.io);
    if let Some([start, end]) = case.time_slice {
        options = options.with_time(DateRange { start, end });
    }
    let paths = Om4Paths::in_dir(root.join(&case.stores[store]));
    let dataset = match case.label_stores.as_deref() {
        None | Some([]) => OceanDataset::open(&paths, &options)?,
        Some(labels) => {
            let labels = Om4Paths::in_dir(root.join(&labels[store % labels.len()]));
            OceanDataset::open_with_labels(&paths, &labels, &options)?
        }
    };
    Ok(dataset)
}

/// `(step, batch, time*channel, y, x)`, float32, C order.
fn write_steps(path: &Path, steps: Vec<Tensor<4>>) -> Result<()> {
    let dims = steps[0].dims();
    let mut shape = vec![steps.len() as u64];
    shape.extend(dims.map(|d| d as u64));
    let file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut npy = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&shape)
        .writer(file)
        .begin_nd()?;
    for step in steps {
        let data = step.into_data();
        ensure!(
            data.dtype() == DType::F32,
            "expected float32, found {:?}",
            data.dtype()
        );
        npy.extend(data.iter::<f32>())?;
    }
    npy.finish()?;
    Ok(())
}

/// `(time*channel, y, x)`, uint8.
fn write_mask(path: &Path, batch: &ModelBatch) -> Result<()> {
    let mask = batch.label_mask();
    let shape = mask.dims().map(|d| d as u64);
    let file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut npy = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&shape)
        .writer(file)
        .begin_nd()?;
    npy.extend(mask.into_data().iter::<bool>().map(u8::from))?;
    npy.finish()?;
    Ok(())
}
