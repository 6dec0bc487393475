//! Samudra's order against the batches that Samudra's own samplers emitted.

use anyhow::{Context, Result};
use burn_om4::order::{GroupOrder, Groups};
use burn_om4::{Order, Schedule, ScheduleOptions};
use om4_test_support::samplers::SamplerCase;
use om4_test_support::shared;
use serde::Deserialize;

#[derive(Deserialize)]
struct Samplers {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    sampled: SamplerCase,
    epochs: Vec<Emitted>,
}

#[derive(Deserialize)]
struct Emitted {
    epoch: u64,
    len: u64,
    /// `[rank][batch][index]`
    ranks: Vec<Vec<Vec<u64>>>,
}

/// The golden samplers; `None`, with a message, where there is no copy of the fixtures.
fn samplers() -> Result<Option<Samplers>> {
    let Some(path) = shared("fixtures/batches/samplers.json") else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(&path)?;
    Ok(Some(serde_json::from_str(&text)?))
}

fn ranks(spec: &ScheduleOptions, groups: &Groups, epoch: u64) -> Result<Vec<Vec<Vec<u64>>>> {
    let of_rank = |rank| {
        let spec = spec.clone().with_rank(rank);
        let schedule = Schedule::new(spec, groups.clone())?;
        let batches: Vec<_> = schedule.epoch(epoch).iter_from(0).collect();
        assert_eq!(batches.len() as u64, schedule.steps());
        Ok(batches)
    };
    (0..spec.world).map(of_rank).collect()
}

#[test]
fn every_golden_case_is_reproduced() -> Result<()> {
    let Some(samplers) = samplers()? else {
        return Ok(());
    };
    assert!(samplers.cases.len() >= 54);
    for (i, case) in samplers.cases.iter().enumerate() {
        let (groups, spec) = (case.sampled.groups()?, case.sampled.options(0));
        for emitted in &case.epochs {
            let got = ranks(&spec, &groups, emitted.epoch).with_context(|| format!("case {i}"))?;
            assert_eq!(got, emitted.ranks, "case {i}, epoch {}", emitted.epoch);
            let schedule = Schedule::new(spec.clone(), groups.clone())?;
            assert_eq!(schedule.steps(), emitted.len, "case {i}");
        }
    }
    Ok(())
}

struct Restated {
    data_sets: &'static [(u64, &'static str)],
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
    seed: i64,
    world: usize,
    epoch: u64,
    groups: GroupOrder,
    ranks: &'static str,
}

