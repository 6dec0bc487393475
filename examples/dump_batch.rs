//! Builds the batch that a case of a fixtures manifest describes and writes it as NumPy files.
//!
//! ```sh
//! cargo run --release --example dump_batch -- \
//!     --manifest manifest.json --case p03_h1_s4_overlap --store 0 --out out
//! ```

use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Tensor};
use burn_om4::{DeviceChoice, ModelBatch, OceanBatcher, ReadMethod};
use clap::Parser;
use npyz::{AutoSerialize, NpyWriter, WriterBuilder};
use om4_test_support::fixtures::{Case, Manifest, read_manifest};
use std::fs;
use std::io::BufWriter;
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

fn main() -> Result<()> {
    dump(&Options::parse())
}

fn dump(options: &Options) -> Result<()> {
    let manifest: Manifest<Case> = read_manifest(&options.manifest)
        .with_context(|| format!("cannot read {}", options.manifest.display()))?;
    let case = manifest.cases.into_iter().find(|c| c.id == options.case);
    let case = case.with_context(|| format!("no case `{}`", options.case))?;
    let root = options.manifest.parent().unwrap_or(Path::new("."));

    let (store, stores) = (options.store, case.stores.len());
    ensure!(
        store < stores,
        "case `{}` has {stores} stores, there is none at {store}",
        case.id
    );
    let dataset = case.open(root, store, options.io)?;
    let length = dataset.windows();
    let window = dataset.context(0).window().clone();
    let device = options.device.open()?;
    let loader = case.loader(OceanBatcher::new(dataset), &device)?;
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

/// A NumPy file of this shape, to be filled in C order.
fn npy<T: AutoSerialize>(path: &Path, shape: &[u64]) -> Result<NpyWriter<T, BufWriter<fs::File>>> {
    let file = BufWriter::new(fs::File::create(path)?);
    let options = npyz::WriteOptions::new().default_dtype().shape(shape);
    Ok(options.writer(file).begin_nd()?)
}

/// `(step, batch, time*channel, y, x)`, float32, C order.
fn write_steps(path: &Path, steps: Vec<Tensor<4>>) -> Result<()> {
    let dims = steps[0].dims();
    let mut shape = vec![steps.len() as u64];
    shape.extend(dims.map(|d| d as u64));
    let mut npy = npy(path, &shape)?;
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
    let mut npy = npy(path, &mask.dims().map(|d| d as u64))?;
    npy.extend(mask.into_data().iter::<bool>().map(u8::from))?;
    npy.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_om4::synth::SynthOptions;
    use om4_test_support::read_npy;

    /// Two windows of two steps, and a manifest that says so.
    fn write_case(dir: &Path) {
        SynthOptions::new(4, 6)
            .with_levels(1)
            .with_rows(12)
            .with_variables(&["thetao"], &["zos", "hfds"])
            .write(dir.join("store"))
            .unwrap();
        let case = serde_json::json!({
            "id": "two", "prognostic": ["zos", "thetao_0"], "boundary": ["hfds"], "hist": 1, "steps": 2,
            "stride": 1, "indices": [3, 1], "normalize_before_mask": true, "masked_fill_value": 0.0,
            "time_slice": null, "stores": ["store"], "label_stores": null,
        });
        let manifest = serde_json::json!({ "cases": [case] });
        fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    }

    fn options(dir: &Path, case: &str) -> Options {
        let path = |name: &str| dir.join(name).display().to_string();
        let (manifest, out) = (path("manifest.json"), path("out"));
        let arguments = ["--manifest", &manifest, "--case", case, "--out", &out];
        Options::parse_from([&["dump_batch"], &arguments[..]].concat())
    }

    #[test]
    fn a_case_becomes_numpy_files() {
        let dir = tempfile::tempdir().unwrap();
        write_case(dir.path());
        dump(&options(dir.path(), "two")).unwrap();
        let out = dir.path().join("out");
        let text = fs::read(out.join("meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_slice(&text).unwrap();
        // 12 rows, and a window of 6.
        assert_eq!(meta["length"], 7);
        let labels = serde_json::json!([[[5, 6], [3, 4]], [[7, 8], [5, 6]]]);
        assert_eq!(meta["label_time_indices"], labels);

        // (step, window, 2 times of 2 channels, 4, 6)
        let shown = |name: &str| read_npy::<f32>(&out.join(name));
        let (input, label) = (shown("input.npy"), shown("label.npy"));
        assert_eq!((input.len(), label.len()), (2 * 2 * 4 * 24, 2 * 2 * 4 * 24));
        assert_eq!(shown("boundary.npy").len(), 2 * 2 * 2 * 24);
        // The label of the first step is the input of the second.
        assert_eq!(input[2 * 4 * 24..], label[..2 * 4 * 24]);
        assert!(label.iter().all(|v| v.is_finite()) && label.iter().any(|v| *v != 0.0));
        let mask = read_npy::<u8>(&out.join("label_mask.npy"));
        assert_eq!(mask.len(), 4 * 24);
        // Land is 0.
        let planes = label.chunks_exact(mask.len());
        let land = planes.flat_map(|p| p.iter().zip(&mask).filter(|(_, wet)| **wet == 0));
        assert!(land.into_iter().all(|(v, _)| *v == 0.0));

        let error = dump(&options(dir.path(), "three")).unwrap_err();
        assert!(error.to_string().contains("no case `three`"), "{error}");
    }
}
