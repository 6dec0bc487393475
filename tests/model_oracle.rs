//! The networks, losses and training steps of `samudra` against recordings of the originals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use samudra::{
    DynamicWeights, Ema, Error, Grid, NormKind, OriginalModel, RolloutStep, Samudra, SamudraConfig,
    StateDict, channel_mse, clip_total_norm,
};
use serde::Deserialize;

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

/// Three iterations of the recipe on one batch, compared at every turn.
fn training(name: &str) {
    let Some(fixture) = Fixture::open(name) else {
        return;
    };
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    let inputs = fixture.inputs(&plain);
    let mut network = fixture.network(&device);
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let mut ema = Ema::new(&network, 0.999);
    let mut weights = match &*fixture.oracle.loss {
        "mse" => None,
        "dyn20" => Some(DynamicWeights::new(&fixture.config, Some(20.0), &plain)),
        other => panic!("no loss {other}"),
    };

    for (i, expected) in fixture.oracle.trajectory.iter().enumerate() {
        let tolerance = if i == 0 { TOLERANCE } else { LATER };
        let loss = network.rollout_loss(
            inputs.start.clone(),
            inputs.steps(),
            inputs.mask.clone(),
            weights.as_ref().map(DynamicWeights::per_channel),
        );
        let per_channel = values(loss.per_channel.clone());
        let what = format!("{name} iteration {i} loss");
        assert_close(
            &what,
            &values(loss.total.clone()),
            &[expected.loss],
            tolerance,
        );
        let what = format!("{what} per channel");
        assert_close(&what, &per_channel, &expected.loss_per_channel, tolerance);
        if i == 0 {
            running_statistics(&fixture, &network);
        }

        let mut gradients = GradientsParams::from_grads(loss.total.backward(), &network);
        if i == 0 {
            first_gradients(&fixture, &network, &gradients);
        }
        gradient_norms(&fixture, &network, &gradients, expected);
        let norm = clip_total_norm(&network, &mut gradients, 1.0).unwrap();
        let what = format!("{name} iteration {i} gradient norm");
        assert_close(
            &what,
            &[norm],
            &[expected.total_grad_norm],
            10.0 * tolerance,
        );

        network = optimizer.step(LEARNING_RATE, network, gradients);
        ema.update(&network);
        assert!((ema.decay() as f32 - expected.ema_decay).abs() < 1e-6);
        if let Some(weights) = &mut weights {
            let prediction = network.forward(
                inputs.start.clone(),
                inputs.boundaries[0].clone(),
                inputs.mask.clone(),
            );
            let label = inputs.labels[0].clone();
            weights.update(channel_mse(prediction, label, inputs.mask.clone()));
            let scale = expected.loss_scale_per_channel.as_ref().unwrap();
            let what = format!("{name} iteration {i} loss weights");
            assert_close(&what, &weights.values(), scale, tolerance);
        }
        if i == 0 {
            first_update(&fixture, &network);
        }
    }
    final_state(&fixture, &network, &ema);
}

/// Of the recipe that was recorded.
const LEARNING_RATE: f64 = 6e-4;

/// Of values after optimiser steps, relative to the largest.
const LATER: f32 = 1e-5;

fn running_statistics(fixture: &Fixture, network: &Samudra) {
    let path = "running_stats_after_iter0_rollout.safetensors";
    if !fixture.dir.join(path).exists() {
        return;
    }
    let expected = fixture.weights(path);
    let found = network.state_dict();
    let mut worst = 0.0_f32;
    for (name, data) in expected.iter() {
        if name.ends_with("running_mean") || name.ends_with("running_var") {
            let found = floats(found.get(name).unwrap());
            let distance = distance(&found, &floats(data));
            assert!(distance < TOLERANCE, "{name}: {distance:e}");
            worst = worst.max(distance);
        }
    }
    println!("running statistics: {worst:.1e}");
    assert_eq!(worst > 0.0, fixture.config.norm == NormKind::Batch);
}

