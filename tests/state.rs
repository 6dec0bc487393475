//! Going on from a saved state: what was delivered is not delivered again, and nothing is left out.

use anyhow::Result;
use burn_om4::order::{
    Fingerprint, FingerprintBuilder, FingerprintPart, GroupOrder, Groups, Position,
};
use burn_om4::{Error, ErrorKind, LoaderState, Order, Schedule, ScheduleOptions};

fn store(statistic: f64) -> Fingerprint {
    let mut builder = FingerprintBuilder::default();
    builder.part("channels").text("thetao_0").text("zos");
    builder
        .part("grid")
        .u64s(&[2, 3])
        .bytes(&[1, 1, 0, 1, 1, 1]);
    builder.part("statistics").f64s(&[statistic, 1.0]);
    builder.part("time axis").text("julian").i64s(&[0, 5, 10]);
    builder.finish()
}

fn spec(order: Order, batch_size: usize, world: usize) -> ScheduleOptions {
    ScheduleOptions::default()
        .with_order(order)
        .with_seed(15)
        .with_batch_size(batch_size)
        .with_world(world)
}

fn on_rank(spec: &ScheduleOptions, groups: &Groups, rank: usize) -> Schedule {
    let spec = spec.clone().with_rank(rank);
    Schedule::new(spec, groups.clone()).unwrap()
}

fn save(schedule: &Schedule, epoch: u64, delivered: u64) -> LoaderState {
    let text = LoaderState::new(schedule, Position { epoch, delivered }, store(0.5)).to_json();
    LoaderState::from_json(&text).unwrap()
}

fn orders() -> Vec<Order> {
    let groups = GroupOrder::FirstSeen;
    vec![
        Order::Sequential,
        Order::Shuffled,
        Order::Blocks { block: 4, pool: 2 },
        Order::Samudra {
            shuffle: true,
            groups,
        },
        Order::Custom(vec![vec![3], vec![0, 1], vec![5, 4], vec![2], vec![6]]),
    ]
}

