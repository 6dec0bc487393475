//! What a network looks like: widths, dilations, variants, presets.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::grid::Grid;

/// The normalisation after each 3 x 3 convolution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Statistics over batch, latitude and longitude, with a learned scale and shift, and running
    /// statistics for evaluation.
    Batch,
    /// Statistics over latitude and longitude of each sample; nothing learned, nothing kept.
    Instance,
}

/// How a coarse level is brought back to the finer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpsampleKind {
    /// Bilinear, clamped at every edge, the date line included.
    Bilinear,
    /// Bilinear, and the first and last column of a row are neighbours.
    ZonallyPeriodic,
}

/// How the weights of the 1 x 1 layers are stored.
///
/// The two compute the same; they differ in the names and shapes of a state dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointwiseKind {
    /// `(out, in, 1, 1)`, named as a convolution.
    Convolution,
    /// `(out, in)`, named as a linear layer.
    Linear,
}

/// What the decoder's output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// The next state.
    State,
    /// The change from the prognostic input to the next state.
    Residual,
}

/// Constant channels that tell the network where a cell lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinateChannels {
    /// None.
    None,
    /// The three coordinates of the cell on the unit sphere.
    UnitSphere,
}

/// The arithmetic of everything before the decoder.
///
/// **This crate always computes in f32.** The original's highres preset runs its U-Net under
/// bfloat16 autocast; the choice is kept here so that a configuration survives a round trip, and
/// weights are f32 either way. Outputs then differ from the original's by bfloat16 rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32-bit floats.
    Float32,
    /// bfloat16 activations in the original; f32 here.
    BFloat16,
}

/// The sizes of a Perceiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerceiverConfig {
    /// How often the latents attend to themselves, by the same weights.
    pub depth: usize,
    /// Size of a latent.
    pub latent_dim: usize,
    /// Number of latents.
    pub num_latents: usize,
    /// Size of an embedded cell.
    pub embedding_dim: usize,
    /// Size of a query.
    pub queries_dim: usize,
    /// Inner width of the embeddings of places.
    pub coordinate_embedding_dim: usize,
    /// Cells decoded at once; all when absent. It changes memory and no output.
    #[serde(default)]
    pub query_chunk_size: Option<usize>,
}

/// The shape of a Samudra network.
///
/// Start from a preset or from [`SamudraConfig::new`], and change what differs.
///
/// ```
/// use samudra::{NormKind, SamudraConfig};
///
/// let config = SamudraConfig::v2().with_history(0).with_norm(NormKind::Instance);
/// assert_eq!(config.in_channels(), 77 + 4);
/// assert_eq!(config.out_channels(), 77);
/// ```
// No `#[derive(Config)]`: what it derives (burn-derive 0.22.1) accepts unknown keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamudraConfig {
    /// Prognostic variables at one time, one level each.
    pub prognostic_vars: usize,
    /// Boundary variables at one time.
    pub boundary_vars: usize,
    /// Earlier times that the input holds beside the current one; `hist` in older files.
    #[serde(alias = "hist")]
    pub history: usize,
    /// Output channels of the blocks on the way down, one per level.
    pub widths: Vec<usize>,
    /// Dilations of the 3 x 3 convolutions, one per level.
    pub dilations: Vec<usize>,
    /// A block's inner width is its input width times this.
    pub upscale_factor: usize,
    /// Normalisation in the blocks.
    pub norm: NormKind,
    /// Upsampling between the levels.
    pub upsample: UpsampleKind,
    /// Storage of the 1 x 1 layers.
    pub pointwise: PointwiseKind,
    /// Edge length of the decoder's kernel; odd.
    pub last_kernel_size: usize,
    /// Meaning of the output.
    pub prediction: Prediction,
    /// Learned constant input channels.
    pub positional_channels: usize,
    /// Fixed constant input channels.
    pub coordinates: CoordinateChannels,
    /// A rollout cuts the gradient before step k when k is a positive multiple of this; 0 never.
    pub gradient_detach_interval: usize,
    /// Arithmetic before the decoder; see [`Precision`] for what this crate does.
    pub precision: Precision,
    /// A Perceiver in place of the U-Net, whose fields (widths to `last_kernel_size`, constant channels)
    /// do not count then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perceiver: Option<PerceiverConfig>,
}

