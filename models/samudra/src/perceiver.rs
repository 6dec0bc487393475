//! SamudraMini's body: a Perceiver IO over the cells of the grid.
//!
//! ```text
//!  cells   (batch, y*x, embedding)  = linear(channels) + mlp(place on the unit sphere)
//!  latents (latents, latent_dim)      learned, the same for every sample
//!
//!  latents --cross-attend to cells--ff--(self-attend--ff) x depth, one layer's weights--> x
//!  queries (y*x, queries_dim) = mlp(place) --cross-attend to x--ff--linear--> channels out
//! ```
//!
//! Attention and feed-forward add to their input, but for the decoder's attention. Each normalises its
//! input first. After Jaegle et al. 2021, in the form of the original's `perceiver-pytorch` 0.8.8.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

use crate::config::{PerceiverConfig, SamudraConfig};
use crate::init::Init;
use crate::state_walk::{Slot, Visit};

/// Attention heads of the cross attentions, and of the latents' own.
const CROSS_HEADS: usize = 1;
const LATENT_HEADS: usize = 8;
/// Size of a head.
const HEAD: usize = 64;
/// A feed-forward layer is this much wider than its input.
const WIDER: usize = 4;
/// What PyTorch's layer norm adds to the variance.
const EPSILON: f64 = 1e-5;
/// Coordinates of a place on the unit sphere.
const PLACE: usize = 3;

/// The body; the file's documentation draws it.
#[derive(Module, Debug)]
pub(crate) struct Perceiver {
    /// `(1, y*x, 3)`.
    places: Tensor<3>,
    embed: Linear,
    place_of_cell: PlaceMlp,
    place_of_query: PlaceMlp,
    latents: Param<Tensor<2>>,
    encode: Attend,
    encode_ff: FeedForward,
    think: Attend,
    think_ff: FeedForward,
    decode: Attend,
    decode_ff: FeedForward,
    logits: Linear,
    depth: usize,
    /// Cells decoded at once.
    chunk: usize,
}

impl Perceiver {
    /// `places`: `(1, 3, y, x)` on the unit sphere.
    pub(crate) fn new(
        init: &Init<'_>,
        config: &SamudraConfig,
        sizes: &PerceiverConfig,
        places: Tensor<4>,
    ) -> Self {
        let [_, _, ny, nx] = places.dims();
        let (cells, latent) = (ny * nx, sizes.latent_dim);
        let (data, query) = (sizes.embedding_dim, sizes.queries_dim);
        let place =
            |name: &str, out| PlaceMlp::new(init, name, sizes.coordinate_embedding_dim, out);
        let cross =
            |name: &str, dim, context| Attend::new(init, name, [dim, context], CROSS_HEADS, true);
        let io = |name: &str| format!("perceiver_io.{name}");
        Self {
            places: tokens(places),
            embed: Linear::new(init, "input_embed", [config.in_channels(), data]),
            place_of_cell: place("data_coordinate_embed", data),
            place_of_query: place("query_coordinate_embed", query),
            latents: init.normal(&io("latents"), [sizes.num_latents, latent], 1.0),
            encode: cross(&io("cross_attend_blocks.0"), latent, data),
            encode_ff: FeedForward::new(init, &io("cross_attend_blocks.1"), latent),
            think: Attend::new(init, &io("layers.0.0"), [latent; 2], LATENT_HEADS, false),
            think_ff: FeedForward::new(init, &io("layers.0.1"), latent),
            decode: cross(&io("decoder_cross_attn"), query, latent),
            decode_ff: FeedForward::new(init, &io("decoder_ff"), query),
            logits: Linear::new(init, &io("to_logits"), [query, config.out_channels()]),
            depth: sizes.depth,
            chunk: sizes.query_chunk_size.unwrap_or(cells).clamp(1, cells),
        }
    }