#[test]
fn after_every_batch_the_rest_is_what_would_have_come() -> Result<()> {
    for groups in [Groups::single(23)?, Groups::by_key([(13, 1), (9, 0)])?] {
        for order in orders() {
            for drop_last in [false, true] {
                for world in [1, 2] {
                    let spec = spec(order.clone(), 2, world).with_drop_last(drop_last);
                    for rank in 0..world {
                        let run = on_rank(&spec, &groups, rank);
                        let uninterrupted: Vec<_> =
                            (3..5).flat_map(|e| run.epoch(e).iter_from(0)).collect();
                        for delivered in 0..=run.steps() {
                            // Every rank saves the same; take the other end's.
                            let state = save(&on_rank(&spec, &groups, world - 1), 3, delivered);
                            let again = on_rank(&spec, &groups, rank);
                            let at = state.resume(&again, &store(0.5))?;
                            let mut rest: Vec<_> =
                                again.epoch(at.epoch).iter_from(at.delivered).collect();
                            if at.epoch == 3 {
                                rest.extend(again.epoch(4).iter_from(0));
                            }
                            assert_eq!(rest, uninterrupted[delivered as usize..]);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Windows of steps `steps` on all ranks, padding and all.
fn windows(spec: &ScheduleOptions, groups: &Groups, steps: std::ops::Range<u64>) -> Vec<u64> {
    let ranks = (0..spec.world).map(|r| on_rank(spec, groups, r).epoch(0));
    let ranks: Vec<_> = ranks.collect();
    let round = |k| ranks.iter().flat_map(move |r| r.batch(k));
    steps.flat_map(round).collect()
}

/// All batch sizes and worlds against each other: where it is allowed, every window still comes once
/// in the order it would have come; where not, the reason is given.
#[test]
fn another_batch_size_or_world_goes_on_where_whole_rounds_were_delivered() -> Result<()> {
    let groups = Groups::single(48)?;
    let (mut allowed, mut refused) = (0, 0);
    for order in &orders()[..3] {
        let order_of_windows = windows(&spec(order.clone(), 1, 1), &groups, 0..48);
        for (batch, world) in [(1, 1), (2, 1), (3, 2), (4, 3), (1, 8), (5, 2)] {
            let old = spec(order.clone(), batch, world);
            let steps = on_rank(&old, &groups, 0).steps();
            for (new_batch, new_world) in [(1, 1), (2, 1), (3, 1), (4, 2), (6, 4), (5, 1), (48, 1)]
            {
                let new = spec(order.clone(), new_batch, new_world);
                for delivered in 0..=steps {
                    let state = save(&on_rank(&old, &groups, 0), 0, delivered);
                    let schedule = on_rank(&new, &groups, new_world - 1);
                    let before = (delivered as usize * batch * world).min(48);
                    match state.resume(&schedule, &store(0.5)) {
                        Ok(at) if at.epoch == 1 => assert_eq!((before, at.delivered), (48, 0)),
                        Ok(at) => {
                            allowed += 1;
                            let rest = windows(&new, &groups, at.delivered..schedule.steps());
                            let left = 48 - before;
                            assert_eq!(rest[..left], order_of_windows[before..]);
                            // Padding begins at the beginning.
                            let padding = &rest[left..];
                            assert_eq!(padding, &order_of_windows[..padding.len()]);
                        }
                        Err(e) => {
                            refused += 1;
                            assert_ne!(before % (new_batch * new_world), 0);
                            assert!(e.to_string().contains("not between two rounds"), "{e}");
                        }
                    }
                }
            }
        }
    }
    assert!(allowed > 500 && refused > 500, "{allowed} {refused}");
    Ok(())
}

#[test]
fn a_batch_size_under_which_the_rest_is_dropped_starts_the_next_epoch() -> Result<()> {
    let groups = Groups::single(11)?;
    let with = |batch_size| spec(Order::Shuffled, batch_size, 1).with_drop_last(true);
    let state = save(&on_rank(&with(2), &groups, 0), 6, 4);
    let at = state.resume(&on_rank(&with(8), &groups, 0), &store(0.5))?;
    assert_eq!(
        at,
        Position {
            epoch: 7,
            delivered: 0
        }
    );
    Ok(())
}

#[test]
fn several_groups_go_on_in_another_world_but_not_with_another_batch_size() -> Result<()> {
    let groups = Groups::by_key([(13, 1), (9, 0), (6, 1)])?;
    for order in &orders()[..3] {
        let (old, new) = (spec(order.clone(), 2, 2), spec(order.clone(), 2, 3));
        let rounds = on_rank(&old, &groups, 0).steps();
        assert_eq!(rounds, 8);
        let state = save(&on_rank(&old, &groups, 0), 0, 6);
        let schedule = on_rank(&new, &groups, 0);
        let at = state.resume(&schedule, &store(0.5))?;
        assert_eq!(
            at,
            Position {
                epoch: 0,
                delivered: 4
            }
        );
        let mut seen = windows(&old, &groups, 0..6);
        seen.extend(windows(&new, &groups, 4..schedule.steps()));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..28).collect::<Vec<_>>());

        let state = save(&on_rank(&old, &groups, 0), 0, 5);
        assert!(state.resume(&schedule, &store(0.5)).is_err());
        let other = on_rank(&spec(order.clone(), 1, 2), &groups, 0);
        refuses(
            &state,
            &other,
            "the saved state has another batch size, and cannot be resumed with this one: expected 2, found 1",
        );
    }
    Ok(())
}

fn refuses(state: &LoaderState, schedule: &Schedule, message: &str) {
    let error: Error = state.resume(schedule, &store(0.5)).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn what_changes_the_order_is_refused() -> Result<()> {
    let groups = Groups::single(23)?;
    let base = spec(Order::Shuffled, 2, 2);
    let state = save(&on_rank(&base, &groups, 0), 1, 3);
    let other = |change: fn(&mut ScheduleOptions)| {
        let mut spec = base.clone();
        change(&mut spec);
        on_rank(&spec, &groups, 0)
    };
    let another = "cannot be resumed with this one: expected";
    for (schedule, what) in [
        (
            other(|s| s.seed = 16),
            format!("seed, and {another} 15, found 16"),
        ),
        (
            other(|s| s.drop_last = true),
            format!("drop_last, and {another} false, found true"),
        ),
        (
            other(|s| s.order = Order::Sequential),
            format!("order, and {another} shuffled, found sequential"),
        ),
        (
            other(|s| s.order = Order::Blocks { block: 2, pool: 3 }),
            format!("order, and {another} shuffled, found blocks of 2 in pools of 3"),
        ),
    ] {
        refuses(
            &state,
            &schedule,
            &format!("the saved state has another {what}"),
        );
    }
    let longer = on_rank(&base, &Groups::single(24)?, 0);
    let error = state.resume(&longer, &store(0.5)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the saved state orders other windows: ")
    );

    let state = save(&on_rank(&base, &groups, 0), 1, 7);
    refuses(
        &state,
        &on_rank(&base, &groups, 0),
        "the saved state counts more batches than an epoch has: expected at most 6, found 7",
    );
    Ok(())
}

#[test]
fn samudras_and_custom_orders_take_neither_another_world_nor_batch_size() -> Result<()> {
    let groups = Groups::single(23)?;
    for order in &orders()[3..] {
        let state = save(&on_rank(&spec(order.clone(), 2, 1), &groups, 0), 1, 2);
        let another = "and cannot be resumed with this one: expected";
        let wider = on_rank(&spec(order.clone(), 2, 2), &groups, 0);
        refuses(
            &state,
            &wider,
            &format!("the saved state has another world size, {another} 1, found 2"),
        );
        let larger = on_rank(&spec(order.clone(), 4, 1), &groups, 0);
        refuses(
            &state,
            &larger,
            &format!("the saved state has another batch size, {another} 2, found 4"),
        );
    }
    Ok(())
}

#[test]
fn other_groups_and_other_custom_batches_are_other_windows() -> Result<()> {
    let custom = |last| spec(Order::Custom(vec![vec![0, 1], vec![2, last]]), 2, 1);
    let state = save(&on_rank(&custom(3), &Groups::single(5)?, 0), 0, 1);
    assert!(
        state
            .resume(&on_rank(&custom(3), &Groups::single(5)?, 0), &store(0.5))
            .is_ok()
    );
    assert!(
        state
            .resume(&on_rank(&custom(4), &Groups::single(5)?, 0), &store(0.5))
            .is_err()
    );
    let shuffled = spec(Order::Shuffled, 2, 1);
    let state = save(
        &on_rank(&shuffled, &Groups::by_key([(6, 1), (4, 2)])?, 0),
        0,
        1,
    );
    for groups in [
        Groups::by_key([(4, 1), (6, 2)])?,
        Groups::by_key([(6, 2), (4, 1)])?,
        Groups::single(10)?,
    ] {
        let error = state
            .resume(&on_rank(&shuffled, &groups, 0), &store(0.5))
            .unwrap_err();
        assert!(error.to_string().contains("other windows"), "{error}");
    }
    // Names of keys do not matter, their order does.
    let renamed = Groups::by_key([(6, "x"), (4, "y")])?;
    assert!(
        state
            .resume(&on_rank(&shuffled, &renamed, 0), &store(0.5))
            .is_ok()
    );
    Ok(())
}

#[test]
fn a_changed_store_is_refused_and_the_change_named() -> Result<()> {
    let schedule = on_rank(&spec(Order::Shuffled, 2, 1), &Groups::single(23)?, 0);
    let state = save(&schedule, 0, 1);
    let error = state.resume(&schedule, &store(0.25)).unwrap_err();
    let (was, is) = (store(0.5), store(0.25));
    assert_eq!(
        error.to_string(),
        format!(
            "the store has changed since the state was saved (statistics): expected {}, found {}",
            was.part("statistics").unwrap(),
            is.part("statistics").unwrap()
        )
    );
    let error = state
        .resume(&schedule, &Fingerprint::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("(channels, grid, statistics, time axis)"),
        "{error}"
    );
    Ok(())
}

/// Frozen: other bytes are another version.
#[test]
fn the_document_is_what_it_always_was() -> Result<()> {
    let groups = Groups::by_key([(13, [12, 24]), (9, [6, 14])])?;
    let schedule = on_rank(&spec(Order::Blocks { block: 4, pool: 2 }, 2, 3), &groups, 1);
    let at = Position {
        epoch: 2,
        delivered: 3,
    };
    let text = LoaderState::new(&schedule, at, store(0.5)).to_json();
    assert_eq!(
        text,
        concat!(
            r#"{"version":1,"seed":15,"epoch":2,"delivered":3,"order":"blocks of 4 in pools of 2","#,
            r#""batch_size":2,"drop_last":false,"world":3,"#,
            r#""windows":"94448cdf4e377dbb457ad31456c8609b","#,
            r#""store":{"channels":"29ca22c0b517f4075df2cd9bb565269e","#,
            r#""grid":"25347f02fafe73292702f833b27f50ed","#,
            r#""statistics":"1b2ffc3aecde56043e46ea23f026f7b0","#,
            r#""time axis":"de4a49baaa7e48d244e46c10d3dd1245"}}"#
        )
    );
    let state = LoaderState::from_json(&text)?;
    assert_eq!(state.position(), at);
    Ok(())
}

#[test]
fn damaged_and_foreign_documents_are_refused() -> Result<()> {
    let schedule = on_rank(&spec(Order::Shuffled, 2, 1), &Groups::single(23)?, 0);
    let text = save(&schedule, 0, 1).to_json();
    let refused = |text: &str| LoaderState::from_json(text).unwrap_err();
    for end in 0..text.len() {
        assert_eq!(refused(&text[..end]).to_string(), "not a saved state");
    }
    for (from, to) in [
        (r#""seed":15,"#, ""),
        (r#""seed":15"#, r#""seed":15,"sead":1"#),
        (r#""delivered":1"#, r#""delivered":-1"#),
        (r#""world":1"#, r#""world":"1""#),
    ] {
        assert_ne!(text.replace(from, to), text);
        let error = refused(&text.replace(from, to));
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(error.to_string(), "not a saved state");
    }
    let newer = text.replace(r#""version":1"#, r#""version":2,"more":[]"#);
    assert_eq!(
        refused(&newer).to_string(),
        "a saved state of another version: expected 1, found 2"
    );
    let zero = text.replace(r#""batch_size":2"#, r#""batch_size":0"#);
    let state = LoaderState::from_json(&zero)?;
    refuses(
        &state,
        &schedule,
        "the batch size must be at least 1: found 0",
    );
    Ok(())
}

fn digest(feed: fn(&mut FingerprintPart) -> &mut FingerprintPart) -> String {
    let mut builder = FingerprintBuilder::default();
    feed(builder.part("x"));
    builder.finish().part("x").unwrap().to_owned()
}

#[test]
fn no_two_contents_share_a_fingerprint() {
    let digests = [
        digest(|p| p),
        digest(|p| p.text("")),
        digest(|p| p.bytes(b"")),
        digest(|p| p.text("ab")),
        digest(|p| p.bytes(b"ab")),
        digest(|p| p.text("a").text("b")),
        digest(|p| p.text("b").text("a")),
        digest(|p| p.u64s(&[1, 2])),
        digest(|p| p.u64s(&[1]).u64s(&[2])),
        digest(|p| p.i64s(&[1, 2])),
        digest(|p| p.f64s(&[0.0])),
        digest(|p| p.f64s(&[-0.0])),
        digest(|p| p.f64s(&[f64::NAN])),
        digest(|p| p.f32s(&[0.0])),
        digest(|p| p.f32s(&[0.0, 0.0])),
        digest(|p| p.f32s(&[f32::NAN])),
        digest(|p| p.f64s(&[1.0])),
        digest(|p| p.f64s(&[1.0 + f64::EPSILON])),
    ];
    let distinct: std::collections::HashSet<&String> = digests.iter().collect();
    assert_eq!(distinct.len(), digests.len());
    assert_eq!(
        digest(|p| p.f64s(&[-f64::NAN, 1.0])),
        digest(|p| p.f64s(&[f64::NAN, 1.0]))
    );
}

#[test]
fn parts_are_fed_in_turn_and_by_name() {
    let mut whole = FingerprintBuilder::default();
    whole.part("a").u64s(&[1]).text("x");
    whole.part("b").f32s(&[0.5]);
    let mut turns = FingerprintBuilder::default();
    turns.part("b").f32s(&[0.5]);
    turns.part("a").u64s(&[1]);
    turns.part("a").text("x");
    assert_eq!(whole.finish(), turns.finish());
}
