//! Which batches there are, and how ranks share them.

use crate::{Batches, all, batches, dealt, ranks, samudra, sorted, with};
use burn_om4::order::{GroupOrder, Groups, Shard};
use burn_om4::{Order, Schedule};
use proptest::prelude::*;
use std::collections::HashSet;

/// The whole grid that uneven shards hang on: no rank takes a step more than another.
#[test]
fn all_lengths_and_worlds_take_equal_steps_and_lose_nothing() {
    let orders = [
        Order::Sequential,
        Order::Shuffled,
        Order::Blocks { block: 4, pool: 3 },
        samudra(true),
        samudra(false),
    ];
    for order in orders {
        for length in 1..=40 {
            let groups = Groups::single(length).unwrap();
            for batch_size in [1, 3, 4] {
                let size = batch_size as u64;
                for drop_last in [false, true] {
                    let spec = with(order.clone(), batch_size, drop_last);
                    let list = dealt(&ranks(&spec, &groups, 1, 2));
                    for world in 1..=8usize {
                        let ranks = ranks(&spec, &groups, world, 2);
                        let steps = ranks[0].len();
                        assert!(ranks.iter().all(|r| r.len() == steps));
                        let dealt = dealt(&ranks);
                        if drop_last {
                            assert_eq!(steps as u64, length / size / world as u64);
                            let seen: HashSet<u64> = dealt.concat().into_iter().collect();
                            assert_eq!(seen.len(), dealt.len() * batch_size);
                            assert!(seen.iter().all(|w| *w < length));
                        } else {
                            assert_eq!(steps as u64, length.div_ceil(size).div_ceil(world as u64));
                            let seen: HashSet<u64> = dealt.concat().into_iter().collect();
                            assert_eq!(seen.len() as u64, length);
                        }
                        if !matches!(order, Order::Samudra { .. }) {
                            // Whole rounds of one list, and the beginning of the list as padding.
                            let repeated: Batches =
                                list.iter().cycle().take(dealt.len()).cloned().collect();
                            assert_eq!(dealt, repeated);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn samudra_pads_a_round_with_batches_of_its_group() {
    // 9 and 4 batches for 8 ranks: the padding of the second round is 7 of the first group's.
    let groups = Groups::by_key([(18, 0), (8, 1)]).unwrap();
    let ranks = ranks(&with(samudra(false), 2, false), &groups, 8, 0);
    let dealt = dealt(&ranks);
    assert_eq!(sorted(&dealt[..9]), all(18));
    assert_eq!(dealt[9..16], dealt[..7]);
    assert_eq!(dealt[20..24], dealt[16..20]);
}

#[test]
fn sequential_takes_groups_in_first_seen_order_and_one_after_the_other() {
    let groups = Groups::by_key([(3, "z"), (2, "a"), (2, "z")]).unwrap();
    let schedule = Schedule::new(with(Order::Sequential, 2, false), groups.clone()).unwrap();
    let expected = [vec![0, 1], vec![2, 5], vec![6], vec![3, 4]];
    assert_eq!(batches(&schedule, 0), expected);
    assert_eq!(batches(&schedule, 7), expected);
    let schedule = Schedule::new(with(Order::Sequential, 2, true), groups).unwrap();
    assert_eq!(batches(&schedule, 0), [vec![0, 1], vec![2, 5], vec![3, 4]]);
}

#[test]
fn how_a_group_is_cut_into_data_sets_does_not_matter() {
    let cut = Groups::by_key([(3, "z"), (0, "a"), (4, "z"), (2, "a")]).unwrap();
    assert_eq!(cut, Groups::by_key([(7, "z"), (2, "a")]).unwrap());
    let places: Vec<_> = (0..10).map(|w| cut.group_of(w)).collect();
    let group = |i, n| std::iter::repeat_n(i, n);
    let expected = group(Some(0), 7).chain(group(Some(1), 2)).chain([None]);
    assert_eq!(places, expected.collect::<Vec<_>>());
}

#[test]
fn a_short_batch_of_one_group_stays_last() {
    for order in [Order::Shuffled, Order::Blocks { block: 3, pool: 2 }] {
        let spec = with(order, 4, false);
        let schedule = Schedule::new(spec, Groups::single(18).unwrap()).unwrap();
        for epoch in 0..5 {
            let sizes: Vec<usize> = batches(&schedule, epoch).iter().map(Vec::len).collect();
            assert_eq!(sizes, [4, 4, 4, 4, 2]);
        }
    }
}

#[test]
fn custom_batches_come_as_given_and_are_padded_from_their_beginning() {
    let lists = vec![vec![4, 4], vec![0], vec![2, 1]];
    let groups = Groups::single(5).unwrap();
    let spec = with(Order::Custom(lists.clone()), 2, false);
    assert_eq!(ranks(&spec, &groups, 1, 3), std::slice::from_ref(&lists));
    let padded = ranks(&spec, &groups, 2, 0);
    assert_eq!(padded, [[vec![4, 4], vec![2, 1]], [vec![0], vec![4, 4]]]);
    let spec = with(Order::Custom(lists), 2, true);
    assert_eq!(ranks(&spec, &groups, 2, 0), [[vec![4, 4]], [vec![0]]]);
}

#[test]
fn shards_are_disjoint_equally_long_and_dealt_anew() {
    let groups = Groups::by_key([(57, 3), (40, 1)]).unwrap();
    for order in [
        Order::Shuffled,
        Order::Blocks { block: 5, pool: 3 },
        samudra(true),
    ] {
        for drop_last in [false, true] {
            let spec = with(order.clone(), 3, drop_last).with_world(2).with_rank(1);
            let process = Schedule::new(spec.clone(), groups.clone()).unwrap();
            let world = ranks(&spec, &groups, 6, 1);
            for index in 0..3 {
                let shard = process.shard(Shard { index, count: 3 }).unwrap();
                assert_eq!(batches(&shard, 1), world[3 + index]);
                let [one, next] = [0, 1].map(|e| batches(&shard, e));
                assert_ne!(one, next);
                // Samudra's ranks keep their windows (these divide evenly or are dropped).
                let kept = sorted(&one) == sorted(&next);
                assert!(!kept || matches!(order, Order::Samudra { .. }));
            }
        }
    }
}

fn any_order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Sequential),
        Just(Order::Shuffled),
        (1u64..20, 1u64..6).prop_map(|(block, pool)| Order::Blocks { block, pool }),
        (any::<bool>(), any::<bool>()).prop_map(|(shuffle, sorted)| Order::Samudra {
            shuffle,
            groups: if sorted {
                GroupOrder::Sorted
            } else {
                GroupOrder::FirstSeen
            },
        }),
    ]
}

proptest! {
    #[test]
    fn every_window_once_and_batches_of_one_group(
        data_sets in prop::collection::vec((0u64..60, 0u8..4), 1..7),
        order in any_order(),
        seed: i64,
        epoch: u64,
        batch_size in 1usize..9,
        world in 1usize..6,
        drop_last: bool,
    ) {
        let groups = Groups::by_key(data_sets).unwrap();
        let spec = with(order, batch_size, drop_last).with_seed(seed);
        let ranks = ranks(&spec, &groups, world, epoch);
        let mut counts = vec![0usize; groups.windows() as usize];
        for batch in ranks.iter().flatten() {
            prop_assert!((1..=batch_size).contains(&batch.len()));
            prop_assert!(!drop_last || batch.len() == batch_size);
            let group = groups.group_of(batch[0]);
            prop_assert!(batch.iter().all(|w| groups.group_of(*w) == group));
            batch.iter().for_each(|w| counts[*w as usize] += 1);
        }
        if drop_last {
            prop_assert!(counts.iter().all(|c| *c <= 1));
        } else {
            prop_assert!(counts.iter().all(|c| *c >= 1));
        }
        if world == 1 && !drop_last {
            prop_assert!(counts.iter().all(|c| *c == 1));
        }
        prop_assert!(ranks.iter().all(|r| r.len() == ranks[0].len()));
    }
}
