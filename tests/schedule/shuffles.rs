//! Random access, epochs, seeds and the spread of shuffles.

use crate::{Batches, batches, samudra, with};
use burn_om4::order::Groups;
use burn_om4::{Order, Schedule};
use std::collections::{HashMap, HashSet};

#[test]
fn any_batch_of_any_epoch_from_any_thread() {
    let groups = Groups::by_key([(57, 3), (40, 1), (30, 3)]).unwrap();
    for order in [
        Order::Sequential,
        Order::Shuffled,
        Order::Blocks { block: 5, pool: 3 },
        samudra(true),
    ] {
        let spec = with(order, 4, false).with_world(2).with_rank(1);
        let schedule = Schedule::new(spec, groups.clone()).unwrap();
        let expected: Vec<Batches> = (0..3).map(|e| batches(&schedule, e)).collect();
        let steps = schedule.steps();
        std::thread::scope(|scope| {
            let reader = |step: u64| {
                let (schedule, expected) = (&schedule, &expected);
                move || {
                    // Backwards, in strides, epochs in turn.
                    for k in (0..steps).rev().step_by(step as usize) {
                        for e in [2, 0, 1] {
                            let batch = schedule.epoch(e).batch(k);
                            assert_eq!(batch, expected[e as usize][k as usize]);
                        }
                    }
                }
            };
            for step in 1..=4 {
                scope.spawn(reader(step));
            }
        });
        let epoch = schedule.epoch(1);
        for k in 0..=steps {
            let rest = epoch.iter_from(k);
            assert_eq!(
                rest.size_hint(),
                ((steps - k) as usize, Some((steps - k) as usize))
            );
            assert_eq!(rest.collect::<Batches>(), expected[1][k as usize..]);
        }
        assert_eq!(epoch.iter_from(steps + 1).next(), None);
    }
}

#[test]
#[should_panic(expected = "batch 5 of an epoch of 5 batches")]
fn a_batch_past_the_end_panics() {
    let schedule = Schedule::new(with(Order::Shuffled, 2, false), Groups::single(10).unwrap());
    schedule.unwrap().epoch(0).batch(5);
}

#[test]
fn epochs_and_seeds_draw_anew() {
    for order in [
        Order::Shuffled,
        Order::Blocks { block: 4, pool: 4 },
        samudra(true),
    ] {
        let order_of = |seed, epoch| {
            let spec = with(order.clone(), 4, false).with_seed(seed);
            batches(
                &Schedule::new(spec, Groups::single(64).unwrap()).unwrap(),
                epoch,
            )
        };
        let drawn: HashSet<Batches> = (0..4)
            .flat_map(|e| [-1, 0, 1 << 40].map(|seed| order_of(seed, e)))
            .collect();
        // Samudra's depends on |seed + epoch| alone, which is 0 to 3 for the first two seeds.
        let expected = if matches!(order, Order::Samudra { .. }) {
            8
        } else {
            12
        };
        assert_eq!(drawn.len(), expected);
        assert_eq!(order_of(0, 3), order_of(0, 3));
    }
}

/// Nothing of the size of the data set is built: at 2^62 windows it could not be.
#[test]
fn huge_data_sets_cost_what_small_ones_do() {
    for windows in [100_000_000, u64::MAX / 4] {
        for order in [
            Order::Sequential,
            Order::Shuffled,
            Order::Blocks {
                block: 64,
                pool: 32,
            },
        ] {
            for groups in [
                Groups::single(windows).unwrap(),
                Groups::by_key([(windows / 2, 0), (windows - windows / 2 - 7, 1), (7, 0)]).unwrap(),
            ] {
                let spec = with(order.clone(), 4, true).with_world(8).with_rank(7);
                let schedule = Schedule::new(spec, groups).unwrap();
                let epoch = schedule.epoch(1 << 50);
                let last = epoch.len() - 1;
                assert!(last > windows / 40);
                let mut seen = HashSet::new();
                for k in (0..200).flat_map(|k| [k, last / 2 + k, last - k]) {
                    for window in epoch.batch(k) {
                        assert!(window < windows && seen.insert(window));
                    }
                }
            }
        }
    }
}

