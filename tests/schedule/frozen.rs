//! Orders that must not change.

use crate::{Batches, batches, ranks, samudra, with};
use burn_om4::order::{FingerprintBuilder, Groups};
use burn_om4::{Order, Schedule};

fn digest(batches: &[Batches]) -> String {
    let mut builder = FingerprintBuilder::default();
    for batch in batches.iter().flatten() {
        builder.part("order").u64s(batch);
    }
    builder.finish().part("order").unwrap().to_owned()
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
