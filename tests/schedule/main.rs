//! What every order promises: each window once, equal steps on all ranks, padding as documented, and
//! batches that depend on nothing but (seed, epoch, world, rank).

mod dealing;
mod frozen;
mod options;
mod shuffles;

use burn_om4::order::{GroupOrder, Groups};
use burn_om4::{Order, Schedule, ScheduleOptions};

type Batches = Vec<Vec<u64>>;

fn with(order: Order, batch_size: usize, drop_last: bool) -> ScheduleOptions {
    ScheduleOptions::default()
        .with_order(order)
        .with_seed(15)
        .with_batch_size(batch_size)
        .with_drop_last(drop_last)
}

fn samudra(shuffle: bool) -> Order {
    Order::Samudra {
        shuffle,
        groups: GroupOrder::Sorted,
    }
}

fn batches(schedule: &Schedule, epoch: u64) -> Batches {
    schedule.epoch(epoch).iter_from(0).collect()
}

/// The batches of all ranks, `[rank][step]`.
fn ranks(spec: &ScheduleOptions, groups: &Groups, world: usize, epoch: u64) -> Vec<Batches> {
    let schedule = |rank| {
        let spec = spec.clone().with_world(world).with_rank(rank);
        Schedule::new(spec, groups.clone()).unwrap()
    };
    let all: Vec<Schedule> = (0..world).map(schedule).collect();
    assert!(all.iter().all(|s| s.steps() == all[0].steps()));
    all.iter().map(|s| batches(s, epoch)).collect()
}

/// Rounds one after the other: the list that ranks deal from.
fn dealt(ranks: &[Batches]) -> Batches {
    let steps = 0..ranks[0].len();
    steps
        .flat_map(|k| ranks.iter().map(move |r| r[k].clone()))
        .collect()
}

fn sorted(batches: &[Vec<u64>]) -> Vec<u64> {
    let mut windows: Vec<u64> = batches.concat();
    windows.sort_unstable();
    windows
}

fn all(windows: u64) -> Vec<u64> {
    (0..windows).collect()
}
