//! The exponential moving average of the parameters.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::samudra::Samudra;

/// A smoothed copy of a network's parameters.
///
/// ```text
///  decay(n) = min(limit, (1 + n) / (10 + n))      n = 1, 2, ... updates
///  average <- average + (1 - decay) (parameter - average)
/// ```
///
/// Buffers are not averaged: [`network`](Self::network) joins the averaged parameters with the
/// running statistics of the live network.
#[derive(Clone, Debug)]
pub struct Ema {
    average: Samudra,
    limit: f64,
    updates: usize,
}

impl Ema {
    /// Starts from the parameters as they are. The recipe's `limit` is 0.999.
    pub fn new(network: &Samudra, limit: f64) -> Self {
        Self::resume(network.valid(), limit, 0)
    }

    /// Continues: `average` is [`network`](Self::network) of a checkpoint, after `updates`
    /// updates.
    pub fn resume(average: Samudra, limit: f64, updates: usize) -> Self {
        Self {
            average: average.valid(),
            limit,
            updates,
        }
    }

    /// Takes the parameters in; call it after each optimiser step.
    ///
    /// # Panics
    ///
    /// If `network` has another shape than the average.
    pub fn update(&mut self, network: &Samudra) {
        self.updates += 1;
        let share = 1.0 - self.decay();
        combine(&mut self.average, &network.valid(), |average, live| {
            average.clone() + (live - average).mul_scalar(share)
        });
    }

    /// The averaged parameters with the running statistics of `network`, for evaluation.
    ///
    /// # Panics
    ///
    /// If `network` has another shape than the average.
    pub fn network(&self, network: &Samudra) -> Samudra {
        let mut averaged = network.valid();
        combine(&mut averaged, &self.average, |_, average| average);
        averaged
    }

    /// Updates so far.
    pub fn updates(&self) -> usize {
        self.updates
    }

    /// The decay of the latest update; 1 / 10 before the first.
    pub fn decay(&self) -> f64 {
        let n = self.updates as f64;
        self.limit.min((1.0 + n) / (10.0 + n))
    }
}

/// Replaces each parameter of `target` by a function of it and its counterpart.
// Not by Burn's `ModuleMapper`: that maps running statistics, too, and would need equal parameter ids,
// which networks that were built apart do not have.
fn combine(
    target: &mut Samudra,
    other: &Samudra,
    with: impl Fn(Tensor<1>, Tensor<1>) -> Tensor<1>,
) {
    let mut others = Vec::new();
    other
        .clone()
        .slots(&mut |_, slot| others.extend(slot.flat()));
    let mut others = others.into_iter();
    target.slots(&mut |_, slot| {
        if let Some(value) = slot.flat() {
            let other = others.next().expect("as many parameters");
            slot.set_flat(with(value, other));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grid, SamudraConfig};
    use burn::tensor::{Device, TensorData};

    fn network(seed: u64) -> Samudra {
        let config = SamudraConfig::tiny(1, 1).with_widths(vec![2, 2]);
        config
            .init(&Grid::new(4, 8), seed, &Device::flex())
            .unwrap()
    }

    fn bias(network: &Samudra) -> Vec<f32> {
        let dict = network.state_dict();
        dict.get("decoder.bias").unwrap().iter::<f32>().collect()
    }

    #[test]
    fn the_average_moves_by_the_decay_and_keeps_live_buffers() {
        let (start, mut live) = (network(0), network(1));
        let mut dict = live.state_dict();
        let running = "unet.layers.0.convblock.1.running_mean";
        let shape = dict.get(running).unwrap().shape().clone();
        let sevens = TensorData::full(shape, 7.0_f32);
        dict.insert(running, sevens.clone());
        live.load_state_dict(&dict).unwrap();

        let mut ema = Ema::new(&start, 0.999);
        ema.update(&live);
        assert_eq!(ema.updates(), 1);
        let averaged = ema.network(&live);
        let decay = 2.0 / 11.0;
        for ((a, s), l) in bias(&averaged).iter().zip(bias(&start)).zip(bias(&live)) {
            assert!((a - (decay * s + (1.0 - decay) * l)).abs() < 1e-6);
        }
        assert_eq!(averaged.state_dict().get(running), Some(&sevens));
        assert_ne!(ema.average.state_dict().get(running), Some(&sevens));

        let mut resumed = Ema::resume(averaged, 0.999, 1);
        resumed.update(&live);
        ema.update(&live);
        assert_eq!(resumed.decay(), 3.0 / 12.0);
        assert_eq!(bias(&resumed.network(&live)), bias(&ema.network(&live)));
    }

    #[test]
    fn the_limit_bounds_the_decay() {
        assert_eq!(Ema::resume(network(0), 0.999, 8_990).decay(), 0.999);
        assert!(Ema::resume(network(0), 0.999, 8_980).decay() < 0.999);
    }
}
