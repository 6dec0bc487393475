//! Picks: every window several times per epoch, each time changed on the device in its own way.
//!
//! ```text
//!  item i of the schedule = pick (i % k) of window (i / k)
//!  key                    = f(seed, epoch, window, pick)
//! ```
//!
//! So picks are ordered, dealt to ranks and resumed like windows, and what a transform does to one
//! depends neither on threads nor on ranks, batch size or where a run was interrupted.

use crate::dataset::context::BatchContext;
use crate::device::batch::ModelBatch;
use crate::error::Result;
use crate::order::fingerprint::FingerprintPart;
use crate::order::pick::Pick;
use crate::order::schedule::Epoch;
use std::sync::Arc;

/// Changes batches on their device, by the keys of their picks and nothing else.
///
/// [`Noise`](crate::augment::Noise) draws for every pick.
/// [`EquatorMirror`](crate::augment::EquatorMirror) moves masks, of which a batch has one set, so
/// it draws once per batch, from the first pick's key: in every order but Samudra's a batch is the
/// same whatever the world, so its draw is, too.
pub trait Transform: Send + Sync {
    /// Name and parameters. A saved state is refused under another one.
    fn name(&self) -> String;

    /// Whether batches of this kind can be served; asked once per source.
    ///
    /// # Errors
    /// They cannot.
    fn check(&self, context: &BatchContext) -> Result<()>;

    /// The changed batch. `picks` are those of its windows, in the order of the batch axis. Called
    /// on the thread that takes the batch.
    ///
    /// # Errors
    /// Arrive in the batch's place, and end the pass.
    fn apply(&self, batch: ModelBatch, picks: &[Pick]) -> Result<ModelBatch>;
}

impl<T: Transform + ?Sized> Transform for Arc<T> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn check(&self, context: &BatchContext) -> Result<()> {
        (**self).check(context)
    }

    fn apply(&self, batch: ModelBatch, picks: &[Pick]) -> Result<ModelBatch> {
        (**self).apply(batch, picks)
    }
}

/// A loader's transform.
#[derive(Clone)]
pub(crate) struct Augment {
    picks: u64,
    transform: Arc<dyn Transform>,
}

impl Augment {
    /// `picks` is at least 1.
    pub(crate) fn new(picks: u64, transform: impl Transform + 'static) -> Self {
        Self {
            picks,
            transform: Arc::new(transform),
        }
    }

    pub(crate) fn picks(&self) -> u64 {
        self.picks
    }

    pub(crate) fn fingerprint(&self) -> FingerprintPart {
        let mut part = FingerprintPart::default();
        part.u64s(&[self.picks]).text(&self.transform.name());
        part
    }

    /// Batch `number` of an epoch, transformed.
    pub(crate) fn apply(
        &self,
        batch: ModelBatch,
        epoch: &Epoch,
        number: u64,
    ) -> Result<ModelBatch> {
        let items = epoch.batch(number).into_iter();
        let picks: Arc<[Pick]> = items.map(|i| Pick::new(epoch, self.picks, i)).collect();
        Ok(self.transform.apply(batch, &picks)?.with_picks(picks))
    }
}
