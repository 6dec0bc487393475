//! The cases of `samplers.json`: which batches Samudra's own samplers emit.

use burn_om4::order::{GroupOrder, Groups};
use burn_om4::{Order, Result, Schedule, ScheduleOptions};
use serde::Deserialize;

/// Data sets side by side and how they are sampled.
#[derive(Deserialize)]
pub struct SamplerCase {
    pub datasets: Vec<SampledDataset>,
    pub batch_size: usize,
    pub shuffle: bool,
    pub drop_last: bool,
    pub seed: i64,
    pub world_size: usize,
    #[serde(default)]
    pub group_order: GroupOrder,
    /// In place of Samudra's, which `shuffle` and `group_order` describe.
    pub order: Option<Order>,
}

/// A data set, as far as a sampler knows it.
#[derive(Deserialize)]
pub struct SampledDataset {
    /// Windows.
    pub length: u64,
    /// Data sets of one key share batches.
    pub group_key: GroupKey,
}

/// Ordered as Python orders integers, strings and tuples of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(untagged)]
pub enum GroupKey {
    Number(i64),
    Text(String),
    Tuple(Vec<GroupKey>),
}

impl SamplerCase {
    /// # Errors
    /// More windows than can be counted.
    pub fn groups(&self) -> Result<Groups> {
        let keys = self.datasets.iter();
        Groups::by_key(keys.map(|d| (d.length, d.group_key.clone())))
    }

    /// The options of one rank.
    pub fn options(&self, rank: usize) -> ScheduleOptions {
        let order = self.order.clone().unwrap_or(Order::Samudra {
            shuffle: self.shuffle,
            groups: self.group_order,
        });
        ScheduleOptions::default()
            .with_order(order)
            .with_seed(self.seed)
            .with_batch_size(self.batch_size)
            .with_drop_last(self.drop_last)
            .with_world(self.world_size)
            .with_rank(rank)
    }

    /// The schedules of all ranks.
    ///
    /// # Errors
    /// Options that contradict each other; rank 0 finds a world of 0.
    pub fn schedules(&self) -> Result<Vec<Schedule>> {
        let groups = self.groups()?;
        (0..self.world_size.max(1))
            .map(|rank| Schedule::new(self.options(rank), groups.clone()))
            .collect()
    }
}