macro_rules! with {
    ($($(#[$doc:meta])* $name:ident($field:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl SamudraConfig {
    /// The defaults of the v2 network for other channels: history 1, batch norm, zonally periodic.
    pub fn new(prognostic_vars: usize, boundary_vars: usize) -> Self {
        Self {
            prognostic_vars,
            boundary_vars,
            history: 1,
            widths: vec![280, 380, 480, 520],
            dilations: vec![1, 2, 4, 8],
            upscale_factor: 2,
            norm: NormKind::Batch,
            upsample: UpsampleKind::ZonallyPeriodic,
            pointwise: PointwiseKind::Convolution,
            last_kernel_size: 3,
            prediction: Prediction::State,
            positional_channels: 0,
            coordinates: CoordinateChannels::None,
            gradient_detach_interval: 0,
            precision: Precision::Float32,
            perceiver: None,
        }
    }

    /// Samudra v1 on OM4: 77 + 4 variables, 135,376,762 parameters.
    pub fn v1() -> Self {
        Self::new(77, 4)
            .with_widths(vec![200, 250, 300, 400])
            .with_upscale_factor(4)
            .with_upsample(UpsampleKind::Bilinear)
    }

    /// Samudra v2 on OM4: 77 + 4 variables, 84,066,474 parameters.
    pub fn v2() -> Self {
        Self::new(77, 4)
    }

    /// Samudra v2 for high resolution: instance norm, 84,038,618 parameters.
    ///
    /// The original computes in bfloat16; see [`Precision`].
    pub fn v2_highres() -> Self {
        Self::v2()
            .with_norm(NormKind::Instance)
            .with_precision(Precision::BFloat16)
    }

    /// SamudraMini on OM4: a Perceiver, 77 + 4 variables, 759,130 parameters. It needs the grid's
    /// coordinates.
    ///
    /// The original computes in bfloat16; see [`Precision`].
    pub fn mini() -> Self {
        let sizes = PerceiverConfig {
            depth: 4,
            latent_dim: 96,
            num_latents: 256,
            embedding_dim: 128,
            queries_dim: 128,
            coordinate_embedding_dim: 64,
            query_chunk_size: Some(8192),
        };
        Self::new(77, 4)
            .with_perceiver(Some(sizes))
            .with_precision(Precision::BFloat16)
    }

    /// A network of two levels that trains in moments on a CPU, for grids from 4 x 8 up.
    pub fn tiny(prognostic_vars: usize, boundary_vars: usize) -> Self {
        Self::new(prognostic_vars, boundary_vars)
            .with_widths(vec![16, 24])
            .with_dilations(vec![1, 2])
    }

    with! {
        /// Sets the number of earlier times in the input.
        with_history(history: usize);
        /// Sets the widths, one per level.
        with_widths(widths: Vec<usize>);
        /// Sets the dilations, one per level.
        with_dilations(dilations: Vec<usize>);
        /// Sets the factor between a block's input width and its inner width.
        with_upscale_factor(upscale_factor: usize);
        /// Sets the normalisation.
        with_norm(norm: NormKind);
        /// Sets the upsampling.
        with_upsample(upsample: UpsampleKind);
        /// Sets how 1 x 1 layers are stored.
        with_pointwise(pointwise: PointwiseKind);
        /// Sets the decoder's kernel size.
        with_last_kernel_size(last_kernel_size: usize);
        /// Sets what the output means.
        with_prediction(prediction: Prediction);
        /// Sets the number of learned constant channels.
        with_positional_channels(positional_channels: usize);
        /// Sets the fixed constant channels.
        with_coordinates(coordinates: CoordinateChannels);
        /// Sets the interval at which a rollout cuts the gradient.
        with_gradient_detach_interval(gradient_detach_interval: usize);
        /// Sets the arithmetic; see [`Precision`].
        with_precision(precision: Precision);
        /// Sets the Perceiver in place of the U-Net.
        with_perceiver(perceiver: Option<PerceiverConfig>);
    }

    /// Times in the input, and in the output.
    pub fn times(&self) -> usize {
        self.history + 1
    }

    /// Channels of the prognostic input, and of the output: `(history + 1) * prognostic_vars`.
    pub fn out_channels(&self) -> usize {
        self.times() * self.prognostic_vars
    }

    /// Channels of the boundary input: `(history + 1) * boundary_vars`.
    pub fn boundary_channels(&self) -> usize {
        self.times() * self.boundary_vars
    }

    /// Channels that the first layer sees, constant ones included.
    pub fn in_channels(&self) -> usize {
        let variables = self.out_channels() + self.boundary_channels();
        if self.perceiver.is_some() {
            return variables;
        }
        let coordinates = match self.coordinates {
            CoordinateChannels::None => 0,
            CoordinateChannels::UnitSphere => 3,
        };
        variables + self.positional_channels + coordinates
    }

    /// U-Net levels, and so halvings of the grid.
    pub fn levels(&self) -> usize {
        self.widths.len()
    }

    /// Checks the configuration by itself.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`] for the first field that can not be.
    pub fn validate(&self) -> Result<()> {
        let fail = |field, reason: String| Err(Error::InvalidConfig { field, reason });
        if self.prognostic_vars == 0 {
            return fail("prognostic_vars", "is zero".into());
        }
        if let Some(sizes) = &self.perceiver {
            let PerceiverConfig {
                depth,
                latent_dim,
                num_latents,
                embedding_dim,
                queries_dim,
                coordinate_embedding_dim,
                query_chunk_size,
            } = sizes;
            let all = [
                depth,
                latent_dim,
                num_latents,
                embedding_dim,
                queries_dim,
                coordinate_embedding_dim,
                query_chunk_size.as_ref().unwrap_or(&1),
            ];
            return match all.contains(&&0) {
                true => fail("perceiver", format!("has a size of zero: {sizes:?}")),
                false => Ok(()),
            };
        }
        if self.widths.len() < 2 {
            return fail(
                "widths",
                format!("has {} levels, at least 2 are needed", self.widths.len()),
            );
        }
        if self.widths.contains(&0) {
            return fail("widths", "contains zero".into());
        }
        if self.dilations.len() != self.widths.len() {
            return fail(
                "dilations",
                format!(
                    "has {} entries for {} widths",
                    self.dilations.len(),
                    self.widths.len()
                ),
            );
        }
        if self.dilations.contains(&0) {
            return fail("dilations", "contains zero".into());
        }
        if self.upscale_factor == 0 {
            return fail("upscale_factor", "is zero".into());
        }
        if self.last_kernel_size.is_multiple_of(2) {
            return fail(
                "last_kernel_size",
                format!("is {}, but has to be odd", self.last_kernel_size),
            );
        }
        Ok(())
    }

    /// Checks that the network can run on a grid.
    ///
    /// # Errors
    ///
    /// What [`validate`](Self::validate) reports; [`Error::GridTooSmall`] when pooling leaves
    /// nothing; [`Error::GridTooNarrow`] when a circular padding is wider than its row;
    /// [`Error::Coordinates`] when the grid lacks the coordinates of
    /// [`CoordinateChannels::UnitSphere`] or of a Perceiver.
    pub fn validate_on(&self, grid: &Grid) -> Result<()> {
        self.validate()?;
        if self.perceiver.is_some() {
            return grid.coordinates().map(|_| ());
        }
        let (ny, nx, levels) = (grid.ny(), grid.nx(), self.levels());
        if ny >> levels == 0 || nx >> levels == 0 {
            return Err(Error::GridTooSmall { ny, nx, levels });
        }
        let decoder = BlockAt {
            level: 0,
            dilation: self.last_kernel_size / 2,
        };
        let blocks = self.blocks();
        for BlockAt { level, dilation } in blocks.iter().map(BlockSpec::at).chain([decoder]) {
            let columns = nx >> level;
            if columns < dilation {
                return Err(Error::GridTooNarrow {
                    level,
                    columns,
                    padding: dilation,
                });
            }
        }
        match self.coordinates {
            CoordinateChannels::None => Ok(()),
            CoordinateChannels::UnitSphere => grid.coordinates().map(|_| ()),
        }
    }

    /// Every block in the order of the forward pass.
    ///
    /// On the way up, the block that produces level `l` takes the dilation of the level it came
    /// from, and the last block takes the dilation of the one before it: the original's loop
    /// variable outlives its loop, and trained weights depend on it.
    pub(crate) fn blocks(&self) -> Vec<BlockSpec> {
        let n = self.levels();
        let mut blocks = Vec::with_capacity(2 * n + 1);
        let mut width = self.in_channels();
        for level in 0..n {
            blocks.push(BlockSpec {
                layer: 2 * level,
                level,
                channels_in: width,
                channels_out: self.widths[level],
                dilation: self.dilations[level],
            });
            width = self.widths[level];
        }
        blocks.push(BlockSpec {
            layer: 2 * n,
            level: n,
            channels_in: width,
            channels_out: width,
            dilation: self.dilations[n - 1],
        });
        for step in 0..n {
            let level = n - 1 - step;
            let channels_out = self.widths[level.saturating_sub(1)];
            blocks.push(BlockSpec {
                layer: 2 * (n + 1 + step),
                level,
                channels_in: width,
                channels_out,
                dilation: self.dilations[level.max(1)],
            });
            width = channels_out;
        }
        blocks
    }
}

/// One block: its place in the original's layer list, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockSpec {
    /// Index in `unet.layers`; odd indices are pooling and upsampling.
    pub layer: usize,
    /// How often the grid was halved where the block runs.
    pub level: usize,
    pub channels_in: usize,
    pub channels_out: usize,
    pub dilation: usize,
}

struct BlockAt {
    level: usize,
    dilation: usize,
}

impl BlockSpec {
    fn at(&self) -> BlockAt {
        BlockAt {
            level: self.level,
            dilation: self.dilation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_repeats_the_dilation_before_it() {
        let blocks = SamudraConfig::v1().blocks();
        let seen: Vec<_> = blocks
            .iter()
            .map(|b| (b.layer, b.level, b.channels_in, b.channels_out, b.dilation))
            .collect();
        assert_eq!(
            seen,
            [
                (0, 0, 162, 200, 1),
                (2, 1, 200, 250, 2),
                (4, 2, 250, 300, 4),
                (6, 3, 300, 400, 8),
                (8, 4, 400, 400, 8),
                (10, 3, 400, 300, 8),
                (12, 2, 300, 250, 4),
                (14, 1, 250, 200, 2),
                (16, 0, 200, 200, 2),
            ]
        );
    }

    #[test]
    fn dilation_8_after_four_poolings_needs_128_columns() {
        let config = SamudraConfig::v2();
        assert!(config.validate_on(&Grid::new(16, 128)).is_ok());
        let error = config.validate_on(&Grid::new(180, 127)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::GridTooNarrow {
                    level: 4,
                    columns: 7,
                    padding: 8
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn impossible_sizes_name_their_field() {
        let field = |config: SamudraConfig| match config.validate().unwrap_err() {
            Error::InvalidConfig { field, .. } => field,
            other => panic!("{other}"),
        };
        let tiny = || SamudraConfig::tiny(2, 1);
        assert_eq!(field(tiny().with_last_kernel_size(4)), "last_kernel_size");
        assert_eq!(field(tiny().with_dilations(vec![1])), "dilations");
        assert_eq!(field(tiny().with_dilations(vec![1, 0])), "dilations");
        assert_eq!(field(tiny().with_widths(vec![4])), "widths");
        assert_eq!(field(tiny().with_upscale_factor(0)), "upscale_factor");
        assert_eq!(field(SamudraConfig::tiny(0, 1)), "prognostic_vars");
        assert!(tiny().validate().is_ok());
    }

    #[test]
    fn too_few_rows_or_no_coordinates_are_refused() {
        let tiny = SamudraConfig::tiny(2, 1);
        assert!(tiny.validate_on(&Grid::new(4, 8)).is_ok());
        let error = tiny.validate_on(&Grid::new(3, 8)).unwrap_err();
        assert!(matches!(error, Error::GridTooSmall { ny: 3, .. }));
        let sphere = tiny.with_coordinates(CoordinateChannels::UnitSphere);
        assert!(sphere.validate_on(&Grid::new(4, 8)).unwrap_err().is_grid());
    }
}
