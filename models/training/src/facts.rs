//! What is about to happen, in a few lines.

use crate::config::RunConfig;
use crate::data::{Loaders, Task, describe};
use anyhow::Result;
use burn_om4::OceanDataset;

/// A few lines on what is about to happen.
pub(crate) fn facts(task: &Task, loaders: &Loaders, config: &RunConfig) -> Result<String> {
    let dataset = loaders.train.batcher().dataset();
    let first = loaders.train.schedule().epoch(0).batch(0);
    let windows: Vec<_> = first
        .iter()
        .filter_map(|i| dataset.window(*i as usize))
        .collect();
    let plan = dataset.plan(&windows)?;
    let validation = loaders.validation.batcher().dataset().windows();
    let (shown, unique) = (plan.touched_planes(), plan.unique_planes());
    let fewer = match shown > unique {
        true => format!(" ({:.1} times fewer)", shown as f64 / unique as f64),
        false => String::new(),
    };
    let lines = [
        ("store", store(task, dataset)),
        ("predicted", describe(&task.dataset.prognostic)),
        ("given", describe(&task.dataset.boundary)),
        (
            "windows",
            format!(
                "{} in and out, {}, stride {}: {} in {}, {validation} to validate in {}",
                plural(config.history + 1, "time"),
                plural(config.steps, "step"),
                config.stride,
                dataset.windows(),
                task.train_time,
                task.val_time,
            ),
        ),
        (
            "batches",
            format!(
                "{} of {}; the first shows {shown} planes and reads {unique}{fewer}",
                loaders.train.batches(),
                plural(config.batch_size, "window"),
            ),
        ),
        (
            "network",
            format!(
                "widths {:?}, {} parameters, on {}",
                config.network.widths, config.parameters, config.device,
            ),
        ),
        (
            "recipe",
            format!(
                "{}, learning rate {}, seed {}",
                plural(config.epochs, "epoch"),
                config.lr,
                config.seed,
            ),
        ),
        ("rank", rank(config)),
    ];
    let lines = lines.map(|(what, text)| format!("{what:<10} {text}"));
    Ok(lines.join("\n"))
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn store(task: &Task, dataset: &OceanDataset) -> String {
    let context = dataset.context(0);
    let (time, shape) = (context.time(), context.shape());
    format!(
        "{}, {} x {} cells, {} rows from {} to {}",
        task.paths.data.display(),
        shape.ny,
        shape.nx,
        time.len(),
        time.date(0),
        time.date(time.len() - 1),
    )
}

fn rank(config: &RunConfig) -> String {
    let RunConfig { rank, world, .. } = config;
    match world {
        1 => "0 of 1".to_owned(),
        _ => format!(
            "{rank} of {world}: 1 part in {world} of the windows, and a network of its own; the other \
             processes have to be started, too"
        ),
    }
}
