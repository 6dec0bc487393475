//! Options that are refused, and their text form.

use crate::{Batches, ranks, samudra, with};
use anyhow::Result;
use burn_om4::order::{GroupOrder, Groups, Shard};
use burn_om4::{ErrorKind, Order, Schedule, ScheduleOptions};

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
