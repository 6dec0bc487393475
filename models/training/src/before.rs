//! Before the first step: whatever would otherwise be found out after hours of training.

use crate::data::Loaders;
use crate::files;
use crate::options::Options;
use crate::score::{Scorer, Weighting, weighting};
use anyhow::{Context, Result};
use burn::module::Module;
use burn::tensor::Device;
use burn_om4::OceanLoader;
use samudra::{NormKind, Samudra, SamudraConfig};

/// Finds out whether all files of a run can be written, and makes its folder.
///
/// # Errors
/// One that cannot.
pub(crate) fn check_files(options: &Options) -> Result<()> {
    for file in [&options.report, &options.trace].into_iter().flatten() {
        files::check(file)?;
    }
    files::make_folder(&options.out)
}

/// Scores the first validation batch, as validation will after every epoch: what that needs is asked for
/// now. Returns what it can do without, in words.
///
/// # Errors
/// As [`validate`](crate::score::validate).
pub(crate) fn try_validation(
    network: &Samudra,
    loader: &OceanLoader,
    device: &Device,
) -> Result<(Weighting, Vec<String>)> {
    let mut warnings = Vec::new();
    let dataset = loader.batcher().dataset();
    let context = dataset.context(0);
    let (weighting, dry) = weighting(context)?;
    if weighting == Weighting::None {
        warnings.push(
            "the store has neither areacello nor latitudes: errors in validation weigh all cells alike"
                .to_owned(),
        );
    }
    if !dry.is_empty() {
        warnings.push(format!(
            "no cell is ocean for {}: validation has no error for it",
            dry.join(", ")
        ));
    }
    let device = device.clone().inner();
    let mut scorer = Scorer::new(context, &device)?;
    let first = loader.schedule().epoch(0).batch(0);
    let windows = first.iter().filter_map(|i| dataset.window(*i as usize));
    let batch = loader.batcher().try_batch(windows.collect(), &device);
    let batch = batch.context("reading the first validation batch")?;
    scorer.add(&network.valid(), &batch)?;
    Ok((weighting, warnings))
}

/// Says when the network's norm sees one value per channel, or per plane.
pub(crate) fn single_values(network: &SamudraConfig, loaders: &Loaders) -> Option<String> {
    let dataset = loaders.train.batcher().dataset();
    let (shape, levels) = (dataset.context(0).shape(), network.levels());
    if (shape.ny >> levels, shape.nx >> levels) != (1, 1) {
        return None;
    }
    let batch_size = loaders.train.schedule().options().batch_size;
    match network.norm {
        NormKind::Instance => Some(format!(
            "at the network's coarsest level a plane of {} x {} cells is 1 x 1: instance norm gives 0 there, \
             whatever comes in",
            shape.ny, shape.nx
        )),
        NormKind::Batch if batch_size == 1 || dataset.windows() % batch_size == 1 => Some(format!(
            "{} windows in batches of {batch_size} make a batch of one, and at the network's coarsest level \
             a plane of {} x {} cells is 1 x 1: batch norm sees one value per channel there, and its \
             running statistics do not follow that batch",
            dataset.windows(),
            shape.ny,
            shape.nx
        )),
        NormKind::Batch => None,
    }
}
