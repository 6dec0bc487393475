//! In which order a device keeps the unique rows of a read group. Plain data.

use crate::plan::batch::Gather;
use std::collections::HashMap;

/// The rows that a preparation writes, and the gather maps into them.
///
/// Where no row is shown by two different tensors, rows are written tensor by tensor, so that every
/// tensor is a slice of what was written and nothing is gathered later. Where windows overlap that
/// would hold planes twice; then each unique row is written once, in its place, and a tensor whose
/// rows are not consecutive is gathered when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    /// Unique row of each written row.
    pub rows: Vec<u32>,
    /// The gather maps of each field, into the written rows.
    pub fields: Vec<Vec<Gather>>,
}

impl Arrangement {
    /// Arranges `unique` rows for the tensors of `fields`, whose maps point into the unique rows.
    pub fn new(unique: usize, fields: Vec<Vec<Gather>>) -> Self {
        if fields
            .iter()
            .flatten()
            .all(|gather| gather.slice().is_some())
        {
            return Self::in_place(unique, fields);
        }
        // Equal maps (the input of a step and the label of the step before) share their rows.
        let mut rows: Vec<u32> = Vec::with_capacity(unique);
        let mut starts = HashMap::new();
        for gather in fields.iter().flatten() {
            starts.entry(gather.rows.clone()).or_insert_with(|| {
                let start = rows.len();
                rows.extend(&gather.rows);
                start as u32
            });
        }
        let mut seen = vec![false; unique];
        let repeated = rows
            .iter()
            .any(|&row| std::mem::replace(&mut seen[row as usize], true));
        if repeated {
            return Self::in_place(unique, fields);
        }
        let moved = |gather: Gather| {
            let start = starts[&gather.rows];
            let end = start + gather.rows.len() as u32;
            Gather {
                rows: (start..end).collect(),
                times: gather.times,
            }
        };
        let fields = fields
            .into_iter()
            .map(|f| f.into_iter().map(moved).collect())
            .collect();
        Self { rows, fields }
    }

    fn in_place(unique: usize, fields: Vec<Vec<Gather>>) -> Self {
        Self {
            rows: (0..unique as u32).collect(),
            fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::batch::{BatchPlan, Inputs, Labels};
    use crate::plan::window::WindowOptions;
    use proptest::prelude::*;

    fn arranged(steps: usize, starts: &[usize], inputs: Inputs) -> (BatchPlan, Arrangement) {
        let spec = WindowOptions::default().with_steps(steps);
        let plan = BatchPlan::new(&spec, starts, 2, 1, inputs, Labels::Shared).unwrap();
        let fields = vec![plan.inputs.clone(), plan.labels.clone()];
        let arrangement = Arrangement::new(plan.prognostic.rows.len(), fields);
        (plan, arrangement)
    }

    fn slices(arrangement: &Arrangement) -> bool {
        arrangement
            .fields
            .iter()
            .flatten()
            .all(|g| g.slice().is_some())
    }

    #[test]
    fn one_window_stays_in_place_and_is_all_slices() {
        let (plan, a) = arranged(4, &[7], Inputs::All);
        assert_eq!(a.rows, (0..10).collect::<Vec<u32>>());
        assert_eq!(a.fields, [plan.inputs, plan.labels]);
        assert!(slices(&a));
    }

    #[test]
    fn windows_apart_are_written_tensor_by_tensor() {
        for inputs in [Inputs::First, Inputs::All] {
            let (plan, a) = arranged(4, &[100, 7, 50, 30], inputs);
            assert_eq!(a.rows.len(), plan.prognostic.rows.len(), "every plane once");
            assert!(slices(&a), "nothing is gathered later");
        }
    }

    #[test]
    fn overlapping_windows_keep_each_row_once() {
        let (plan, a) = arranged(4, &[7, 8, 9, 10], Inputs::First);
        assert_eq!(a.rows.len(), plan.prognostic.rows.len());
        assert!(!slices(&a));
    }

    proptest! {
        /// Whatever the order, each entry of a map shows the row that the plan meant, and no row is
        /// written twice.
        #[test]
        fn the_maps_show_the_same_rows(
            starts in prop::collection::vec(0usize..60, 1..6), steps in 1usize..5, all: bool,
        ) {
            let inputs = if all { Inputs::All } else { Inputs::First };
            let (plan, a) = arranged(steps, &starts, inputs);
            for (fields, expected) in a.fields.iter().zip([&plan.inputs, &plan.labels]) {
                for (found, expected) in fields.iter().zip(expected) {
                    let shown: Vec<u32> = found.rows.iter().map(|&r| a.rows[r as usize]).collect();
                    prop_assert_eq!(&shown, &expected.rows);
                    prop_assert_eq!(found.times, expected.times);
                }
            }
            let mut rows = a.rows.clone();
            rows.sort_unstable();
            prop_assert_eq!(rows, (0..plan.prognostic.rows.len() as u32).collect::<Vec<_>>());
        }
    }
}