    /// `(batch, in, y, x)` to `(batch, out, y, x)`.
    pub(crate) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, _, ny, nx] = x.dims();
        let (cells, places) = (ny * nx, self.places.clone());
        assert_eq!(places.dims()[1], cells, "cells of the grid");
        let data = self.embed.forward(tokens(x)) + self.place_of_cell.forward(places.clone());
        let latents = self.latents.val();
        let [count, latent] = latents.dims();
        let x = latents.unsqueeze::<3>().expand([batch, count, latent]);
        let x = self.encode.forward(x.clone(), Some(data)) + x;
        let mut x = self.encode_ff.forward(x.clone()) + x;
        for _ in 0..self.depth {
            x = self.think.forward(x.clone(), None) + x;
            x = self.think_ff.forward(x.clone()) + x;
        }
        let queries = self.place_of_query.forward(places);
        let width = queries.dims()[2];
        let chunks = (0..cells).step_by(self.chunk).map(|from| {
            let some = queries
                .clone()
                .narrow(1, from, self.chunk.min(cells - from));
            let some = some.clone().expand([batch, some.dims()[1], width]);
            // The queries themselves are not added: they say where, not what.
            let seen = self.decode.forward(some, Some(x.clone()));
            let seen = self.decode_ff.forward(seen.clone()) + seen;
            self.logits.forward(seen)
        });
        let out = Tensor::cat(chunks.collect(), 1);
        let channels = out.dims()[2];
        out.swap_dims(1, 2).reshape([batch, channels, ny, nx])
    }

    pub(crate) fn slots(&mut self, visit: &mut Visit<'_>) {
        self.embed.slots("input_embed", visit);
        self.place_of_cell.slots("data_coordinate_embed.net", visit);
        self.place_of_query
            .slots("query_coordinate_embed.net", visit);
        let io = |name: &str| format!("perceiver_io.{name}");
        visit(&io("latents"), Slot::Linear(&mut self.latents));
        self.encode.slots(&io("cross_attend_blocks.0"), visit);
        self.encode_ff.slots(&io("cross_attend_blocks.1"), visit);
        self.think.slots(&io("layers.0.0"), visit);
        self.think_ff.slots(&io("layers.0.1"), visit);
        // The original lists the one layer as often as it is used.
        for layer in 1..self.depth {
            let first =
                |name: &str| name.replacen(&io(&format!("layers.{layer}")), &io("layers.0"), 1);
            let mut tied = |name: &str, slot: Slot<'_>| {
                visit(name, Slot::Tied(first(name), Box::new(slot)));
            };
            self.think
                .slots(&io(&format!("layers.{layer}.0")), &mut tied);
            self.think_ff
                .slots(&io(&format!("layers.{layer}.1")), &mut tied);
        }
        self.decode.slots(&io("decoder_cross_attn"), visit);
        self.decode_ff.slots(&io("decoder_ff"), visit);
        self.logits.slots(&io("to_logits"), visit);
    }
}

/// `(batch, channel, y, x)` to `(batch, y*x, channel)`.
fn tokens(x: Tensor<4>) -> Tensor<3> {
    let [batch, channels, ny, nx] = x.dims();
    x.reshape([batch, channels, ny * nx]).swap_dims(1, 2)
}

/// The erf GELU. Not Burn's own: on GPU back ends (0.22.1) that has the gradient of an approximation.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    let phi = (x.clone().div_scalar(std::f32::consts::SQRT_2).erf() + 1.0).mul_scalar(0.5);
    x * phi
}

/// `(batch, token, in)` to `(batch, token, out)`.
#[derive(Module, Debug)]
struct Linear {
    /// `(out, in)`.
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    fn new(init: &Init<'_>, name: &str, size: [usize; 2]) -> Self {
        let bias = init.uniform(&format!("{name}.bias"), [size[1]], size[0]);
        Self {
            bias: Some(bias),
            ..Self::without_bias(init, name, size)
        }
    }

    fn without_bias(init: &Init<'_>, name: &str, [inputs, outputs]: [usize; 2]) -> Self {
        Self {
            weight: init.uniform(&format!("{name}.weight"), [outputs, inputs], inputs),
            bias: None,
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, tokens, inputs] = x.dims();
        let weight = self.weight.val();
        let outputs = weight.dims()[0];
        let y = x
            .reshape([batch * tokens, inputs])
            .matmul(weight.transpose());
        let y = match &self.bias {
            Some(bias) => y + bias.val().unsqueeze(),
            None => y,
        };
        y.reshape([batch, tokens, outputs])
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        visit(&format!("{name}.weight"), Slot::Linear(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&format!("{name}.bias"), Slot::Vector(bias));
        }
    }
}

/// Mean 0 and variance 1 over the last axis, then a learned scale and shift.
#[derive(Module, Debug)]
struct LayerNorm {
    scale: Param<Tensor<1>>,
    shift: Param<Tensor<1>>,
}

