//! The pictures of a run: what of the trained network is drawn.

use crate::options::Options;
use crate::plots::{Curve, MapRow, write_maps, write_skill};
use crate::report::Report;
use anyhow::{Context, Result};
use burn::module::Module;
use burn::tensor::Tensor;
use burn_om4::{BatchContext, ModelBatch, OceanLoader, Role};
use samudra::Samudra;
use serde::Serialize;
use std::path::PathBuf;

/// Channels in a picture of maps.
const MAPS: usize = 6;
/// Channels in a picture of curves.
const CURVES: usize = 9;

/// Draws truth, prediction and error at lead 1 of the middle validation window, and, with more than
/// one lead, error against lead. Returns the files.
///
/// # Errors
/// A failed read, or a file that cannot be written.
pub fn draw<C: Serialize>(
    network: &Samudra,
    loader: &OceanLoader,
    report: &Report<C>,
    options: &Options,
) -> Result<Vec<PathBuf>> {
    let dataset = loader.batcher().dataset();
    let context = dataset.context(0);
    let window = dataset
        .window(dataset.windows() / 2)
        .context("no window to draw")?;
    let device = network.devices()[0].clone();
    let batch = loader.batcher().try_batch(vec![window], &device)?;
    let predicted = network.forward(batch.input(0)?, batch.boundary(0), batch.label_mask());
    let predicted = physical(&batch, predicted)?;
    let truth = physical(&batch, batch.label(0))?;

    let shape = context.shape();
    let rows: Vec<MapRow> = (0..context.prognostic().len().min(MAPS))
        .map(|c| MapRow {
            name: context.prognostic()[c].name(),
            units: context.unit(c).unwrap_or(""),
            grid: (shape.ny, shape.nx),
            truth: &truth[c],
            prediction: &predicted[c],
        })
        .collect();
    let date = batch.step(0)?.dates(Role::Label)[0][0].date;
    let heading = format!("{date}, one time ahead");
    let maps = options.out.join("maps.png");
    write_maps(&maps, &heading, &rows)?;

    let leads = report
        .validation
        .first()
        .map_or(0, |skill| skill.rmse.len());
    if leads < 2 {
        return Ok(vec![maps]);
    }
    let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<_>>();
    let shown = report.validation.iter().take(CURVES);
    let values: Vec<_> = shown
        .clone()
        .map(|s| (single(&s.rmse), single(&s.persistence)))
        .collect();
    let curves: Vec<Curve> = shown
        .zip(&values)
        .map(|(skill, (model, persistence))| Curve {
            name: &skill.name,
            units: skill.unit.as_deref().unwrap_or(""),
            model,
            persistence,
        })
        .collect();
    let skill = options.out.join("skill.png");
    write_skill(&skill, "RMSE", days(context, window.start), &curves)?;
    Ok(vec![maps, skill])
}

/// Days from one time of a window to the next.
fn days(context: &BatchContext, row: usize) -> f32 {
    let time = context.time();
    let next = row + context.window().stride;
    ((time.seconds(next) - time.seconds(row)) / 86_400.0) as f32
}

/// The first time of a label of one sample, or of its prediction: `(y, x)` per channel, in physical
/// units, NaN on land.
fn physical(batch: &ModelBatch, label: Tensor<4>) -> Result<Vec<Vec<f32>>> {
    let context = batch.context();
    let values = batch.physical(Role::Label, label)?.into_data();
    let values: Vec<f32> = values.iter::<f32>().collect();
    let planes = values.chunks_exact(context.label_shape().cells());
    Ok(planes
        .take(context.prognostic().len())
        .map(<[f32]>::to_vec)
        .collect())
}
