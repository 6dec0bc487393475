//! Batch plans against naive loops over every sample, step, time and channel.

use burn_om4::plan::{BatchPlan, Gather, GroupPlan, Labels};
use burn_om4::{ErrorKind, Inputs, WindowOptions};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

fn spec(history: usize, steps: usize, stride: usize) -> WindowOptions {
    WindowOptions::default()
        .with_history(history)
        .with_steps(steps)
        .with_stride(stride)
}

fn om4(spec: &WindowOptions, starts: &[usize], inputs: Inputs) -> BatchPlan {
    BatchPlan::new(spec, starts, 77, 3, inputs, Labels::Shared).unwrap()
}

#[test]
fn unique_planes_are_the_published_counts() {
    let (one, four) = (spec(1, 1, 1), spec(1, 4, 1));
    let planes = |spec, starts: &[usize]| om4(spec, starts, Inputs::First).unique_planes();
    assert_eq!(planes(&one, &[0]), 314);
    assert_eq!(planes(&four, &[0]), 794);
    assert_eq!(planes(&four, &[0, 1000, 2000, 3000]), 3176);
    assert_eq!(planes(&four, &[100, 101, 102, 103]), 1034);
    // Labels are later inputs: materialising those adds no reads.
    assert_eq!(om4(&four, &[0], Inputs::All).unique_planes(), 794);
}

#[test]
fn touched_planes_are_what_a_naive_loader_reads() {
    let quarter_degree = 720 * 1440;
    let gigabytes =
        |planes: usize| (planes as f64 * quarter_degree as f64 * 4.0 / 1e7).round() / 100.0;
    let naive = |spec: &WindowOptions, starts: &[usize]| {
        gigabytes(om4(spec, starts, Inputs::All).touched_planes())
    };
    assert_eq!(naive(&spec(1, 1, 1), &[0]), 1.30);
    assert_eq!(naive(&spec(1, 4, 1), &[0]), 5.21);
    assert_eq!(naive(&spec(1, 4, 1), &[0, 1, 2, 3]), 20.84);
    let first = om4(&spec(1, 4, 1), &[0], Inputs::First);
    assert_eq!(first.touched_planes(), 1256 - 3 * 2 * 77);
}

#[test]
fn bytes_are_counted_in_64_bits() {
    let quarter_degree = 720 * 1440;
    let plan = om4(&spec(1, 4, 1), &[0], Inputs::First);
    assert_eq!(plan.bytes(quarter_degree), 794 * 4_147_200);
    let batch = om4(&spec(1, 4, 1), &[0, 1000, 2000, 3000], Inputs::First);
    assert_eq!(batch.bytes(quarter_degree), 13_171_507_200);
    assert_eq!(plan.bytes(usize::MAX), u64::MAX);
}

#[test]
fn own_labels_leave_only_the_first_input_to_the_prognostic_group() {
    let spec = spec(1, 3, 2);
    let plan = BatchPlan::new(&spec, &[10], 5, 2, Inputs::First, Labels::Own).unwrap();
    assert_eq!(
        plan.groups.prognostic,
        GroupPlan {
            rows: vec![10, 12],
            channels: 5
        }
    );
    assert_eq!(
        plan.groups.boundary,
        GroupPlan {
            rows: (10..=20).step_by(2).collect(),
            channels: 2
        }
    );
    let label = plan.groups.label.as_ref().unwrap();
    assert_eq!(
        label,
        &GroupPlan {
            rows: (14..=24).step_by(2).collect(),
            channels: 5
        }
    );
    assert_eq!(
        (
            plan.gathers.input.len(),
            plan.gathers.boundary.len(),
            plan.gathers.label.len()
        ),
        (1, 3, 3)
    );
    let shared = BatchPlan::new(&spec, &[10], 5, 2, Inputs::First, Labels::Shared).unwrap();
    assert_eq!(
        shared.groups.prognostic.rows,
        (10..=24).step_by(2).collect::<Vec<_>>()
    );
    assert_eq!(shared.groups.label, None);
}

#[test]
fn consecutive_entries_are_a_slice() {
    let plan = om4(&spec(1, 2, 1), &[4], Inputs::All);
    assert_eq!(plan.gathers.input[1].slice(), Some(2..4));
    assert_eq!(plan.gathers.label[0].slice(), Some(2..4));
    // Rows two apart are neighbours among the unique ones.
    assert_eq!(
        om4(&spec(1, 2, 2), &[4], Inputs::First).gathers.label[1].slice(),
        Some(4..6)
    );
    assert_eq!(
        om4(&spec(1, 1, 1), &[4, 5], Inputs::First).gathers.input[0].slice(),
        None
    );
    assert_eq!(
        om4(&spec(0, 1, 1), &[4, 5], Inputs::First).gathers.label[0].slice(),
        Some(1..3)
    );
    assert_eq!(
        om4(&spec(0, 1, 1), &[5, 4], Inputs::First).gathers.input[0].slice(),
        None
    );
    assert_eq!(
        Gather {
            rows: vec![],
            times: 2
        }
        .slice(),
        None
    );
}

