//! Windows against the formulas of the original, written as loops, and against its own output.

// A list of one segment is meant.
#![allow(clippy::single_range_in_vec_init)]

use burn_om4::ocean::{Calendar, TimeAxis, TimeValues};
use burn_om4::plan::{BatchPlan, Labels, inference_starts};
use burn_om4::{Date, DateRange, ErrorKind, Inputs, Role, WindowOptions};
use om4_test_support::fixtures::{GoldenCase, SyntheticOcean, golden};
use proptest::prelude::*;
use serde::Deserialize;
use std::ops::Range;

fn spec(history: usize, steps: usize, stride: usize) -> WindowOptions {
    WindowOptions::default()
        .with_history(history)
        .with_steps(steps)
        .with_stride(stride)
}

/// Every row a window reads, by the formulas alone.
fn rows_of(s: &WindowOptions, start: usize) -> Vec<usize> {
    let times = s.history + 1;
    let mut rows = Vec::new();
    for step in 0..s.steps {
        let base = start + step * times * s.stride;
        for j in 0..times {
            rows.push(base + s.stride * j);
            rows.push(base + s.stride * (times + j));
        }
    }
    rows
}

fn brute_starts(s: &WindowOptions, segment: &Range<usize>) -> Vec<usize> {
    let inside = |&start: &usize| rows_of(s, start).iter().all(|r| segment.contains(r));
    segment.clone().filter(inside).collect()
}

proptest! {
    #[test]
    fn starts_are_the_rows_whose_windows_fit(
        shape in (0usize..4, 1usize..5, 1usize..4),
        lengths in proptest::collection::vec(0usize..60, 0..4),
        first in 0usize..10,
        every in 1usize..7,
    ) {
        let s = spec(shape.0, shape.1, shape.2).with_start_every(every);
        let mut segments = Vec::new();
        let mut row = first;
        for length in lengths {
            segments.push(row..row + length);
            row += length;
        }
        let mut expected = Vec::new();
        for segment in &segments {
            let all = brute_starts(&s, segment);
            prop_assert_eq!(s.windows(segment.len()), all.len());
            expected.extend(all.into_iter().step_by(every));
        }
        prop_assert_eq!(s.starts(&segments).unwrap(), expected);
    }

    #[test]
    fn rows_follow_the_formulas_and_fill_the_span(
        shape in (0usize..4, 1usize..5, 1usize..4),
        start in 0usize..100,
    ) {
        let s = spec(shape.0, shape.1, shape.2);
        let times = s.history + 1;
        for step in 0..s.steps {
            let base = start + step * times * s.stride;
            let inputs: Vec<_> = s.input_rows(start, step).collect();
            let labels: Vec<_> = s.label_rows(start, step).collect();
            prop_assert_eq!(&inputs, &(0..times).map(|j| base + s.stride * j).collect::<Vec<_>>());
            prop_assert_eq!(&labels, &(0..times).map(|j| base + s.stride * (times + j)).collect::<Vec<_>>());
            prop_assert_eq!(&labels, &s.input_rows(start, step + 1).collect::<Vec<_>>());
            prop_assert_eq!(s.input_rows(start, step).len(), s.times());
        }
        let rows = rows_of(&s, start);
        prop_assert_eq!(*rows.iter().min().unwrap(), start);
        prop_assert_eq!(*rows.iter().max().unwrap(), start + s.span() - 1);
        // The published length: T − S·H·s − hist·s.
        let t = 200;
        prop_assert_eq!(s.windows(t), t - s.steps * times * s.stride - s.history * s.stride);
    }

    #[test]
    fn explicit_starts_are_kept_or_the_first_misfit_is_named(
        shape in (0usize..3, 1usize..4, 1usize..3),
        starts in proptest::collection::vec(0usize..60, 1..12),
    ) {
        let segments = [5..25, 25..50];
        let s = spec(shape.0, shape.1, shape.2).with_starts(starts.clone());
        let fits = |start: &usize| segments.iter().any(|seg| brute_starts(&s, seg).contains(start));
        match (s.starts(&segments), starts.iter().find(|start| !fits(start))) {
            (Ok(kept), None) => prop_assert_eq!(kept, starts),
            (Err(e), Some(&bad)) => {
                prop_assert_eq!(e.kind(), ErrorKind::Config);
                prop_assert_eq!(e.time_row(), Some(bad));
                let needs = format!("expected {} rows", s.span());
                prop_assert!(e.to_string().contains(&needs), "{}", e);
            }
            (got, bad) => prop_assert!(false, "{:?}, but the first misfit is {:?}", got, bad),
        }
    }

    #[test]
    fn a_rollout_takes_every_input_once(rows in 0usize..60, first in 0usize..9, history in 0usize..5) {
        let starts = inference_starts(first..first + rows, history).unwrap();
        // SEMANTICS 3.8: ceil((T − 2·hist − 1) / H), at row k·H.
        let (t, h, times) = (rows as i64, history as i64, history as i64 + 1);
        let mut length = 0;
        while length * times < t - 2 * h - 1 {
            length += 1;
        }
        let expected: Vec<usize> = (0..length).map(|k| first + (k * times) as usize).collect();
        prop_assert_eq!(&starts, &expected);
        for start in starts {
            prop_assert!(start + 2 * (history + 1) <= first + rows);
        }
    }

    /// No numbers panic or wrap: what is accepted fits.
    #[test]
    fn huge_numbers_are_refused_or_fit(
        history in prop_oneof![0usize..4, any::<usize>()],
        steps in prop_oneof![0usize..4, any::<usize>()],
        stride in prop_oneof![0usize..4, any::<usize>()],
        every in prop_oneof![0usize..4, any::<usize>()],
    ) {
        let s = spec(history, steps, stride).with_start_every(every);
        let big = |n: usize| n as u128;
        let span = big(stride).saturating_mul((big(steps) * (big(history) + 1)).saturating_add(big(history))).saturating_add(1);
        let valid = steps > 0 && stride > 0 && every > 0 && span <= usize::MAX as u128;
        prop_assert_eq!(s.validate().is_ok(), valid);
        let starts = s.starts(&[0..30, usize::MAX - 30..usize::MAX]);
        prop_assert_eq!(starts.is_ok(), valid);
        if stride > 0 {
            prop_assert_eq!(big(s.span()), span.min(usize::MAX as u128));
        }
        for start in starts.unwrap_or_default() {
            prop_assert!(big(start) + span <= usize::MAX as u128);
            prop_assert!(s.label_rows(start, steps - 1).max() < Some(usize::MAX));
        }
    }
}

