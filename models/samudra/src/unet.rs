//! The U-Net: down, through, up, with a bridge at every level.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::module::avg_pool2d;
use burn::tensor::ops::AvgPoolOptions;

use crate::block::ConvNeXtBlock;
use crate::config::{SamudraConfig, UpsampleKind};
use crate::init::Init;
use crate::pad::centre;
use crate::state_walk::Visit;
use crate::upsample::upsample;

/// The backbone; the crate's documentation draws it.
#[derive(Module, Debug)]
pub(crate) struct UNet {
    /// Finest level first.
    down: Vec<ConvNeXtBlock>,
    middle: ConvNeXtBlock,
    /// Coarsest level first.
    up: Vec<ConvNeXtBlock>,
    #[module(skip)]
    upsample: UpsampleKind,
}

impl UNet {
    pub(crate) fn new(init: &Init<'_>, config: &SamudraConfig) -> Self {
        let mut blocks = config
            .blocks()
            .into_iter()
            .map(|spec| ConvNeXtBlock::new(init, &layer_name(spec.layer), &spec, config));
        let levels = config.levels();
        let down = blocks.by_ref().take(levels).collect();
        let middle = blocks.next().expect("a block follows the way down");
        Self {
            down,
            middle,
            up: blocks.collect(),
            upsample: config.upsample,
        }
    }

    /// `(batch, in, y, x)` to `(batch, widths[0], y, x)`. `watch` sees the output of each block
    /// with the block's index in the original's layer list.
    pub(crate) fn forward(
        &self,
        x: Tensor<4>,
        watch: &mut dyn FnMut(usize, &Tensor<4>),
    ) -> Tensor<4> {
        let mut layers = (0..).step_by(2);
        let mut run = |block: &ConvNeXtBlock, x: Tensor<4>| {
            let x = block.forward(x);
            watch(layers.next().expect("endless"), &x);
            x
        };
        let mut x = x;
        let mut bridges = Vec::with_capacity(self.down.len());
        for block in &self.down {
            x = run(block, x);
            bridges.push(x.clone());
            // Odd sizes lose their last row or column here and get it back as zeros below.
            x = avg_pool2d(x, AvgPoolOptions::new([2, 2]));
        }
        x = run(&self.middle, x);
        for block in &self.up {
            let bridge = bridges.pop().expect("one bridge per level");
            let [_, _, ny, nx] = bridge.dims();
            x = centre(upsample(x, self.upsample), ny, nx) + bridge;
            x = run(block, x);
        }
        x
    }

    pub(crate) fn slots(&mut self, visit: &mut Visit<'_>) {
        let blocks = self
            .down
            .iter_mut()
            .chain([&mut self.middle])
            .chain(&mut self.up);
        for (i, block) in blocks.enumerate() {
            block.slots(&layer_name(2 * i), visit);
        }
    }
}

fn layer_name(layer: usize) -> String {
    format!("unet.layers.{layer}")
}