#[test]
fn block_shuffles_stay_local() {
    let (n, block, pool) = (1003u64, 10u64, 8u64);
    let spec = with(Order::Blocks { block, pool }, 1, false);
    let schedule = Schedule::new(spec, Groups::single(n).unwrap()).unwrap();
    let mut spans = HashMap::new();
    for (place, window) in batches(&schedule, 1).concat().into_iter().enumerate() {
        let (first, last) = spans.entry(window / block).or_insert((place, place));
        (*first, *last) = (place.min(*first), place.max(*last));
    }
    // Blocks whose first window has come and whose last has not.
    let live = |place: usize| {
        spans
            .values()
            .filter(|(a, b)| (*a..=*b).contains(&place))
            .count()
    };
    assert!(spans.values().all(|(a, b)| b - a < (pool * block) as usize));
    assert!((0..n as usize).all(|place| live(place) <= pool as usize));
    // Half of the pool is live on average, so this is a bound that is reached.
    assert!((0..n as usize).any(|place| live(place) == pool as usize));
}

/// The documented statistics, over 400 fixed epochs.
#[test]
fn block_shuffles_spread_as_documented() {
    let (n, block, pool, epochs) = (1000u64, 10u64, 5u64, 400);
    let spec = with(Order::Blocks { block, pool }, 10, false);
    let schedule = Schedule::new(spec, Groups::single(n).unwrap()).unwrap();
    let (mut tenths, mut same, mut pairs) = ([0u64; 10], 0u64, 0u64);
    for epoch in 0..epochs {
        let batches = batches(&schedule, epoch);
        let place = batches.concat().iter().position(|w| *w == 123).unwrap();
        tenths[place / 100] += 1;
        for batch in &batches {
            for (i, a) in batch.iter().enumerate() {
                pairs += i as u64;
                same += batch[..i]
                    .iter()
                    .filter(|b| *b / block == a / block)
                    .count() as u64;
            }
        }
    }
    // 40 expected, standard deviation 6.
    assert!(tenths.iter().all(|c| c.abs_diff(40) < 24), "{tenths:?}");
    let probability = same as f64 / pairs as f64;
    let documented = (block - 1) as f64 / (pool * block - 1) as f64;
    assert!(
        (probability - documented).abs() < 0.003,
        "{probability} {documented}"
    );
}

#[test]
fn block_shuffles_mix_groups_evenly() {
    let groups = Groups::by_key([(60, 0), (30, 1), (10, 2)]).unwrap();
    let spec = with(Order::Blocks { block: 5, pool: 2 }, 1, false);
    let schedule = Schedule::new(spec, groups.clone()).unwrap();
    for run in batches(&schedule, 0).chunks(10) {
        let of = |g| {
            run.iter()
                .filter(|b| groups.group_of(b[0]) == Some(g))
                .count()
        };
        assert_eq!([of(0), of(1), of(2)], [6, 3, 1]);
    }
}

#[test]
fn shuffles_permute_the_batches_of_several_groups() {
    let groups = Groups::by_key([(50, 0), (50, 1)]).unwrap();
    let schedule = Schedule::new(with(Order::Shuffled, 1, false), groups.clone()).unwrap();
    let firsts: Vec<usize> = (0..20)
        .map(|e| {
            let half = batches(&schedule, e)[..50].concat();
            half.iter()
                .filter(|w| groups.group_of(**w) == Some(0))
                .count()
        })
        .collect();
    // 25 expected, standard deviation 2.5; were groups not mixed, 0 or 50.
    assert!(firsts.iter().all(|c| (13..=37).contains(c)), "{firsts:?}");
}