/// Gradients by the original's names, in the original's shapes flattened.
fn by_name(network: &Samudra, gradients: &GradientsParams) -> BTreeMap<String, Vec<f32>> {
    let mut flat = BTreeMap::new();
    for parameter in network.parameters() {
        let id = parameter.id;
        let gradient = match (&*parameter.name, parameter.shape.len()) {
            (_, 1) => values(gradients.get::<1>(id).unwrap()),
            (_, 3) => values(gradients.get::<3>(id).unwrap()),
            // Linear layers are kernels of size one here.
            (_, 2 | 4) => values(gradients.get::<4>(id).unwrap()),
            (name, rank) => panic!("{name} has {rank} axes"),
        };
        flat.insert(parameter.name, gradient);
    }
    flat
}

fn first_gradients(fixture: &Fixture, network: &Samudra, gradients: &GradientsParams) {
    let expected = fixture.weights("grads_iter0.safetensors");
    let found = by_name(network, gradients);
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .flat_map(|(_, data)| floats(data))
        .fold(0.0_f32, |m, v| m.max(v.abs()));
    let mut worst = 0.0_f32;
    for (name, data) in expected.iter() {
        let expected = floats(data);
        let own = expected.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        // A norm takes any constant out again: the bias before it has no gradient but noise.
        if own < 1e-6 * largest {
            let noise = found[name].iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            assert!(noise < 1e-5 * largest, "{name}: {noise:e}");
            continue;
        }
        let distance = distance(&found[name], &expected);
        assert!(distance < 1e-4, "{name}: {distance:e}");
        worst = worst.max(distance);
    }
    println!("gradients: {worst:.1e}");
}

fn gradient_norms(
    fixture: &Fixture,
    network: &Samudra,
    gradients: &GradientsParams,
    expected: &Iteration,
) {
    let found = by_name(network, gradients);
    assert_eq!(found.len(), expected.grad_norms.len());
    for (name, expected_norm) in &expected.grad_norms {
        let norm = found[name].iter().map(|v| v * v).sum::<f32>().sqrt();
        let tolerance = 1e-3 * expected_norm + 1e-6 * expected.total_grad_norm;
        assert!(
            (norm - expected_norm).abs() < tolerance,
            "{} {name}: {norm:e} instead of {expected_norm:e}",
            fixture.dir.display()
        );
    }
}

/// Adam's first step is the learning rate times the gradient's sign, or noise where the gradient
/// is noise.
fn first_update(fixture: &Fixture, network: &Samudra) {
    let gradients = fixture.weights("grads_iter0.safetensors");
    let expected = fixture.weights("params_after_iter1.safetensors");
    let found = network.state_dict();
    let (mut compared, mut all, mut worst) = (0, 0, 0.0_f32);
    for (name, data) in expected.iter() {
        let found = floats(found.get(name).unwrap());
        let gradient = floats(gradients.get(name).unwrap());
        for ((found, expected), gradient) in found.iter().zip(floats(data)).zip(gradient) {
            all += 1;
            let difference = (found - expected).abs();
            // Rows of a dilated kernel that only ever meet the zeros beyond the poles have none.
            if gradient.abs() > 1e-5 || (gradient == 0.0 && !before_norm(name)) {
                compared += 1;
                worst = worst.max(difference);
            }
            assert!(difference < 2.1 * LEARNING_RATE as f32, "{name}");
        }
    }
    println!("parameters after one step: {worst:.1e} over {compared} of {all}");
    assert!(worst < 2e-6, "{worst:e}");
    assert!(10 * compared > 8 * all, "{compared} of {all}");
}

