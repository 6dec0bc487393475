//! The networks, losses and training steps of `samudra` against recordings of the originals.

mod training;
mod weights;

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use samudra::{Grid, OriginalModel, RolloutStep, Samudra, SamudraConfig, StateDict};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Where recordings lie; `None`, with a message, when they are absent outside CI.
fn recordings(name: &str) -> Option<PathBuf> {
    om4_test_support::shared(&format!("fixtures/models/{name}"))
}

#[derive(Deserialize)]
struct Oracle {
    config: OriginalModel,
    grid: [usize; 2],
    /// The file's own word is `hist`.
    #[serde(rename = "hist")]
    history: usize,
    n_prognostic_vars: usize,
    n_boundary_vars: usize,
    loss: String,
    params: BTreeMap<String, Vec<usize>>,
    n_params: usize,
    trajectory: Vec<Iteration>,
}

#[derive(Deserialize)]
struct Iteration {
    loss: f32,
    loss_per_channel: Vec<f32>,
    grad_norms: BTreeMap<String, f32>,
    total_grad_norm: f32,
    ema_decay: f32,
    loss_scale_per_channel: Option<Vec<f32>>,
}

struct Fixture {
    dir: PathBuf,
    oracle: Oracle,
    config: SamudraConfig,
    grid: Grid,
}

impl Fixture {
    fn open(name: &str) -> Option<Self> {
        let dir = recordings(name)?;
        let file = BufReader::new(File::open(dir.join("oracle.json")).unwrap());
        let oracle: Oracle = serde_json::from_reader(file).unwrap();
        let config = oracle
            .config
            .clone()
            .into_config(
                oracle.n_prognostic_vars,
                oracle.n_boundary_vars,
                oracle.history,
            )
            .unwrap();
        let [ny, nx] = oracle.grid;
        let lat = npy::<f64>(&dir.join("lat.npy")).1;
        let lon = npy::<f64>(&dir.join("lon.npy")).1;
        let grid = Grid::new(ny, nx).with_coordinates(&lat, &lon).unwrap();
        Some(Self {
            dir,
            oracle,
            config,
            grid,
        })
    }

    /// The network with the recorded first weights.
    fn network(&self, device: &Device) -> Samudra {
        let mut network = self.config.init(&self.grid, 1, device).unwrap();
        network
            .load_weights(self.dir.join("init.safetensors"))
            .unwrap();
        network
    }

    fn weights(&self, file: &str) -> StateDict {
        StateDict::from_safetensors(self.dir.join(file)).unwrap()
    }

    fn array(&self, file: &str) -> Vec<f32> {
        npy::<f32>(&self.dir.join(file)).1
    }

    fn steps(&self, file: &str, device: &Device) -> Vec<Tensor<4>> {
        let (shape, values) = npy::<f32>(&self.dir.join(file));
        let all = Tensor::<5>::from_data(TensorData::new(values, shape), (device, DType::F32));
        all.iter_dim(0).map(|step| step.squeeze_dim(0)).collect()
    }

    fn inputs(&self, device: &Device) -> Inputs {
        let (shape, mask) = npy::<u8>(&self.dir.join("label_mask.npy"));
        let mask: Vec<bool> = mask.iter().map(|value| *value != 0).collect();
        Inputs {
            start: self.steps("prognostic.npy", device)[0].clone(),
            boundaries: self.steps("boundary.npy", device),
            labels: self.steps("label.npy", device),
            mask: Tensor::from_data(TensorData::new(mask, shape), device),
        }
    }
}

struct Inputs {
    start: Tensor<4>,
    boundaries: Vec<Tensor<4>>,
    labels: Vec<Tensor<4>>,
    mask: Tensor<3, Bool>,
}

impl Inputs {
    fn steps(&self) -> impl Iterator<Item = RolloutStep> {
        let pairs = self.boundaries.iter().zip(&self.labels);
        pairs.map(|(boundary, label)| RolloutStep {
            boundary: boundary.clone(),
            label: label.clone(),
        })
    }
}

fn npy<T: npyz::Deserialize>(path: &Path) -> (Vec<usize>, Vec<T>) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let npy = npyz::NpyFile::new(BufReader::new(file)).unwrap();
    let shape = npy.shape().iter().map(|n| *n as usize).collect();
    (shape, npy.into_vec().unwrap())
}

fn floats(data: &TensorData) -> Vec<f32> {
    data.iter::<f32>().collect()
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    floats(&tensor.into_data())
}

/// The largest difference, relative to the largest expected magnitude.
fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    assert!(largest > 0.0, "nothing to compare with");
    let difference = found.iter().zip(expected).fold(0.0_f32, |worst, (f, e)| {
        // A NaN has to win.
        if (f - e).is_nan() {
            f32::INFINITY
        } else {
            worst.max((f - e).abs())
        }
    });
    difference / largest
}

fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    let distance = distance(found, expected);
    println!("{what}: {distance:.1e}");
    assert!(
        distance <= tolerance,
        "{what}: {distance:e} away, more than {tolerance:e}"
    );
}

fn evaluation(name: &str) {
    let Some(fixture) = Fixture::open(name) else {
        return;
    };
    let device = Device::flex();
    let network = fixture.network(&device);
    let inputs = fixture.inputs(&device);

    let first = network.output(
        inputs.start.clone(),
        inputs.boundaries[0].clone(),
        inputs.mask.clone(),
    );
    assert_close(
        &format!("{name} one step"),
        &values(first),
        &fixture.array("eval_output_step0.npy"),
        TOLERANCE,
    );

    let rollout = network.rollout(inputs.start, inputs.boundaries, inputs.mask);
    let rollout: Vec<f32> = rollout.into_iter().flat_map(values).collect();
    assert_close(
        &format!("{name} rollout"),
        &rollout,
        &fixture.array("eval_rollout.npy"),
        TOLERANCE,
    );
}

/// Of values, relative to the largest.
const TOLERANCE: f32 = 1e-5;

#[test]
fn v1_predicts_as_the_original() {
    evaluation("v1_tiny");
}

#[test]
fn v2_predicts_as_the_original() {
    evaluation("v2_tiny");
}

#[test]
fn v2_highres_predicts_as_the_original() {
    evaluation("v2_highres_tiny");
}

#[test]
fn a_small_grid_predicts_as_the_original() {
    evaluation("v2_small_grid");
}

#[test]
fn residual_and_position_predict_as_the_original() {
    evaluation("v2_residual_pos");
}

#[test]
fn mini_predicts_as_the_original() {
    evaluation("mini_tiny");
}

#[test]
fn every_block_does_as_the_original() {
    let Some(fixture) = Fixture::open("v2_small_grid") else {
        return;
    };
    let device = Device::flex();
    let inputs = fixture.inputs(&device);
    let expected = fixture.weights("eval_activations.safetensors");
    let found = fixture
        .network(&device)
        .activations(inputs.start, inputs.boundaries[0].clone());
    assert_eq!(found.len(), expected.len());
    for (layer, activation) in found {
        let name = format!("layer{layer}");
        let data = expected.get(&name).unwrap();
        assert_eq!(activation.dims()[..], data.shape()[..], "{name}");
        assert_close(&name, &values(activation), &floats(data), TOLERANCE);
    }
}