#[test]
fn plans_that_cannot_be_counted_are_refused() {
    let plan = |spec: &WindowOptions, starts: &[usize], channels| {
        BatchPlan::new(spec, starts, channels, 1, Inputs::First, Labels::Shared)
    };
    for (result, words) in [
        (plan(&spec(1, 1, 1), &[], 1), "at least one window"),
        (plan(&spec(1, 1, 1), &[0], 0), "at least one prognostic"),
        (plan(&spec(1, 0, 1), &[0], 1), "steps"),
        (
            plan(&spec(1, 1, 1), &[0, usize::MAX - 2], 1),
            "cannot be counted",
        ),
        (
            plan(&spec(1, 1, usize::MAX / 3 - 1), &[9], 1),
            "cannot be counted",
        ),
        (
            plan(&spec(1, 1 << 31, 1), &[0], 1),
            "larger than can be counted",
        ),
        (
            plan(&spec(1, 1, 1), &[0], usize::MAX / 2),
            "larger than can be counted",
        ),
    ] {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains(words), "{e}");
    }
}

/// The rows that a gather shows, sample by sample.
fn shown(gather: &Gather, group: &GroupPlan) -> Vec<usize> {
    gather
        .rows
        .iter()
        .map(|&entry| group.rows[entry as usize])
        .collect()
}

proptest! {
    #[test]
    fn a_plan_reads_each_plane_once_and_shows_the_right_rows(
        shape in (0usize..4, 1usize..5, 1usize..4),
        starts in proptest::collection::vec(0usize..40, 1..9),
        channels in (1usize..5, 0usize..4),
        all in any::<bool>(),
        own in any::<bool>(),
    ) {
        let s = spec(shape.0, shape.1, shape.2);
        let inputs = if all { Inputs::All } else { Inputs::First };
        let labels = if own { Labels::Own } else { Labels::Shared };
        let plan = BatchPlan::new(&s, &starts, channels.0, channels.1, inputs, labels).unwrap();
        let label_group = plan.groups.label.as_ref().unwrap_or(&plan.groups.prognostic);
        prop_assert_eq!(plan.groups.label.is_some(), own);
        prop_assert_eq!(plan.gathers.input.len(), if all { s.steps } else { 1 });
        prop_assert_eq!((plan.gathers.boundary.len(), plan.gathers.label.len()), (s.steps, s.steps));

        // (store, row, channel) for each plane that some tensor shows, one touch at a time.
        let mut touches: HashMap<(&str, usize, usize), usize> = HashMap::new();
        let times = s.history + 1;
        for step in 0..s.steps {
            let (mut input_rows, mut label_rows) = (Vec::new(), Vec::new());
            for start in &starts {
                for j in 0..times {
                    let base = start + step * times * s.stride;
                    input_rows.push(base + s.stride * j);
                    label_rows.push(base + s.stride * (times + j));
                }
            }
            if step == 0 || all {
                prop_assert_eq!(&shown(&plan.gathers.input[step], &plan.groups.prognostic), &input_rows);
                for &row in &input_rows {
                    for channel in 0..channels.0 {
                        *touches.entry(("prognostic", row, channel)).or_default() += 1;
                    }
                }
            }
            prop_assert_eq!(&shown(&plan.gathers.boundary[step], &plan.groups.boundary), &input_rows);
            prop_assert_eq!(&shown(&plan.gathers.label[step], label_group), &label_rows);
            for (input, label) in input_rows.into_iter().zip(label_rows) {
                for channel in 0..channels.1 {
                    *touches.entry(("boundary", input, channel)).or_default() += 1;
                }
                let store = if own { "label" } else { "prognostic" };
                for channel in 0..channels.0 {
                    *touches.entry((store, label, channel)).or_default() += 1;
                }
            }
        }
        prop_assert_eq!(plan.unique_planes(), touches.len());
        prop_assert_eq!(plan.touched_planes(), touches.values().sum::<usize>());
        prop_assert_eq!(plan.bytes(6), touches.len() as u64 * 24);
        for (name, group) in [("prognostic", &plan.groups.prognostic), ("boundary", &plan.groups.boundary), ("label", label_group)] {
            let wanted: BTreeSet<usize> = touches.keys().filter(|t| t.0 == name).map(|t| t.1).collect();
            if group.channels > 0 && (name != "label" || own) {
                prop_assert_eq!(&group.rows, &wanted.into_iter().collect::<Vec<_>>());
            }
        }
        for gather in plan.gathers.input.iter().chain(&plan.gathers.boundary).chain(&plan.gathers.label) {
            prop_assert_eq!(gather.times, times);
        }
    }
}
