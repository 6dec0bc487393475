//! The original's own model configuration.

use serde::Deserialize;

use crate::config::{
    CoordinateChannels, NormKind, PerceiverConfig, PointwiseKind, Precision, Prediction,
    SamudraConfig, UpsampleKind,
};
use crate::error::{Error, Result};

/// The `model` section of the original's training configuration: a U-Net, or with the key `perceiver`
/// SamudraMini.
///
/// Deserialise it with any serde format; defaults are the original's, unknown keys are errors.
/// [`into_config`](Self::into_config) turns it into a [`SamudraConfig`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginalModel {
    /// Predict the change instead of the state.
    pub pred_residuals: bool,
    /// Edge length of the decoder's kernel.
    pub last_kernel_size: usize,
    /// Only `circular`.
    pub pad: String,
    /// Recomputation in the backward pass. Not used here: it changes memory, and how often batch
    /// norm sees a batch, but no output.
    pub checkpointing: Option<String>,
    /// Interval at which a rollout cuts the gradient; 0 never.
    pub gradient_detach_interval: usize,
    /// Append the cell's position on the unit sphere.
    pub add_3d_coordinates: bool,
    /// Learned constant channels.
    pub pos_channels: usize,
    /// bfloat16 before the decoder; see [`Precision`]. By default false, with a Perceiver true.
    pub use_bfloat16: Option<bool>,
    /// The backbone, unless it is a Perceiver.
    pub unet: Option<OriginalUNet>,
    /// The Perceiver's latents; it makes the network a SamudraMini.
    pub perceiver: Option<OriginalPerceiver>,
    /// Which of two equal implementations; of no effect here.
    pub perceiver_implementation: Option<String>,
    /// With a Perceiver: size of an embedded cell, 128 by default.
    pub embedding_dim: Option<usize>,
    /// With a Perceiver: size of a query, 128 by default.
    pub queries_dim: Option<usize>,
    /// With a Perceiver: inner width of the embeddings of places, 64 by default.
    pub coordinate_embedding_dim: Option<usize>,
    /// With a Perceiver: cells decoded at once, all by default.
    pub query_chunk_size: Option<usize>,
}

/// The `model.perceiver` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginalPerceiver {
    /// How often the latents attend to themselves.
    pub depth: usize,
    /// Size of a latent.
    pub latent_dim: usize,
    /// Number of latents.
    pub num_latents: usize,
}

impl Default for OriginalPerceiver {
    fn default() -> Self {
        Self {
            depth: 6,
            latent_dim: 128,
            num_latents: 512,
        }
    }
}

/// The `model.unet` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginalUNet {
    /// Widths, one per level.
    pub ch_width: Vec<usize>,
    /// Dilations, one per level.
    pub dilation: Vec<usize>,
    /// Blocks per level; only ones.
    pub n_layers: Vec<usize>,
    /// The block.
    pub core_block: OriginalBlock,
    /// Only `avg_pool`.
    pub down_sampling_block: String,
    /// `bilinear_upsample` or `zonally_periodic_upsample`.
    pub up_sampling_block: String,
    /// Only 0.
    pub drop_path_rate: f64,
}

/// The `model.unet.core_block` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginalBlock {
    /// Only `conv_next_block`.
    pub block_type: String,
    /// Only 3.
    pub kernel_size: usize,
    /// Only `capped_gelu`.
    pub activation: String,
    /// Inner width over input width.
    pub upscale_factor: usize,
    /// `batch` or `instance`.
    pub norm: String,
    /// Linear layers instead of 1 x 1 convolutions.
    pub pointwise_linear: bool,
}

impl Default for OriginalModel {
    fn default() -> Self {
        Self {
            pred_residuals: false,
            last_kernel_size: 3,
            pad: "circular".into(),
            checkpointing: None,
            gradient_detach_interval: 0,
            add_3d_coordinates: false,
            pos_channels: 0,
            use_bfloat16: None,
            unet: None,
            perceiver: None,
            perceiver_implementation: None,
            embedding_dim: None,
            queries_dim: None,
            coordinate_embedding_dim: None,
            query_chunk_size: None,
        }
    }
}

impl Default for OriginalUNet {
    fn default() -> Self {
        Self {
            ch_width: vec![200, 250, 300, 400],
            dilation: vec![1, 2, 4, 8],
            n_layers: vec![1, 1, 1, 1],
            core_block: OriginalBlock::default(),
            down_sampling_block: "avg_pool".into(),
            up_sampling_block: "zonally_periodic_upsample".into(),
            drop_path_rate: 0.0,
        }
    }
}

impl Default for OriginalBlock {
    fn default() -> Self {
        Self {
            block_type: "conv_next_block".into(),
            kernel_size: 3,
            activation: "capped_gelu".into(),
            upscale_factor: 4,
            norm: "batch".into(),
            pointwise_linear: false,
        }
    }
}

