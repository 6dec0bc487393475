//! What every order promises: each window once, equal steps on all ranks, padding as documented, and
//! batches that depend on nothing but (seed, epoch, world, rank).

use anyhow::Result;
use burn_om4::order::{FingerprintBuilder, GroupOrder, Groups, Shard};
use burn_om4::{ErrorKind, Order, Schedule, ScheduleOptions};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

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

fn digest(batches: &[Batches]) -> String {
    let mut builder = FingerprintBuilder::default();
    for batch in batches.iter().flatten() {
        builder.part("order").u64s(batch);
    }
    builder.finish().part("order").unwrap().to_owned()
}

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

/// Frozen: these may change only together with the version of [`burn_om4::LoaderState`].
#[test]
fn orders_are_what_they_always_were() {
    let groups = Groups::by_key([(57, 3), (40, 1), (30, 3)]).unwrap();
    let one = Groups::single(100).unwrap();
    let digests = |order: Order| {
        let spec = with(order, 4, false);
        let epochs =
            |groups, world| digest(&[0, 1, 9].map(|e| ranks(&spec, groups, world, e).concat()));
        [epochs(&one, 1), epochs(&one, 3), epochs(&groups, 2)]
    };
    let golden = [
        (
            Order::Sequential,
            [
                "bb2ae03d030f0abf7144f0221a1cbeca",
                "a5b11e1e916a6695744ab1992af312d0",
                "e7742d6b86056f40716800fd7d7e369c",
            ],
        ),
        (
            Order::Shuffled,
            [
                "09488d8b9713a60709f8baf3b6cf3aa0",
                "38f7627d2c1da8f0b77b43263a2e5e40",
                "7ffe71fa9c5c0bdc39570a593666fdf4",
            ],
        ),
        (
            Order::Blocks { block: 8, pool: 3 },
            [
                "cfe497e0426a6c15515210cf8beca834",
                "78f01aac6bfb111f5d20e1593392c4e8",
                "275908ede0c1e5493a968c83ea9036bc",
            ],
        ),
        (
            samudra(true),
            [
                "4b1357f01779457b63243e2f010e9d61",
                "ff3a4fd5d7c669102f2c913b68ce55c0",
                "1491621cb775900fdf8a89724cee49f8",
            ],
        ),
        (
            samudra(false),
            [
                "bb2ae03d030f0abf7144f0221a1cbeca",
                "a5b11e1e916a6695744ab1992af312d0",
                "9d06deba6072cb9b5930b19ddc273964",
            ],
        ),
    ];
    for (order, expected) in golden {
        assert_eq!(digests(order.clone()), expected, "{order}");
    }
}

#[test]
fn a_shuffle_in_full() {
    let spec = with(Order::Shuffled, 4, false);
    let schedule = Schedule::new(spec, Groups::single(10).unwrap()).unwrap();
    assert_eq!(
        batches(&schedule, 1),
        [vec![4, 9, 1, 8], vec![7, 0, 2, 3], vec![6, 5]]
    );
}

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

#[test]
fn bad_options_are_refused_with_their_reason() {
    let one = || Groups::single(10).unwrap();
    let two = || Groups::by_key([(5, 0), (5, 1)]).unwrap();
    let base = ScheduleOptions::default().with_batch_size(2);
    let custom = |lists: &[&[u64]]| {
        base.clone()
            .with_order(Order::Custom(lists.iter().map(|l| l.to_vec()).collect()))
    };
    let blocks = |block, pool| base.clone().with_order(Order::Blocks { block, pool });
    let cases = [
        (
            base.clone().with_batch_size(0),
            one(),
            "the batch size must be at least 1: found 0",
        ),
        (
            base.clone().with_world(0),
            one(),
            "the world size must be at least 1: found 0",
        ),
        (
            base.clone().with_world(3).with_rank(3),
            one(),
            "no such rank: expected a rank below the world size 3, found 3",
        ),
        (
            blocks(0, 1),
            one(),
            "the block of a block shuffle must be at least 1: found 0",
        ),
        (
            blocks(1, 0),
            one(),
            "the pool of a block shuffle must be at least 1: found 0",
        ),
        (
            custom(&[&[0], &[]]),
            one(),
            "batch 1 of the custom order has a bad length: expected 1 to 2, found 0",
        ),
        (
            custom(&[&[0, 1, 2]]),
            one(),
            "batch 0 of the custom order has a bad length: expected 1 to 2, found 3",
        ),
        (
            custom(&[&[0, 10]]),
            one(),
            "batch 0 of the custom order has no such window: expected windows below 10, found 10",
        ),
        (
            custom(&[&[4, 5]]),
            two(),
            "batch 0 of the custom order mixes groups: found windows 4 and 5",
        ),
    ];
    for (spec, groups, message) in cases {
        let error = Schedule::new(spec, groups).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.kind(), ErrorKind::Config);
    }
    let error = Groups::by_key([(u64::MAX / 4, 0), (1, 0)]).unwrap_err();
    assert!(
        error.to_string().starts_with("more windows than"),
        "{error}"
    );
    let schedule = Schedule::new(base, one()).unwrap();
    for (index, count) in [(0, 0), (2, 2)] {
        assert!(schedule.shard(Shard { index, count }).is_err());
    }
    let second = schedule.shard(Shard { index: 1, count: 2 }).unwrap();
    assert!(
        second
            .shard(Shard {
                index: 0,
                count: usize::MAX
            })
            .is_err()
    );
}

#[test]
fn nothing_to_deliver_is_an_epoch_without_steps() {
    for (windows, batch_size, world) in [(0, 1, 1), (0, 4, 3), (3, 4, 1), (7, 2, 4)] {
        for order in [
            Order::Sequential,
            Order::Shuffled,
            Order::Blocks { block: 2, pool: 2 },
            samudra(true),
        ] {
            let groups = Groups::single(windows).unwrap();
            assert_eq!(groups.is_empty(), windows == 0);
            for rank in ranks(&with(order, batch_size, true), &groups, world, 0) {
                assert_eq!(rank, Batches::new());
            }
        }
    }
    let schedule = Schedule::new(with(Order::Shuffled, 1, false), Groups::single(0).unwrap());
    assert!(schedule.unwrap().epoch(0).is_empty());
}

#[test]
fn options_read_and_write_as_text() -> Result<()> {
    let text = r#"{"order":{"blocks":{"block":64,"pool":8}},"seed":-3,"batch_size":4,"drop_last":true,"world":2,"rank":1}"#;
    let spec: ScheduleOptions = serde_json::from_str(text)?;
    assert_eq!(spec.order, Order::Blocks { block: 64, pool: 8 });
    assert_eq!(serde_json::to_string(&spec)?, text);
    for (text, order) in [
        (r#""sequential""#, Order::Sequential),
        (r#""shuffled""#, Order::Shuffled),
        (
            r#"{"samudra":{"shuffle":true,"groups":"first-seen"}}"#,
            Order::Samudra {
                shuffle: true,
                groups: GroupOrder::FirstSeen,
            },
        ),
        (
            r#"{"custom":[[1,2],[0]]}"#,
            Order::Custom(vec![vec![1, 2], vec![0]]),
        ),
    ] {
        assert_eq!(serde_json::from_str::<Order>(text)?, order);
        assert_eq!(serde_json::to_string(&order)?, text);
    }
    assert_eq!(
        serde_json::from_str::<ScheduleOptions>("{}")?,
        ScheduleOptions::default()
    );
    assert!(serde_json::from_str::<ScheduleOptions>(r#"{"batchsize":4}"#).is_err());
    Ok(())
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
