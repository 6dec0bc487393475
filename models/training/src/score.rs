//! How good a forecast is: area-weighted root mean square errors, beside persistence.

use anyhow::{Context, Result, ensure};
use burn::data::dataloader::DataLoader;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_om4::ocean::{AreaSource, CellAreaWeights, Grid};
use burn_om4::{BatchContext, ModelBatch, OceanLoader};
use samudra::{Rollout, Samudra};
use serde::Serialize;

/// Mean squared errors of every channel and lead, over all windows seen, in physical units.
///
/// ```text
///  mse(channel, lead) = sum over windows and wet cells of area * error^2
///                       / (windows * sum over wet cells of area)
/// ```
#[derive(Clone, Debug)]
pub struct Scores {
    /// Prognostic channels.
    channels: usize,
    /// Weighted sums of squares, `[lead][channel]`.
    model: Vec<Vec<f64>>,
    persistence: Vec<Vec<f64>>,
    /// What a window adds to the weights, per channel.
    weight: Vec<f64>,
    windows: usize,
}

impl Scores {
    /// Root mean square error of the network at leads 1, 2 and so on, in the channel's unit.
    pub fn model(&self, channel: usize) -> Vec<f64> {
        self.roots(&self.model, channel)
    }

    /// The same for the last input time, held.
    pub fn persistence(&self, channel: usize) -> Vec<f64> {
        self.roots(&self.persistence, channel)
    }

    /// Error at lead 1 over persistence's. A channel has none where persistence makes no error, as with
    /// ice that is nowhere, all through validation, or where no cell counts.
    pub fn ratio_of(&self, channel: usize) -> Option<f64> {
        let persistence = self.persistence(channel)[0];
        let some = self.weight[channel] > 0.0 && persistence != 0.0;
        some.then(|| self.model(channel)[0] / persistence)
    }

    /// The mean of [`ratio_of`](Self::ratio_of) over the channels that have one: below 1 the network has
    /// skill.
    pub fn ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = (0..self.channels)
            .filter_map(|c| self.ratio_of(c))
            .collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// Whether the network predicted numbers wherever a cell counts.
    pub fn finite(&self) -> bool {
        self.model.iter().flatten().all(|sum| sum.is_finite())
    }

    /// Windows scored.
    pub fn windows(&self) -> usize {
        self.windows
    }

    fn roots(&self, sums: &[Vec<f64>], channel: usize) -> Vec<f64> {
        let total = self.weight[channel] * self.windows as f64;
        sums.iter()
            .map(|lead| (lead[channel] / total).sqrt())
            .collect()
    }
}

/// Adds up squared errors, batch by batch.
pub struct Scorer {
    scores: Scores,
    /// Area of wet cells over the largest area, `(time*channel, y, x)` of a label; 0 elsewhere.
    weights: Tensor<3>,
    /// Variance that one normalised unit stands for, per channel.
    scale: Vec<f64>,
}

/// What counts a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// Its area, as the store says it.
    CellArea,
    /// The cosine of its latitude.
    CosLatitude,
    /// As much as any other: the store has neither areas nor latitudes.
    None,
}

/// Weight of each cell, `(y, x)` in C order, never negative.
fn cell_weights(grid: &Grid) -> Result<(Vec<f64>, Weighting)> {
    let known = grid.cell_area().is_some() || grid.latitude().is_some();
    if !known {
        return Ok((vec![1.0; grid.ny() * grid.nx()], Weighting::None));
    }
    let CellAreaWeights { weights, source } = grid.cell_area_weights()?;
    let source = match source {
        AreaSource::CellArea => Weighting::CellArea,
        AreaSource::CosLatitude => Weighting::CosLatitude,
    };
    Ok((weights, source))
}

/// How the cells of a store are weighted, and which of its channels have no error at all: to be known
/// before training.
///
/// # Errors
/// A channel none of whose ocean cells has an area.
pub fn weighting(context: &BatchContext) -> Result<(Weighting, Vec<String>)> {
    let (area, weighting) = cell_weights(context.grid())?;
    let mut dry = Vec::new();
    for (c, channel) in context.prognostic().iter().enumerate() {
        let wet = context.constants(c).wet.as_slice();
        let mut cells = area.iter().zip(wet).filter(|(_, wet)| **wet).peekable();
        if cells.peek().is_none() {
            dry.push(channel.name().to_owned());
            continue;
        }
        ensure!(
            cells.any(|(area, _)| *area > 0.0),
            "the error of a forecast needs areas of cells: those of {channel}'s ocean cells are all 0"
        );
    }
    Ok((weighting, dry))
}

