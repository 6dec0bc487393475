//! Runs a Samudra network on the inputs of a model fixture and writes what it predicts.
//!
//! ```text
//! cargo run --example model_forward -- --dir shared/fixtures/models/v2_tiny --out target/v2_tiny
//! ```
//!
//! The directory holds `oracle.json` (configuration, grid, variables), `init.safetensors`,
//! `prognostic.npy` and `boundary.npy` `(steps, batch, channel, y, x)`, `label_mask.npy`
//! `(channel, y, x)` and `lat.npy`, `lon.npy` in degrees. Written, as float32, are
//! `eval_output_step0.npy` `(batch, channel, y, x)`, the network's output in the first step (of a
//! residual network the change alone), and `eval_rollout.npy` `(steps, batch, channel, y, x)`, the
//! predicted states.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use clap::Parser;
use npyz::{NpyFile, WriterBuilder};
use samudra::{Grid, OriginalModel};
use serde::Deserialize;

/// Run a Samudra network in evaluation mode and write its predictions.
#[derive(Parser)]
struct Args {
    /// Directory of the fixture.
    #[arg(long)]
    dir: PathBuf,
    /// Directory to write to; made when absent.
    #[arg(long)]
    out: PathBuf,
    /// Weights to load, if not `init.safetensors` of the fixture.
    #[arg(long)]
    weights: Option<PathBuf>,
}

/// The part of `oracle.json` that describes the network.
#[derive(Deserialize)]
struct Oracle {
    config: OriginalModel,
    grid: [usize; 2],
    /// The file's own word is `hist`.
    #[serde(rename = "hist")]
    history: usize,
    n_prognostic_vars: usize,
    n_boundary_vars: usize,
}

fn main() -> Result<()> {
    forward(Args::parse())
}

fn forward(args: Args) -> Result<()> {
    let device = Device::flex();

    let path = args.dir.join("oracle.json");
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let oracle: Oracle = serde_json::from_reader(BufReader::new(file))
        .with_context(|| format!("reading {}", path.display()))?;
    let config = oracle.config.into_config(
        oracle.n_prognostic_vars,
        oracle.n_boundary_vars,
        oracle.history,
    )?;
    let [ny, nx] = oracle.grid;
    let lat: Array<f64> = read(&args.dir.join("lat.npy"))?;
    let lon: Array<f64> = read(&args.dir.join("lon.npy"))?;
    let grid = Grid::new(ny, nx).with_coordinates(&lat.values, &lon.values)?;

    let mut network = config.init(&grid, 0, &device)?;
    let weights = args
        .weights
        .unwrap_or_else(|| args.dir.join("init.safetensors"));
    network.load_weights(weights)?;

    let prognostic = steps(&args.dir.join("prognostic.npy"), &device)?;
    let boundary = steps(&args.dir.join("boundary.npy"), &device)?;
    ensure!(
        prognostic.len() == boundary.len() && !boundary.is_empty(),
        "{} prognostic and {} boundary steps",
        prognostic.len(),
        boundary.len()
    );
    let mask = mask(&args.dir.join("label_mask.npy"), &device)?;

    let start = prognostic[0].clone();
    let first = network.output(start.clone(), boundary[0].clone(), mask.clone());
    let rollout = network.rollout(start, boundary, mask);

    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    write(&args.out.join("eval_output_step0.npy"), first)?;
    write(
        &args.out.join("eval_rollout.npy"),
        Tensor::<4>::stack::<5>(rollout, 0),
    )
}

struct Array<T> {
    shape: Vec<usize>,
    values: Vec<T>,
}

fn read<T: npyz::Deserialize>(path: &Path) -> Result<Array<T>> {
    let open = || -> Result<Array<T>> {
        let npy = NpyFile::new(BufReader::new(File::open(path)?))?;
        let shape = npy.shape().iter().map(|n| *n as usize).collect();
        let values = npy.into_vec()?;
        Ok(Array { shape, values })
    };
    open().with_context(|| format!("reading {}", path.display()))
}

/// One tensor `(batch, channel, y, x)` per step.
fn steps(path: &Path, device: &Device) -> Result<Vec<Tensor<4>>> {
    let Array { shape, values } = read::<f32>(path)?;
    ensure!(
        shape.len() == 5,
        "{}: {} axes instead of 5",
        path.display(),
        shape.len()
    );
    let all = Tensor::<5>::from_data(TensorData::new(values, shape), (device, DType::F32));
    Ok(all.iter_dim(0).map(|step| step.squeeze_dim(0)).collect())
}

/// `(channel, y, x)`, true where the output is ocean.
fn mask(path: &Path, device: &Device) -> Result<Tensor<3, Bool>> {
    let Array { shape, values } = read::<u8>(path)?;
    let values: Vec<bool> = values.iter().map(|value| *value != 0).collect();
    Ok(Tensor::from_data(TensorData::new(values, shape), device))
}

fn write<const D: usize>(path: &Path, tensor: Tensor<D>) -> Result<()> {
    let write = || -> Result<()> {
        let shape = tensor.dims().map(|n| n as u64);
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&shape)
            .writer(BufWriter::new(File::create(path)?))
            .begin_nd()?;
        writer.extend(tensor.into_data().iter::<f32>())?;
        writer.finish()?;
        Ok(())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use om4_test_support::{read_npy, shared};

    #[test]
    fn it_predicts_what_the_original_does() {
        let Some(dir) = shared("fixtures/models/v2_tiny") else {
            return;
        };
        let out = tempfile::tempdir().unwrap();
        let args = |weights| Args {
            dir: dir.clone(),
            out: out.path().join("new"),
            weights,
        };
        forward(args(None)).unwrap();
        for name in ["eval_output_step0.npy", "eval_rollout.npy"] {
            let found = read_npy::<f32>(&out.path().join("new").join(name));
            let expected = read_npy::<f32>(&dir.join(name));
            assert_eq!(found.len(), expected.len(), "{name}");
            let scale = expected.iter().fold(0.0_f32, |a, v| a.max(v.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() < 1e-4 * scale,
                    "{name}: {found} {expected}"
                );
            }
        }
        // Other weights are used, and predict something else.
        let other = dir.join("state_after_iter3.safetensors");
        let before = read_npy::<f32>(&out.path().join("new/eval_rollout.npy"));
        forward(args(Some(other))).unwrap();
        assert_ne!(
            read_npy::<f32>(&out.path().join("new/eval_rollout.npy")),
            before
        );
        assert!(forward(args(Some(dir.join("nowhere.safetensors")))).is_err());
    }
}
