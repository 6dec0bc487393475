//! Ocean data from memory: planes of the published sizes, without a disk.

use anyhow::{Result, ensure};
use burn_om4::dataset::OceanPair;
use burn_om4::ocean::{PlaneRequest, PlaneShape, PlaneSink, PlaneSource, ReadCounts, WetMask};
use burn_om4::prepare::ChannelConstants;
use burn_om4::testing::ocean_on;
use burn_om4::{
    Channel, DatasetOptions, MaskOrder, OceanDataset, Strictness, WindowOptions, preset,
};
use rayon::prelude::*;
use std::sync::Arc;

/// Quarter degree, as published: 4,147,200 bytes per plane.
pub(crate) const QUARTER_DEGREE: PlaneShape = PlaneShape { ny: 720, nx: 1440 };
/// One degree: 259,200 bytes per plane.
pub(crate) const ONE_DEGREE: PlaneShape = PlaneShape { ny: 180, nx: 360 };
/// For thousands of batches.
pub(crate) const TINY: PlaneShape = PlaneShape { ny: 24, nx: 36 };

/// Different planes kept in memory; a prime, so that rows and channels do not repeat in step.
const BANK: usize = 13;

/// What is written into a plane that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// All of it, as a store would.
    Whole,
    /// Its first cell: the memory is as it was left, and reading costs nothing. For measuring what
    /// comes after it.
    Stamp,
}

/// An ocean to make up.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub shape: PlaneShape,
    pub prognostic: Vec<Channel>,
    pub boundary: Vec<Channel>,
    pub rows: usize,
    pub window: WindowOptions,
    pub order: MaskOrder,
    pub filling: Filling,
}

impl Case {
    /// A year of the published channels, or of the first `prognostic` of them; one step, one time of
    /// history.
    pub(crate) fn new(shape: PlaneShape, prognostic: usize, rows: usize) -> Self {
        let mut channels = preset("thermo_dynamic_all").unwrap_or_default();
        channels.truncate(prognostic);
        Self {
            shape,
            prognostic: channels,
            boundary: preset("tau_hfds").unwrap_or_default(),
            rows,
            window: WindowOptions::default().with_history(1).with_steps(1),
            order: MaskOrder::NormaliseFirst,
            filling: Filling::Whole,
        }
    }

    pub(crate) fn with_window(self, history: usize, steps: usize) -> Self {
        let window = WindowOptions::default()
            .with_history(history)
            .with_steps(steps);
        Self { window, ..self }
    }

    pub(crate) fn with_order(self, order: MaskOrder) -> Self {
        Self { order, ..self }
    }

    pub(crate) fn stamped(self) -> Self {
        Self {
            filling: Filling::Stamp,
            ..self
        }
    }

    /// # Errors
    /// Too few rows for a window.
    pub(crate) fn dataset(&self) -> Result<OceanDataset> {
        let channels: Vec<Channel> = [&self.prognostic[..], &self.boundary[..]].concat();
        ensure!(!channels.is_empty(), "a case needs channels");
        let constants = constants(self.shape, channels.len())?;
        let source = MadeUp {
            bank: bank(self.shape),
            channels,
            rows: self.rows,
            shape: self.shape,
            filling: self.filling,
        };
        let ocean = ocean_on(source, constants)?;
        let options = DatasetOptions::new(self.prognostic.clone(), self.boundary.clone())
            .with_window(self.window.clone())
            // Some values are infinite, on purpose.
            .with_strictness(Strictness::Lenient)
            .with_mask_order(self.order)
            .with_masked_fill_value(-0.5);
        let pair = OceanPair {
            input: ocean,
            label: None,
        };
        Ok(OceanDataset::from_oceans(vec![pair], &options)?)
    }
}

/// Every kind of value that has a rule of its own, among ordinary ones.
fn value(plane: usize, cell: usize) -> f32 {
    match (plane * 3 + cell) % 97 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => 1e30,
        4 => -0.0,
        k => (k * 100 + plane * 10 + cell % 1009) as f32 * 0.37 - 300.0,
    }
}

fn bank(shape: PlaneShape) -> Vec<Vec<f32>> {
    let plane = |plane| (0..shape.cells()).map(|cell| value(plane, cell)).collect();
    (0..BANK).into_par_iter().map(plane).collect()
}

/// Means and deviations that differ by channel; one deviation is 0, one so small that narrow types
/// overflow. The first cell, where the stamp is, is ocean everywhere.
pub(crate) fn constants(shape: PlaneShape, channels: usize) -> Result<Vec<ChannelConstants>> {
    let masks: Vec<Arc<WetMask>> = (0..3)
        .map(|level| {
            let wet = (0..shape.cells()).map(|cell| !(cell + level + 1).is_multiple_of(4));
            Ok(Arc::new(WetMask::new(shape, wet.collect())?))
        })
        .collect::<Result<_>>()?;
    let of = |channel: usize| ChannelConstants {
        mean: channel as f32 * 1.7 - 40.0,
        std: match channel {
            1 => 0.0,
            2 => 0.003,
            _ => 12.3 + channel as f32,
        },
        wet: masks[channel % masks.len()].clone(),
    };
    Ok((0..channels).map(of).collect())
}

/// Planes of a bank, each with a stamp of its own in the first cell.
struct MadeUp {
    bank: Vec<Vec<f32>>,
    channels: Vec<Channel>,
    rows: usize,
    shape: PlaneShape,
    filling: Filling,
}

impl PlaneSource for MadeUp {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn shape(&self) -> PlaneShape {
        self.shape
    }

    fn read(
        &self,
        request: &PlaneRequest<'_>,
        sink: &dyn PlaneSink,
    ) -> burn_om4::Result<ReadCounts> {
        request.check(self)?;
        let n = request.channels.len();
        let fill = |plane: usize| {
            let (row, channel) = (request.rows[plane / n], request.channels[plane % n]);
            sink.fill(plane..plane + 1, &mut |memory| {
                if self.filling == Filling::Whole {
                    memory.copy_from_slice(&self.bank[(row * 7 + channel) % BANK]);
                }
                memory[0] = (row * 1000 + channel) as f32;
                Ok(())
            })
        };
        (0..request.planes()).into_par_iter().try_for_each(fill)?;
        let planes = request.planes() as u64;
        Ok(ReadCounts {
            planes,
            chunks: planes,
            ..ReadCounts::default()
        })
    }

    fn planned_chunks(&self, request: &PlaneRequest<'_>) -> burn_om4::Result<u64> {
        request.check(self)?;
        Ok(request.planes() as u64)
    }
}