/// What the golden cases lack: both group orders, seeds at the ends of their range (a sum of seed and
/// epoch beyond 64 bits, negative ones), worlds wider than a group, an empty data set. Drawn by
/// CPython 3.11's `random` after SEMANTICS.md 3.9.
const RESTATED: [Restated; 7] = [
    Restated {
        data_sets: &[(7, "b"), (5, "a"), (4, "b")],
        batch_size: 2,
        shuffle: true,
        drop_last: false,
        seed: -9223372036854775808,
        world: 3,
        epoch: 0,
        groups: GroupOrder::FirstSeen,
        ranks: "[[[6, 12], [7, 8], [0, 1]], [[13, 14], [9, 10], [2, 3]], [[15], [11], [4, 5]]]",
    },
    Restated {
        data_sets: &[(7, "b"), (5, "a"), (4, "b")],
        batch_size: 2,
        shuffle: true,
        drop_last: false,
        seed: -9223372036854775808,
        world: 3,
        epoch: 0,
        groups: GroupOrder::Sorted,
        ranks: "[[[0, 1], [6, 12], [7, 8]], [[2, 3], [13, 14], [9, 10]], [[4, 5], [15], [11]]]",
    },
    Restated {
        data_sets: &[(7, "b"), (5, "a"), (4, "b")],
        batch_size: 3,
        shuffle: true,
        drop_last: false,
        seed: 9223372036854775807,
        world: 1,
        epoch: 1099511627776,
        groups: GroupOrder::FirstSeen,
        ranks: "[[[2, 15, 6], [11, 7, 10], [3, 13], [1, 0, 14], [8, 9], [5, 4, 12]]]",
    },
    Restated {
        data_sets: &[(7, "b"), (5, "a"), (4, "b")],
        batch_size: 3,
        shuffle: true,
        drop_last: true,
        seed: 4294967296,
        world: 1,
        epoch: 1,
        groups: GroupOrder::Sorted,
        ranks: "[[[12, 6, 0], [9, 11, 7], [5, 2, 15], [4, 13, 1]]]",
    },
    Restated {
        data_sets: &[(3, "b"), (2, "a")],
        batch_size: 2,
        shuffle: true,
        drop_last: false,
        seed: 7,
        world: 7,
        epoch: 2,
        groups: GroupOrder::FirstSeen,
        ranks: "[[[0, 1], [3, 4]], [[2], [3, 4]], [[0, 1], [3, 4]], [[2], [3, 4]], [[0, 1], [3, 4]], [[2], [3, 4]], [[0, 1], [3, 4]]]",
    },
    Restated {
        data_sets: &[(3, "b"), (2, "a")],
        batch_size: 2,
        shuffle: false,
        drop_last: false,
        seed: 7,
        world: 5,
        epoch: 2,
        groups: GroupOrder::FirstSeen,
        ranks: "[[[0, 1], [3, 4]], [[2], [3, 4]], [[0, 1], [3, 4]], [[2], [3, 4]], [[0, 1], [3, 4]]]",
    },
    Restated {
        data_sets: &[(0, "b"), (3, "a"), (3, "b")],
        batch_size: 1,
        shuffle: true,
        drop_last: false,
        seed: -3,
        world: 1,
        epoch: 5,
        groups: GroupOrder::FirstSeen,
        ranks: "[[[0], [4], [2], [1], [3], [5]]]",
    },
];

#[test]
fn both_group_orders_and_every_seed_follow_cpython() -> Result<()> {
    for (i, case) in RESTATED.iter().enumerate() {
        let groups = Groups::by_key(case.data_sets.iter().copied())?;
        let spec = ScheduleOptions::default()
            .with_order(Order::Samudra {
                shuffle: case.shuffle,
                groups: case.groups,
            })
            .with_seed(case.seed)
            .with_batch_size(case.batch_size)
            .with_drop_last(case.drop_last)
            .with_world(case.world)
            .with_rank(0);
        let expected: Vec<Vec<Vec<u64>>> = serde_json::from_str(case.ranks)?;
        assert_eq!(ranks(&spec, &groups, case.epoch)?, expected, "case {i}");
    }
    Ok(())
}

/// Every round of the distributed sampler is of one group, and its padding too.
#[test]
fn a_distributed_round_never_mixes_groups() -> Result<()> {
    for world in 2..=8 {
        for (a, b) in [(1, 40), (13, 9), (8, 8), (5, 1)] {
            let groups = Groups::by_key([(a, 1), (b, 0), (a, 1)])?;
            for drop_last in [false, true] {
                let spec = ScheduleOptions::default()
                    .with_order(Order::Samudra {
                        shuffle: true,
                        groups: GroupOrder::FirstSeen,
                    })
                    .with_seed(-5)
                    .with_batch_size(2)
                    .with_drop_last(drop_last)
                    .with_world(world)
                    .with_rank(0);
                let ranks = ranks(&spec, &groups, 1)?;
                let group = |batch: &Vec<u64>| groups.group_of(batch[0]);
                for k in 0..ranks[0].len() {
                    assert!(ranks.iter().all(|r| group(&r[k]) == group(&ranks[0][k])));
                }
                let mut seen: Vec<u64> = ranks.into_iter().flatten().flatten().collect();
                seen.sort_unstable();
                let deliveries = seen.len();
                seen.dedup();
                if drop_last {
                    assert_eq!(seen.len(), deliveries);
                } else {
                    assert_eq!(seen, (0..groups.windows()).collect::<Vec<_>>());
                }
            }
        }
    }
    Ok(())
}
