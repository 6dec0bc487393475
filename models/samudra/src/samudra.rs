//! The whole network.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Bool, Device, Tensor};

use crate::config::{CoordinateChannels, Prediction, SamudraConfig};
use crate::conv::{Conv, ConvShape};
use crate::error::Result;
use crate::grid::Grid;
use crate::init::Init;
use crate::perceiver::Perceiver;
use crate::state_walk::{Slot, Visit};
use crate::unet::UNet;

/// A Samudra ocean emulator: one step from the state at `history + 1` times to the state at the
/// `history + 1` times after.
///
/// Built by [`SamudraConfig::init`]. On an autodiff device, as long as training is on, batch norm
/// uses and collects statistics of the batch; [`valid()`](Module::valid) gives the network for
/// evaluation.
///
/// A clone shares the running statistics of its batch norms with the original, as Burn's modules
/// do; `valid()` and loading make separate ones.
#[derive(Module, Debug)]
pub struct Samudra {
    body: Body,
    #[module(skip)]
    config: SamudraConfig,
}

/// From input channels to output channels.
// One network has one body: the size of the smaller kind does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
enum Body {
    Convolutions(Convolutions),
    Perceiver(Perceiver),
}

/// The U-Net and what stands around it.
#[derive(Module, Debug)]
struct Convolutions {
    positional: Option<Param<Tensor<3>>>,
    coordinates: Option<Tensor<4>>,
    unet: UNet,
    decoder: Conv,
}

/// A learned parameter, as the original names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedParameter {
    /// Name in a state dict, such as `unet.layers.0.convblock.0.weight`.
    pub name: String,
    /// The parameter's id, which gradients and optimiser states go by.
    pub id: ParamId,
    /// Shape in a state dict.
    pub shape: Vec<usize>,
}

impl SamudraConfig {
    /// A network with PyTorch's default initial values, drawn from `seed`.
    ///
    /// The same seed gives the same values on every device. Values are filled in on first use,
    /// so that a network that is loaded right away costs no more than its weights.
    ///
    /// # Errors
    ///
    /// What [`validate_on`](Self::validate_on) reports.
    pub fn init(&self, grid: &Grid, seed: u64, device: &Device) -> Result<Samudra> {
        self.validate_on(grid)?;
        let init = Init::new(seed, device);
        let body = match &self.perceiver {
            None => Body::Convolutions(Convolutions::new(&init, self, grid)?),
            Some(sizes) => {
                let places = grid.unit_sphere(device)?;
                Body::Perceiver(Perceiver::new(&init, self, sizes, places))
            }
        };
        Ok(Samudra {
            body,
            config: self.clone(),
        })
    }
}

const POSITIONAL: &str = "positional_params";
const DECODER: &str = "decoder";
/// Standard deviation of the positional parameters.
const POSITIONAL_STD: f64 = 1e-5;

impl Convolutions {
    fn new(init: &Init<'_>, config: &SamudraConfig, grid: &Grid) -> Result<Self> {
        let positional = (config.positional_channels > 0).then(|| {
            let shape = [config.positional_channels, grid.ny(), grid.nx()];
            init.normal(POSITIONAL, shape, POSITIONAL_STD)
        });
        let coordinates = match config.coordinates {
            CoordinateChannels::None => None,
            CoordinateChannels::UnitSphere => Some(grid.unit_sphere(init.device())?),
        };
        let decoder = ConvShape {
            channels_in: config.widths[0],
            channels_out: config.out_channels(),
            kernel: config.last_kernel_size,
            dilation: 1,
        };
        Ok(Self {
            positional,
            coordinates,
            unet: UNet::new(init, config),
            decoder: Conv::new(init, DECODER, decoder),
        })
    }

    /// `(batch, in, y, x)` to `(batch, out, y, x)`; `watch` as in [`UNet::forward`].
    fn forward(&self, x: Tensor<4>, watch: &mut dyn FnMut(usize, &Tensor<4>)) -> Tensor<4> {
        let [batch, _, ny, nx] = x.dims();
        let everywhere = |constant: Tensor<4>| {
            let channels = constant.dims()[1];
            constant.expand([batch, channels, ny, nx])
        };
        let mut inputs = vec![x];
        if let Some(positional) = &self.positional {
            inputs.push(everywhere(positional.val().unsqueeze()));
        }
        if let Some(coordinates) = &self.coordinates {
            inputs.push(everywhere(coordinates.clone()));
        }
        let features = self.unet.forward(Tensor::cat(inputs, 1), watch);
        self.decoder.forward(features)
    }