impl Scorer {
    /// For batches of this context, on `device`.
    ///
    /// # Errors
    /// None beside those of the grid, which were met when the store was opened.
    pub fn new(context: &BatchContext, device: &Device) -> Result<Self> {
        let (area, _) = cell_weights(context.grid())?;
        let largest = area.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let channels = context.prognostic().len();
        let window = context.window();
        let leads = window.times() * window.steps;

        let mut planes = Vec::with_capacity(channels * area.len());
        let mut weight = Vec::with_capacity(channels);
        let mut scale = Vec::with_capacity(channels);
        for channel in 0..channels {
            let constants = context.constants(channel);
            let cells = area.iter().zip(constants.wet.as_slice());
            // As the device sums them: float32.
            let cells = cells.map(|(area, wet)| if *wet { (area / largest) as f32 } else { 0.0 });
            let before = planes.len();
            planes.extend(cells);
            weight.push(planes[before..].iter().map(|w| f64::from(*w)).sum());
            scale.push(f64::from(constants.std).powi(2));
        }
        let shape = [channels, context.shape().ny, context.shape().nx];
        let plane = Tensor::<3>::from_data(TensorData::new(planes, shape), (device, DType::F32));
        let sums = vec![vec![0.0; channels]; leads];
        Ok(Self {
            scores: Scores {
                channels,
                model: sums.clone(),
                persistence: sums,
                weight,
                windows: 0,
            },
            weights: plane.repeat(&[window.times(), 1, 1]),
            scale,
        })
    }

    /// Predicts a batch with `network` and adds its errors.
    ///
    /// # Errors
    /// The batch lacks its first input.
    pub fn add(&mut self, network: &Samudra, batch: &ModelBatch) -> Result<()> {
        let input = batch.input(0)?;
        let channels = self.scores.channels;
        let times = batch.context().window().times();
        let held = input.clone().narrow(1, (times - 1) * channels, channels);
        let held = held.repeat(&[1, times, 1, 1]);
        let mut rollout = Rollout::new(network, input, batch.label_mask());
        for step in 0..batch.steps() {
            let label = batch.label(step);
            let predicted = rollout.step(batch.boundary(step));
            let first_lead = step * times;
            let model = self.squares(predicted - label.clone(), batch);
            self.scatter(|s| &mut s.model, first_lead, model);
            let persistence = self.squares(held.clone() - label, batch);
            self.scatter(|s| &mut s.persistence, first_lead, persistence);
        }
        self.scores.windows += batch.len();
        Ok(())
    }

    /// What was added up.
    pub fn finish(self) -> Scores {
        self.scores
    }

    /// Weighted squares of an error `(batch, time*channel, y, x)`, per `time*channel`. The device
    /// sums rows, the host adds rows up in float64.
    fn squares(&self, error: Tensor<4>, batch: &ModelBatch) -> Vec<f64> {
        let [n, planes, ny, nx] = error.dims();
        let land = batch.label_mask().bool_not().unsqueeze::<4>();
        let error = error.mask_fill(land.expand([n, planes, ny, nx]), 0.0);
        let weights = self.weights.clone().unsqueeze::<4>();
        let rows = (error.clone() * error * weights).sum_dim(3).into_data();
        let rows: Vec<f64> = rows.iter::<f64>().collect();
        let mut sums = vec![0.0; planes];
        for (i, rows) in rows.chunks_exact(ny).enumerate() {
            sums[i % planes] += rows.iter().sum::<f64>();
        }
        sums
    }

    fn scatter(
        &mut self,
        field: impl Fn(&mut Scores) -> &mut Vec<Vec<f64>>,
        first_lead: usize,
        sums: Vec<f64>,
    ) {
        let leads = &mut field(&mut self.scores)[first_lead..];
        for (lead, sums) in leads.iter_mut().zip(sums.chunks_exact(self.scale.len())) {
            for ((total, sum), scale) in lead.iter_mut().zip(sums).zip(&self.scale) {
                *total += sum * scale;
            }
        }
    }
}

/// Scores `network` on every window of `loader`.
///
/// # Errors
/// A failed read.
pub fn validate(network: &Samudra, loader: &OceanLoader, device: &Device) -> Result<Scores> {
    let context = loader.batcher().dataset().context(0);
    let mut scorer = Scorer::new(context, &device.clone().inner())?;
    for batch in loader.iter() {
        let batch = batch.context("reading a validation batch")?;
        scorer.add(network, &batch)?;
    }
    Ok(scorer.finish())
}