#[test]
fn too_short_segments_give_no_windows() {
    let s = spec(1, 4, 1);
    assert_eq!(s.span(), 10);
    assert!(s.starts(&[0..9]).unwrap().is_empty());
    assert_eq!(s.starts(&[0..10]).unwrap(), [0]);
    assert!(s.starts(&[]).unwrap().is_empty());
    assert_eq!((s.windows(0), s.windows(9), s.windows(10)), (0, 0, 1));
}

#[test]
fn spacing_is_counted_anew_in_each_segment() {
    let s = spec(0, 1, 1).with_start_every(3);
    assert_eq!(s.starts(&[0..8, 8..13]).unwrap(), [0, 3, 6, 8, 11]);
}

#[test]
fn explicit_starts_may_repeat_in_any_order() {
    let s = spec(1, 1, 1).with_starts(vec![7, 2, 7]);
    assert_eq!(s.starts(&[0..11]).unwrap(), [7, 2, 7]);
    let e = s.starts(&[0..10]).unwrap_err().to_string();
    assert!(
        e.contains("[time row 7]: expected 4 rows without a gap, found 3 before row 10"),
        "{e}"
    );
    let e = s.starts(&[5..11]).unwrap_err().to_string();
    assert!(e.contains("[time row 2]") && e.contains("outside"), "{e}");
}

#[test]
fn bad_shapes_are_refused() {
    let d = WindowOptions::default;
    for (spec, word) in [
        (d().with_steps(0), "steps"),
        (d().with_stride(0), "stride"),
        (d().with_start_every(0), "start_every"),
        (d().with_stride(usize::MAX), "longer than can be counted"),
        (d().with_history(usize::MAX), "longer than can be counted"),
        (d().with_starts(vec![]), "empty"),
        (d().with_starts(vec![1]).with_start_every(2), "start_every"),
    ] {
        let e = spec.validate().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains(word), "{e}");
        assert!(spec.starts(&[0..100]).is_err());
    }
    assert!(inference_starts(0..10, usize::MAX).is_err());
    d().validate().unwrap();
}

#[test]
#[should_panic(expected = "can be counted")]
fn rows_beyond_usize_panic_rather_than_wrap() {
    let _ = spec(1, 1, 1).input_rows(usize::MAX, 0);
}

