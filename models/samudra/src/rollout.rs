//! Autoregressive rollouts: each prediction is the next input.

use burn::tensor::{Bool, Tensor};

use crate::samudra::Samudra;

/// A rollout under way.
///
/// ```text
///  prognostic --> forward --> y0 --> forward --> y1 --> ...
///                   ^                  ^
///               boundary 0         boundary 1
/// ```
///
/// With a gradient detach interval n in the network's configuration, the state is cut from the
/// gradient before steps n, 2n and so on.
pub struct Rollout<'a> {
    network: &'a Samudra,
    state: Tensor<4>,
    mask: Tensor<3, Bool>,
    steps: usize,
}

impl<'a> Rollout<'a> {
    /// Starts from a prognostic state; shapes and mask as in [`Samudra::forward`].
    pub fn new(network: &'a Samudra, prognostic: Tensor<4>, mask: Tensor<3, Bool>) -> Self {
        Self {
            network,
            state: prognostic,
            mask,
            steps: 0,
        }
    }

    /// Predicts one step on, under that step's boundary.
    ///
    /// # Panics
    ///
    /// As [`Samudra::forward`].
    pub fn step(&mut self, boundary: Tensor<4>) -> Tensor<4> {
        let interval = self.network.config().gradient_detach_interval;
        let state = match cuts(interval, self.steps) {
            true => self.state.clone().detach(),
            false => self.state.clone(),
        };
        self.state = self.network.forward(state, boundary, self.mask.clone());
        self.steps += 1;
        self.state.clone()
    }

    /// Steps taken so far.
    pub fn steps(&self) -> usize {
        self.steps
    }
}

/// Whether the state is cut before step `step`.
fn cuts(interval: usize, step: usize) -> bool {
    interval > 0 && step > 0 && step.is_multiple_of(interval)
}

impl Samudra {
    /// Predicts as many steps as there are boundaries.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn rollout(
        &self,
        prognostic: Tensor<4>,
        boundaries: impl IntoIterator<Item = Tensor<4>>,
        mask: Tensor<3, Bool>,
    ) -> Vec<Tensor<4>> {
        let mut rollout = Rollout::new(self, prognostic, mask);
        boundaries
            .into_iter()
            .map(|boundary| rollout.step(boundary))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_cut_before_every_nth_step_but_the_first() {
        let cut = |interval| (0..7).filter(|k| cuts(interval, *k)).collect::<Vec<_>>();
        assert_eq!(cut(0), [0; 0]);
        assert_eq!(cut(1), [1, 2, 3, 4, 5, 6]);
        assert_eq!(cut(3), [3, 6]);
    }
}