impl LayerNorm {
    fn new(init: &Init<'_>, size: usize) -> Self {
        Self {
            scale: init.constant([size], 1.0),
            shift: init.constant([size], 0.0),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let centred = x.clone() - x.mean_dim(2);
        let variance = (centred.clone() * centred.clone()).mean_dim(2);
        let normal = centred / (variance + EPSILON).sqrt();
        normal * self.scale.val().unsqueeze() + self.shift.val().unsqueeze()
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        visit(&format!("{name}.weight"), Slot::Vector(&mut self.scale));
        visit(&format!("{name}.bias"), Slot::Vector(&mut self.shift));
    }
}

/// Where a cell lies, embedded.
#[derive(Module, Debug)]
struct PlaceMlp {
    into: Linear,
    out: Linear,
}

impl PlaceMlp {
    fn new(init: &Init<'_>, name: &str, inner: usize, outputs: usize) -> Self {
        Self {
            into: Linear::new(init, &format!("{name}.net.0"), [PLACE, inner]),
            out: Linear::new(init, &format!("{name}.net.2"), [inner, outputs]),
        }
    }

    fn forward(&self, places: Tensor<3>) -> Tensor<3> {
        self.out.forward(gelu(self.into.forward(places)))
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        self.into.slots(&format!("{name}.0"), visit);
        self.out.slots(&format!("{name}.2"), visit);
    }
}

/// Attention of normalised tokens to a normalised context, or to themselves.
#[derive(Module, Debug)]
struct Attend {
    norm: LayerNorm,
    norm_context: Option<LayerNorm>,
    query: Linear,
    /// Keys, then values.
    key_value: Linear,
    out: Linear,
    heads: usize,
}

impl Attend {
    fn new(
        init: &Init<'_>,
        name: &str,
        [size, context]: [usize; 2],
        heads: usize,
        cross: bool,
    ) -> Self {
        let inner = heads * HEAD;
        let plain =
            |part: &str, size| Linear::without_bias(init, &format!("{name}.fn.{part}"), size);
        Self {
            norm: LayerNorm::new(init, size),
            norm_context: cross.then(|| LayerNorm::new(init, context)),
            query: plain("to_q", [size, inner]),
            key_value: plain("to_kv", [context, 2 * inner]),
            out: Linear::new(init, &format!("{name}.fn.to_out"), [inner, size]),
            heads,
        }
    }

    /// `x`: `(batch, token, size)`; `context`: `(batch, other token, context)`.
    fn forward(&self, x: Tensor<3>, context: Option<Tensor<3>>) -> Tensor<3> {
        let x = self.norm.forward(x);
        let context = match (context, &self.norm_context) {
            (Some(context), Some(norm)) => norm.forward(context),
            (Some(context), None) => context,
            (None, _) => x.clone(),
        };
        let inner = self.heads * HEAD;
        let both = self.key_value.forward(context);
        let keys = self.split(both.clone().narrow(2, 0, inner));
        let values = self.split(both.narrow(2, inner, inner));
        let queries = self.split(self.query.forward(x));
        let alike = queries.matmul(keys.swap_dims(2, 3));
        let share = softmax(alike.mul_scalar((HEAD as f32).sqrt().recip()), 3);
        let seen = share.matmul(values).swap_dims(1, 2);
        let [batch, tokens, ..] = seen.dims();
        self.out.forward(seen.reshape([batch, tokens, inner]))
    }

    /// `(batch, token, head*size)` to `(batch, head, token, size)`.
    fn split(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, tokens, _] = x.dims();
        x.reshape([batch, tokens, self.heads, HEAD]).swap_dims(1, 2)
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        self.query.slots(&format!("{name}.fn.to_q"), visit);
        self.key_value.slots(&format!("{name}.fn.to_kv"), visit);
        self.out.slots(&format!("{name}.fn.to_out"), visit);
        self.norm.slots(&format!("{name}.norm"), visit);
        if let Some(norm) = &mut self.norm_context {
            norm.slots(&format!("{name}.norm_context"), visit);
        }
    }
}

/// `linear(a * gelu(b))` of a normalised token, where a linear layer gives a and b.
#[derive(Module, Debug)]
struct FeedForward {
    norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl FeedForward {
    fn new(init: &Init<'_>, name: &str, size: usize) -> Self {
        let inner = WIDER * size;
        Self {
            norm: LayerNorm::new(init, size),
            wide: Linear::new(init, &format!("{name}.fn.net.0"), [size, 2 * inner]),
            narrow: Linear::new(init, &format!("{name}.fn.net.2"), [inner, size]),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let both = self.wide.forward(self.norm.forward(x));
        let inner = both.dims()[2] / 2;
        let gate = gelu(both.clone().narrow(2, inner, inner));
        self.narrow.forward(both.narrow(2, 0, inner) * gate)
    }

    fn slots(&mut self, name: &str, visit: &mut Visit<'_>) {
        self.wide.slots(&format!("{name}.fn.net.0"), visit);
        self.narrow.slots(&format!("{name}.fn.net.2"), visit);
        self.norm.slots(&format!("{name}.norm"), visit);
    }
}