    fn slots(&mut self, visit: &mut Visit<'_>) {
        if let Some(positional) = &mut self.positional {
            visit(POSITIONAL, Slot::Planes(positional));
        }
        self.unet.slots(visit);
        self.decoder.slots(DECODER, visit);
    }
}

impl Samudra {
    /// What the network was built from.
    pub fn config(&self) -> &SamudraConfig {
        &self.config
    }

    /// One step.
    ///
    /// - `prognostic`: `(batch, (history + 1) * prognostic_vars, y, x)`, normalised, float32.
    /// - `boundary`: `(batch, (history + 1) * boundary_vars, y, x)`, normalised, float32.
    /// - `mask`: `((history + 1) * prognostic_vars, y, x)`, true where the output is ocean.
    ///
    /// Returns the next state in the shape of `prognostic`, zero on land; with
    /// [`Prediction::Residual`], the input plus the masked output, so that land keeps the
    /// input's values.
    ///
    /// Inputs may lie on the plain device of an autodiff network; they are constants then.
    ///
    /// # Panics
    ///
    /// If the shapes do not fit the network and each other, or a row is too narrow for the
    /// circular padding.
    pub fn forward(
        &self,
        prognostic: Tensor<4>,
        boundary: Tensor<4>,
        mask: Tensor<3, Bool>,
    ) -> Tensor<4> {
        let output = self.output(prognostic.clone(), boundary, mask);
        match self.config.prediction {
            Prediction::State => output,
            Prediction::Residual => prognostic + output,
        }
    }

    /// The network's own output, zero on land, before [`Prediction`] gives it its meaning: the
    /// next state, or the change. Shapes as in [`forward`](Self::forward).
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn output(
        &self,
        prognostic: Tensor<4>,
        boundary: Tensor<4>,
        mask: Tensor<3, Bool>,
    ) -> Tensor<4> {
        let output = self.unmasked(prognostic, boundary, &mut |_, _| {});
        let land = mask.bool_not().unsqueeze::<4>().expand(output.dims());
        // A fill, not a product: whatever the network makes of land, NaN included, is gone.
        output.mask_fill(land, 0.0)
    }

    /// The output of every block of the U-Net, `(batch, width, y, x)` at the block's level, with
    /// the block's index in the original's layer list: 0, 2, 4 and so on. For inspection; none of a
    /// Perceiver.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn activations(
        &self,
        prognostic: Tensor<4>,
        boundary: Tensor<4>,
    ) -> Vec<(usize, Tensor<4>)> {
        let mut seen = Vec::new();
        self.unmasked(prognostic, boundary, &mut |layer, x| {
            seen.push((layer, x.clone()));
        });
        seen
    }

    fn unmasked(
        &self,
        prognostic: Tensor<4>,
        boundary: Tensor<4>,
        watch: &mut dyn FnMut(usize, &Tensor<4>),
    ) -> Tensor<4> {
        let [batch, channels, ny, nx] = prognostic.dims();
        assert_eq!(
            channels,
            self.config.out_channels(),
            "channels of the prognostic input"
        );
        assert_eq!(
            boundary.dims(),
            [batch, self.config.boundary_channels(), ny, nx],
            "shape of the boundary input"
        );
        let x = Tensor::cat(vec![prognostic, boundary], 1);
        match &self.body {
            Body::Convolutions(body) => body.forward(x, watch),
            Body::Perceiver(body) => body.forward(x),
        }
    }

    /// Every learned parameter. Reads no values.
    pub fn parameters(&self) -> Vec<NamedParameter> {
        let mut parameters = Vec::new();
        self.clone().slots(&mut |name, slot| {
            if let Some(id) = slot.parameter() {
                parameters.push(NamedParameter {
                    name: name.to_string(),
                    id,
                    shape: slot.shape(),
                });
            }
        });
        parameters
    }

    /// Name and shape of every tensor in a state dict, buffers included. Reads no values.
    pub fn tensor_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = Vec::new();
        self.clone().slots(&mut |name, slot| {
            shapes.push((name.to_string(), slot.shape()));
        });
        shapes
    }

    pub(crate) fn slots(&mut self, visit: &mut Visit<'_>) {
        match &mut self.body {
            Body::Convolutions(body) => body.slots(visit),
            Body::Perceiver(body) => body.slots(visit),
        }
    }
}