#[test]
fn a_spec_reads_from_json_with_defaults_and_refuses_typos() {
    let s: WindowOptions = serde_json::from_str(r#"{"history": 2, "steps": 4}"#).unwrap();
    assert_eq!(s, spec(2, 4, 1));
    let json = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<WindowOptions>(&json).unwrap(), s);
    assert!(serde_json::from_str::<WindowOptions>(r#"{"hist": 2}"#).is_err());
}

/// The axis of a fixture store: every fifth day at noon.
fn axis(ocean: &SyntheticOcean) -> TimeAxis {
    let params = &ocean.params;
    let values = TimeValues::Int((0..params.nt as i64).map(|i| 5 * i).collect());
    let units = format!("days since {} 12:00:00", params.start);
    TimeAxis::decode(&values, &units, "julian").unwrap()
}

fn selected(time: &TimeAxis, slice: Option<[Date; 2]>) -> Range<usize> {
    match slice {
        Some([start, end]) => time.select(&DateRange { start, end }).unwrap(),
        None => 0..time.len(),
    }
}

#[test]
fn windows_and_plans_equal_the_original_in_every_public_case() {
    let Some((_, manifest)) = golden() else {
        return;
    };
    let mut checked = 0;
    for GoldenCase { case, expected } in &manifest.cases {
        let id = &case.id;
        let s = case.window();
        let time = axis(&manifest.datasets[&expected.dataset]);
        let selected = selected(&time, case.time_slice);
        assert_eq!(selected.start, expected.store_time_offset, "{id}");
        assert_eq!(selected.len(), expected.slice_len, "{id}");
        let starts = s.starts(&time.segments(selected, 1.5)).unwrap();
        assert_eq!(starts.len(), expected.length, "{id}");

        let batch: Vec<usize> = case.indices.iter().map(|&i| starts[i as usize]).collect();
        for labels in [Labels::Shared, Labels::Own] {
            let plan = BatchPlan::new(&s, &batch, 1, 1, Inputs::All, labels).unwrap();
            let label_rows = &plan.groups.of(Role::Label).rows;
            for step in 0..s.steps {
                for (sample, &start) in batch.iter().enumerate() {
                    let inputs = &expected.input_time_indices[step][sample];
                    let targets = &expected.label_time_indices[step][sample];
                    assert!(s.input_rows(start, step).eq(inputs.iter().copied()), "{id}");
                    assert!(
                        s.label_rows(start, step).eq(targets.iter().copied()),
                        "{id}"
                    );
                    for (gather, unique, wanted) in [
                        (
                            &plan.gathers.input[step],
                            &plan.groups.prognostic.rows,
                            inputs,
                        ),
                        (
                            &plan.gathers.boundary[step],
                            &plan.groups.boundary.rows,
                            inputs,
                        ),
                        (&plan.gathers.label[step], label_rows, targets),
                    ] {
                        let entries = &gather.rows[sample * gather.times..][..gather.times];
                        let got: Vec<usize> = entries.iter().map(|&e| unique[e as usize]).collect();
                        assert_eq!(&got, wanted, "{id}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// A rollout of the original, over a whole time slice.
#[derive(Deserialize)]
struct Rollout {
    id: String,
    dataset: String,
    #[serde(rename = "hist")]
    history: usize,
    time_slice: Option<[Date; 2]>,
    length: usize,
    rolling_indices: Vec<Vec<usize>>,
    target_times: Vec<String>,
}

#[test]
fn rollouts_equal_the_original_in_every_public_case() {
    let Some((root, manifest)) = golden() else {
        return;
    };
    let text = std::fs::read_to_string(root.join("inference.json")).unwrap();
    let rollouts: Vec<Rollout> = serde_json::from_str(&text).unwrap();
    for rollout in &rollouts {
        let id = &rollout.id;
        let time = axis(&manifest.datasets[&rollout.dataset]);
        assert_eq!(time.calendar(), Calendar::Julian);
        let selected = selected(&time, rollout.time_slice);
        let s = spec(rollout.history, 1, 1);
        let starts = inference_starts(selected.clone(), s.history).unwrap();
        assert_eq!(starts.len(), rollout.length, "{id}");
        let mut targets = Vec::new();
        for (start, indices) in starts.iter().zip(&rollout.rolling_indices) {
            let mut window: Vec<usize> = s.input_rows(*start, 0).collect();
            window.extend(s.label_rows(*start, 0));
            targets.extend(s.label_rows(*start, 0).map(|row| time.label(row)));
            // The original counts from the first selected row.
            let absolute: Vec<usize> = indices.iter().map(|i| i + selected.start).collect();
            assert_eq!(window, absolute, "{id}");
        }
        let iso = |t: &String| t.replace(' ', "T").replace(":00:00", ":00");
        let expected: Vec<String> = rollout.target_times.iter().map(iso).collect();
        assert_eq!(targets, expected, "{id}");
    }
    assert_eq!(rollouts.len(), 3);
}
