//! Weights from files and back, and what does not fit.

use crate::{Fixture, recordings};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use samudra::{Error, Grid, OriginalModel, SamudraConfig, StateDict};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

#[test]
fn pytorch_files_hold_the_same_weights() {
    for name in ["v1_tiny", "v2_highres_tiny", "v2_residual_pos", "mini_tiny"] {
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
    for name in ["v2_small_grid", "v2_residual_pos", "mini_tiny"] {
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

fn one_degree() -> Grid {
    let lat: Vec<f64> = (0..180).map(|j| f64::from(j) - 89.5).collect();
    let lon: Vec<f64> = (0..360).map(|i| f64::from(i) + 0.5).collect();
    Grid::new(180, 360).with_coordinates(&lat, &lon).unwrap()
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
        ("samudra_mini_om4", SamudraConfig::mini()),
    ] {
        let preset: Preset = serde_json::from_value(presets.remove(name).unwrap()).unwrap();
        assert_eq!(preset.config.into_config(77, 4, 1).unwrap(), config);
        // Parameters are lazy: nothing of this size is allocated.
        let network = config.init(&one_degree(), 0, &device).unwrap();
        let shapes: BTreeMap<_, _> = network.tensor_shapes().into_iter().collect();
        assert_eq!(shapes, preset.params, "{name}");
        let count: usize = network
            .parameters()
            .iter()
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum();
        assert_eq!(count, preset.n_params, "{name}");
    }
    for name in [
        "v1_tiny",
        "v2_tiny",
        "v2_highres_tiny",
        "v2_residual_pos",
        "mini_tiny",
    ] {
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