impl OriginalModel {
    /// The same network as a [`SamudraConfig`], for as many variables as the data has.
    ///
    /// # Errors
    ///
    /// [`Error::UnsupportedOption`] for a choice that this crate does not build, and what
    /// [`SamudraConfig::validate`] reports.
    pub fn into_config(
        self,
        prognostic_vars: usize,
        boundary_vars: usize,
        history: usize,
    ) -> Result<SamudraConfig> {
        only("pad", &self.pad, "circular")?;
        if let Some(perceiver) = &self.perceiver {
            let variables = (prognostic_vars, boundary_vars, history);
            return self.mini(perceiver, variables);
        }
        for (key, value) in [
            ("embedding_dim", self.embedding_dim),
            ("queries_dim", self.queries_dim),
            ("coordinate_embedding_dim", self.coordinate_embedding_dim),
            ("query_chunk_size", self.query_chunk_size),
        ] {
            if let Some(value) = value {
                return Err(unsupported(key, format!("{value} without perceiver")));
            }
        }
        let unet = self.unet.unwrap_or_default();
        let block = unet.core_block;
        only(
            "unet.core_block.block_type",
            &block.block_type,
            "conv_next_block",
        )?;
        only("unet.core_block.kernel_size", block.kernel_size, 3)?;
        only(
            "unet.core_block.activation",
            &block.activation,
            "capped_gelu",
        )?;
        only(
            "unet.down_sampling_block",
            &unet.down_sampling_block,
            "avg_pool",
        )?;
        only("unet.drop_path_rate", unet.drop_path_rate, 0.0)?;
        for layers in &unet.n_layers {
            only("unet.n_layers", *layers, 1)?;
        }
        let norm = match &*block.norm {
            "batch" => NormKind::Batch,
            "instance" => NormKind::Instance,
            other => return Err(unsupported("unet.core_block.norm", other)),
        };
        let upsample = match &*unet.up_sampling_block {
            "bilinear_upsample" => UpsampleKind::Bilinear,
            "zonally_periodic_upsample" => UpsampleKind::ZonallyPeriodic,
            other => return Err(unsupported("unet.up_sampling_block", other)),
        };
        let config = SamudraConfig {
            prognostic_vars,
            boundary_vars,
            history,
            widths: unet.ch_width,
            dilations: unet.dilation,
            upscale_factor: block.upscale_factor,
            norm,
            upsample,
            pointwise: match block.pointwise_linear {
                true => PointwiseKind::Linear,
                false => PointwiseKind::Convolution,
            },
            last_kernel_size: self.last_kernel_size,
            prediction: prediction(self.pred_residuals),
            positional_channels: self.pos_channels,
            coordinates: match self.add_3d_coordinates {
                true => CoordinateChannels::UnitSphere,
                false => CoordinateChannels::None,
            },
            gradient_detach_interval: self.gradient_detach_interval,
            precision: precision(self.use_bfloat16.unwrap_or(false)),
            perceiver: None,
        };
        config.validate()?;
        Ok(config)
    }

    fn mini(
        &self,
        perceiver: &OriginalPerceiver,
        (prognostic_vars, boundary_vars, history): (usize, usize, usize),
    ) -> Result<SamudraConfig> {
        only("add_3d_coordinates", self.add_3d_coordinates, false)?;
        only("pos_channels", self.pos_channels, 0)?;
        if self.unet.is_some() {
            return Err(unsupported("unet", "beside perceiver"));
        }
        let sizes = PerceiverConfig {
            depth: perceiver.depth,
            latent_dim: perceiver.latent_dim,
            num_latents: perceiver.num_latents,
            embedding_dim: self.embedding_dim.unwrap_or(128),
            queries_dim: self.queries_dim.unwrap_or(128),
            coordinate_embedding_dim: self.coordinate_embedding_dim.unwrap_or(64),
            query_chunk_size: self.query_chunk_size,
        };
        let config = SamudraConfig::new(prognostic_vars, boundary_vars)
            .with_history(history)
            .with_perceiver(Some(sizes))
            .with_prediction(prediction(self.pred_residuals))
            .with_gradient_detach_interval(self.gradient_detach_interval)
            .with_precision(precision(self.use_bfloat16.unwrap_or(true)));
        config.validate()?;
        Ok(config)
    }
}

fn precision(bfloat16: bool) -> Precision {
    match bfloat16 {
        true => Precision::BFloat16,
        false => Precision::Float32,
    }
}

fn prediction(residuals: bool) -> Prediction {
    match residuals {
        true => Prediction::Residual,
        false => Prediction::State,
    }
}

fn only<T: PartialEq<U> + std::fmt::Display, U>(key: &'static str, found: T, can: U) -> Result<()> {
    match found == can {
        true => Ok(()),
        false => Err(unsupported(key, found)),
    }
}

fn unsupported(key: &'static str, value: impl std::fmt::Display) -> Error {
    Error::UnsupportedOption {
        key,
        value: value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_classes_defaults() {
        let config = OriginalModel::default().into_config(77, 4, 1).unwrap();
        let expected = SamudraConfig::v1().with_upsample(UpsampleKind::ZonallyPeriodic);
        assert_eq!(config, expected);
    }

    #[test]
    fn what_is_not_built_is_named() {
        let with = |change: fn(&mut OriginalUNet)| {
            let mut unet = OriginalUNet::default();
            change(&mut unet);
            let unet = Some(unet);
            let model = OriginalModel {
                unet,
                ..OriginalModel::default()
            };
            model.into_config(1, 1, 1)
        };
        let error = with(|unet| unet.core_block.norm = "layer".into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unsupported model configuration: unet.core_block.norm = layer"
        );
        assert!(with(|unet| unet.drop_path_rate = 0.1).is_err());
        let model = OriginalModel {
            queries_dim: Some(8),
            ..OriginalModel::default()
        };
        let error = model.into_config(1, 1, 1).unwrap_err().to_string();
        assert!(
            error.contains("queries_dim = 8 without perceiver"),
            "{error}"
        );
    }
}
