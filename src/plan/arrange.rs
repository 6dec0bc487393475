//! In which order a device keeps the unique rows of a read group. Plain data.

use crate::plan::batch::Gather;
use std::collections::HashMap;

/// The rows of a read group that a preparation writes, and where they stand.
///
/// Where no row is shown by two different tensors, rows are written tensor by tensor, so that every
/// tensor is a slice of what was written and nothing is gathered later. Where windows overlap that
/// would hold planes twice; then each unique row is written once, in its place, and a tensor whose
/// rows are not consecutive is gathered when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    /// Unique row of each written row.
    pub rows: Vec<u32>,
    /// Where the rows of each map were written; none when every row is in its place.
    starts: Option<HashMap<Vec<u32>, u32>>,
}

impl Arrangement {
    /// Arranges `unique` rows for the tensors of these maps, which point into the unique rows.
    #[cfg(any(test, feature = "cube"))]
    pub(crate) fn by_tensor(unique: usize, gathers: &[&Gather]) -> Self {
        if gathers.iter().all(|gather| gather.slice().is_some()) {
            return Self::in_place(unique, gathers);
        }
        // Equal maps (the input of a step and the label of the step before) share their rows.
        let mut rows: Vec<u32> = Vec::with_capacity(unique);
        let mut starts = HashMap::new();
        for gather in gathers {
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
            return Self::in_place(unique, gathers);
        }
        Self {
            rows,
            starts: Some(starts),
        }
    }

    /// Leaves every unique row in its place.
    pub(crate) fn in_place(unique: usize, _: &[&Gather]) -> Self {
        Self {
            rows: (0..unique as u32).collect(),
            starts: None,
        }
    }

    /// The map of a tensor into the written rows.
    ///
    /// # Panics
    /// When it is not one of the maps that the rows were arranged for.
    pub(crate) fn gather(&self, gather: Gather) -> Gather {
        let Some(starts) = &self.starts else {
            return gather;
        };
        let start = starts[&gather.rows];
        Gather {
            rows: (start..start + gather.rows.len() as u32).collect(),
            times: gather.times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::batch::{BatchPlan, Inputs, Labels};
    use crate::plan::window::WindowOptions;
    use proptest::prelude::*;

    /// The arrangement of a batch's prognostic group, and the maps of its inputs and labels.
    fn arranged(
        steps: usize,
        starts: &[usize],
        inputs: Inputs,
    ) -> (BatchPlan, Arrangement, [Vec<Gather>; 2]) {
        let options = WindowOptions::default().with_steps(steps);
        let plan = BatchPlan::new(&options, starts, 2, 1, inputs, Labels::Shared).unwrap();
        let fields = [plan.gathers.input.clone(), plan.gathers.label.clone()];
        let shown: Vec<&Gather> = fields.iter().flatten().collect();
        let arrangement = Arrangement::by_tensor(plan.groups.prognostic.rows.len(), &shown);
        let moved = |steps: Vec<Gather>| steps.into_iter().map(|g| arrangement.gather(g)).collect();
        let fields = fields.map(moved);
        (plan, arrangement, fields)
    }

    fn slices(fields: &[Vec<Gather>]) -> bool {
        fields.iter().flatten().all(|g| g.slice().is_some())
    }

    #[test]
    fn one_window_stays_in_place_and_is_all_slices() {
        let (plan, a, fields) = arranged(4, &[7], Inputs::All);
        assert_eq!(a.rows, (0..10).collect::<Vec<u32>>());
        assert_eq!(fields, [plan.gathers.input, plan.gathers.label]);
        assert!(slices(&fields));
    }

    #[test]
    fn windows_apart_are_written_tensor_by_tensor() {
        for inputs in [Inputs::First, Inputs::All] {
            let (plan, a, fields) = arranged(4, &[100, 7, 50, 30], inputs);
            let unique = plan.groups.prognostic.rows.len();
            assert_eq!(a.rows.len(), unique, "every plane once");
            assert!(slices(&fields), "nothing is gathered later");
        }
    }

    #[test]
    fn overlapping_windows_keep_each_row_once() {
        let (plan, a, fields) = arranged(4, &[7, 8, 9, 10], Inputs::First);
        assert_eq!(a.rows.len(), plan.groups.prognostic.rows.len());
        assert!(!slices(&fields));
    }

    proptest! {
        /// Whatever the order, each entry of a map shows the row that the plan meant, and no row is
        /// written twice.
        #[test]
        fn the_maps_show_the_same_rows(
            starts in prop::collection::vec(0usize..60, 1..6), steps in 1usize..5, all: bool,
        ) {
            let inputs = if all { Inputs::All } else { Inputs::First };
            let (plan, a, fields) = arranged(steps, &starts, inputs);
            let planned = [&plan.gathers.input, &plan.gathers.label];
            for (fields, expected) in fields.iter().zip(planned) {
                for (found, expected) in fields.iter().zip(expected) {
                    let shown: Vec<u32> = found.rows.iter().map(|&r| a.rows[r as usize]).collect();
                    prop_assert_eq!(&shown, &expected.rows);
                    prop_assert_eq!(found.times, expected.times);
                }
            }
            let mut rows = a.rows.clone();
            rows.sort_unstable();
            let unique = plan.groups.prognostic.rows.len() as u32;
            prop_assert_eq!(rows, (0..unique).collect::<Vec<_>>());
        }
    }
}
