//! Losses, gradients, updates and averages of the first steps.

use crate::{Fixture, Iteration, TOLERANCE, assert_close, distance, floats, values};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use samudra::{DynamicWeights, Ema, Loss, Metric, NormKind, Samudra, clip_total_norm};
use std::collections::BTreeMap;

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
    let kind = match &*fixture.oracle.loss {
        "mse" => Loss::Plain(Metric::Mse),
        "dyn20" => Loss::dynamic(Metric::Mse, Some(20.0)),
        other => panic!("no loss {other}"),
    };
    let mut weights = kind.weights(&fixture.config, &plain);

    for (i, expected) in fixture.oracle.trajectory.iter().enumerate() {
        let tolerance = if i == 0 { TOLERANCE } else { LATER };
        let loss = network.rollout_loss(
            inputs.start.clone(),
            inputs.steps(),
            inputs.mask.clone(),
            &kind,
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
            weights.update(kind.per_channel(prediction, label, inputs.mask.clone()));
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
    let config = &fixture.config;
    let kept = config.norm == NormKind::Batch && config.perceiver.is_none();
    assert_eq!(worst > 0.0, kept);
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
            (name, 2) if mini(name) => values(gradients.get::<2>(id).unwrap()),
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

/// Whether a parameter is of the Perceiver, whose matrices are matrices here too.
fn mini(name: &str) -> bool {
    [
        "perceiver_io.",
        "input_embed",
        "data_coordinate",
        "query_coordinate",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

#[test]
fn mini_trains_as_the_original() {
    training("mini_tiny");
}
