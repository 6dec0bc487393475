//! The block of the network, after ConvNeXt.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::config::{BlockSpec, SamudraConfig};
use crate::conv::{Conv, ConvShape};
use crate::init::Init;
use crate::norm::Norm;
use crate::state_walk::{Constant, Slot, Visit};

/// Activations end here.
const CAP: f32 = 10.0;

/// Two dilated 3 x 3 convolutions in a wider space, and a way around them.
///
/// ```text
///      in                         M = upscale * in
///  x --+-- 3x3 d -> M -- norm -- gelu -- 3x3 d -> M -- norm -- gelu -- 1x1 -> out --(+)--
///      |                                                                             |
///      +------------------- (1x1 -> out, unless in = out) ---------------------------+
/// ```
///
/// Unlike ConvNeXt's own block the convolutions are not depthwise, and nothing scales the
/// branches. The activation is the erf GELU, capped at 10.
#[derive(Module, Debug)]
pub(crate) struct ConvNeXtBlock {
    skip: Option<Conv>,
    expand: Conv,
    expand_norm: Norm,
    mix: Conv,
    mix_norm: Norm,
    project: Conv,
}

impl ConvNeXtBlock {
    pub(crate) fn new(
        init: &Init<'_>,
        name: &str,
        spec: &BlockSpec,
        config: &SamudraConfig,
    ) -> Self {
        let (channels_in, channels_out) = (spec.channels_in, spec.channels_out);
        let inner = channels_in * config.upscale_factor;
        let wide = |index: usize, channels_in| {
            let shape = ConvShape {
                channels_in,
                channels_out: inner,
                kernel: 3,
                dilation: spec.dilation,
            };
            Conv::new(init, &format!("{name}.convblock.{index}"), shape)
        };
        let pointwise = |layer: &str, channels_in| {
            let name = format!("{name}.{layer}");
            Conv::pointwise(init, &name, channels_in, channels_out, config.pointwise)
        };
        Self {
            skip: (channels_in != channels_out).then(|| pointwise("skip_module", channels_in)),
            expand: wide(0, channels_in),
            expand_norm: Norm::new(init, inner, config.norm),
            mix: wide(3, inner),
            mix_norm: Norm::new(init, inner, config.norm),
            project: pointwise("convblock.6", inner),
        }
    }

    /// `(batch, in, y, x)` to `(batch, out, y, x)`.
    pub(crate) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let skip = match &self.skip {
            Some(skip) => skip.forward(x.clone()),
            None => x.clone(),
        };
        let x = self.expand.forward(x);
        let x = self.expand_norm.forward_gelu(x, CAP);
        let x = self.mix.forward(x);
        let x = self.mix_norm.forward_gelu(x, CAP);
        self.project.forward_onto(skip, x)
    }

    pub(crate) fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        if let Some(skip) = &mut self.skip {
            skip.slots(&format!("{name}.skip_module"), visit);
        }
        let name = format!("{name}.convblock");
        self.expand.slots(&format!("{name}.0"), visit);
        self.expand_norm.slots(&format!("{name}.1"), visit);
        visit(&format!("{name}.2.cap"), Slot::Constant(Constant::Cap(CAP)));
        self.mix.slots(&format!("{name}.3"), visit);
        self.mix_norm.slots(&format!("{name}.4"), visit);
        visit(&format!("{name}.5.cap"), Slot::Constant(Constant::Cap(CAP)));
        self.project.slots(&format!("{name}.6"), visit);
    }
}