fn final_state(fixture: &Fixture, network: &Samudra, ema: &Ema) {
    let averaged = ema.network(network).state_dict();
    let live = network.state_dict();
    for (file, found) in [
        ("state_after_iter3.safetensors", &live),
        ("ema_after_iter3.safetensors", &averaged),
    ] {
        let mut worst = 0.0_f32;
        for (name, data) in fixture.weights(file).iter() {
            if before_norm(name) || name.ends_with("num_batches_tracked") {
                continue;
            }
            let expected = floats(data);
            let found = floats(found.get(name).unwrap());
            // Single elements may turn with the sign of a tiny gradient, so compare as vectors.
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>();
            let away = square(&mut found.iter().zip(&expected).map(|(f, e)| f - e)).sqrt();
            let size = square(&mut expected.iter().copied()).sqrt();
            let distance = away / size.max(1e-3);
            assert!(distance < 5e-4, "{file} {name}: {distance:e}");
            worst = worst.max(distance);
        }
        println!("{file}: {worst:.1e}");
    }
}

/// Whether only noise moves a tensor: a bias that a norm takes out, and the mean it adds to.
fn before_norm(name: &str) -> bool {
    ["convblock.0.bias", "convblock.3.bias", "running_mean"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[test]
fn v1_trains_as_the_original() {
    training("v1_tiny");
}

#[test]
fn v2_trains_as_the_original() {
    training("v2_tiny");
}

#[test]
fn v2_highres_trains_as_the_original() {
    training("v2_highres_tiny");
}

#[test]
fn a_small_grid_trains_as_the_original() {
    training("v2_small_grid");
}

#[test]
fn residual_and_position_train_as_the_original() {
    training("v2_residual_pos");
}

#[test]
fn pytorch_files_hold_the_same_weights() {
    for name in ["v1_tiny", "v2_highres_tiny", "v2_residual_pos"] {
        let Some(fixture) = Fixture::open(name) else {
            return;
        };
        let mut network = fixture
            .config
            .init(&fixture.grid, 2, &Device::flex())
            .unwrap();
        network.load_weights(fixture.dir.join("init.pt")).unwrap();
        let expected = fixture.network(&Device::flex()).state_dict();
        assert_same(&network.state_dict(), &expected);
    }
}

fn assert_same(found: &StateDict, expected: &StateDict) {
    assert_eq!(found.len(), expected.len());
    for (name, data) in expected.iter() {
        assert_eq!(found.get(name), Some(data), "{name}");
    }
}

#[test]
fn written_weights_are_the_read_ones() {
    for name in ["v2_small_grid", "v2_residual_pos"] {
        let Some(fixture) = Fixture::open(name) else {
            return;
        };
        let network = fixture.network(&Device::flex());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights.safetensors");
        network.state_dict().write_safetensors(&path).unwrap();
        let written = StateDict::read(&path).unwrap();
        assert_same(&written, &network.state_dict());

        // Every value of the recording, but the counter that this network does not keep.
        let original = fixture.weights("init.safetensors");
        assert_eq!(written.len(), original.len());
        for (name, data) in original.iter() {
            let found = written.get(name).unwrap();
            assert_eq!(found.shape(), data.shape(), "{name}");
            assert_eq!(found.dtype(), data.dtype(), "{name}");
            if !name.ends_with("num_batches_tracked") {
                assert_eq!(found, data, "{name}");
            }
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let Some(fixture) = Fixture::open("v2_small_grid") else {
        return;
    };
    let mut network = fixture.network(&Device::flex());
    let before = network.state_dict();
    let mut dict = fixture.weights("init.safetensors");
    let bias = dict.remove("decoder.bias").unwrap();
    dict.insert("decoder.offset", bias);
    dict.insert("decoder.weight", TensorData::zeros::<f32, _>([8, 6, 5, 5]));
    dict.insert(
        "unet.layers.0.convblock.2.cap",
        TensorData::new(vec![6.0_f32], [0; 0]),
    );
    let error = network.load_state_dict(&dict).unwrap_err();
    assert!(error.is_weight_mismatch());
    assert_eq!(
        error.to_string(),
        "the weights do not fit the network: missing: decoder.bias; unused: decoder.offset; \
         bad values: unet.layers.0.convblock.2.cap is 6, this network has 10; \
         decoder.weight has shape [8, 6, 5, 5] instead of [8, 6, 3, 3]"
    );
    assert_same(&network.state_dict(), &before);

    let averages = fixture.weights("ema_after_iter3.safetensors");
    assert!(network.load_state_dict(&averages).is_err());
    network.load_parameters(&averages).unwrap();
    let name = "unet.layers.0.convblock.0.weight";
    assert_eq!(network.state_dict().get(name), averages.get(name));

    let absent = network.load_weights(fixture.dir.join("absent.safetensors"));
    assert!(matches!(absent, Err(Error::ReadWeights { .. })));
    let unknown = network.load_weights(fixture.dir.join("oracle.json"));
    assert!(matches!(unknown, Err(Error::UnknownWeightFormat { .. })));
}

#[test]
fn names_and_shapes_are_the_originals() {
    #[derive(Deserialize)]
    struct Preset {
        config: OriginalModel,
        params: BTreeMap<String, Vec<usize>>,
        n_params: usize,
    }
    let Some(path) = recordings("full_configs_params.json") else {
        return;
    };
    let file = BufReader::new(File::open(path).unwrap());
    let mut presets: BTreeMap<String, serde_json::Value> = serde_json::from_reader(file).unwrap();
    let device = Device::flex();
    for (name, config) in [
        ("samudra_om4_v1", SamudraConfig::v1()),
        ("samudra_om4_v2", SamudraConfig::v2()),
        ("samudra_om4_v2_highres", SamudraConfig::v2_highres()),
    ] {
        let preset: Preset = serde_json::from_value(presets.remove(name).unwrap()).unwrap();
        assert_eq!(preset.config.into_config(77, 4, 1).unwrap(), config);
        // Parameters are lazy: nothing of this size is allocated.
        let network = config.init(&Grid::new(180, 360), 0, &device).unwrap();
        let shapes: BTreeMap<_, _> = network.tensor_shapes().into_iter().collect();
        assert_eq!(shapes, preset.params, "{name}");
        let count: usize = network
            .parameters()
            .iter()
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum();
        assert_eq!(count, preset.n_params, "{name}");
    }
    for name in ["v1_tiny", "v2_tiny", "v2_highres_tiny", "v2_residual_pos"] {
        let Some(fixture) = Fixture::open(name) else {
            return;
        };
        let network = fixture.config.init(&fixture.grid, 0, &device).unwrap();
        let shapes: BTreeMap<_, _> = network.tensor_shapes().into_iter().collect();
        assert_eq!(shapes, fixture.oracle.params, "{name}");
        let count: usize = network
            .parameters()
            .iter()
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum();
        assert_eq!(count, fixture.oracle.n_params, "{name}");
    }
}

#[test]
fn a_seed_gives_the_same_network_and_evaluation_keeps_it() {
    let grid = Grid::new(6, 8);
    let config = SamudraConfig::tiny(2, 1);
    let network = config.init(&grid, 15, &Device::flex()).unwrap();
    let again = config.init(&grid, 15, &Device::flex().autodiff()).unwrap();
    assert_same(&again.state_dict(), &network.state_dict());
    let other = config.init(&grid, 16, &Device::flex()).unwrap();
    let name = "decoder.weight";
    assert_ne!(other.state_dict().get(name), network.state_dict().get(name));
    let state = Tensor::ones([1, 4, 6, 8], &Device::flex());
    let boundary = Tensor::ones([1, 2, 6, 8], &Device::flex());
    let mask = Tensor::<3>::ones([4, 6, 8], &Device::flex()).bool();
    again.valid().forward(state, boundary, mask);
    assert_same(&again.state_dict(), &network.state_dict());
}
