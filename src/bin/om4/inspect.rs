//! What a store is.

use crate::output::{self, Verdict};
use crate::which::Which;
use anyhow::Result;
use burn_om4::survey::{ArraySummary, Inspection, VariableSummary};
use clap::Args;
use std::collections::BTreeMap;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let inspection = Inspection::of(&options.which.paths(), &options.which.options())?;
    output::warn(&inspection.warnings);
    match options.json {
        true => output::print_json(&inspection)?,
        false => output::print(&text(&inspection))?,
    }
    Ok(Verdict::Clean)
}

fn text(store: &Inspection) -> String {
    let [ny, nx] = store.plane;
    let range = |ends: Option<[f64; 2]>| match ends {
        Some([first, last]) => format!("{first:.2} to {last:.2}"),
        None => "unknown".to_owned(),
    };
    let area = if store.cell_area { ", cell areas" } else { "" };
    let step = match store.step_days {
        None => String::new(),
        Some([least, most]) if least == most => format!(", every {least} days"),
        Some([least, most]) => format!(", every {least} to {most} days"),
    };
    let [first, last] = &store.times;
    let mut rows = vec![
        ("store", store.store.display().to_string()),
        (
            "format",
            format!("Zarr v{}, {}", store.zarr_format, store.layout),
        ),
        (
            "grid",
            format!(
                "{ny} x {nx}, latitude {}, longitude {}{area}",
                range(store.latitude),
                range(store.longitude)
            ),
        ),
        (
            "time",
            format!(
                "{} rows, {first} to {last}{step} ({})",
                store.rows, store.calendar
            ),
        ),
    ];
    for gap in &store.gaps {
        rows.push((
            "gap",
            format!("before row {}: {} to {}", gap.row, gap.from, gap.to),
        ));
    }
    for variable in &store.variables {
        rows.push(("channels", channels(variable)));
    }
    rows.push(("masks", masks(store)));
    for (form, names) in forms(&store.arrays) {
        rows.push(("arrays", format!("{form}: {}", shortened(&names))));
    }
    rows.push((
        "statistics",
        match store.statistics {
            [true, true] => "means and standard deviations".to_owned(),
            [false, false] => "none beside the store".to_owned(),
            [true, false] => "means alone".to_owned(),
            [false, true] => "standard deviations alone".to_owned(),
        },
    ));
    rows.push(("size", output::bytes(store.bytes as f64)));
    if store.missing_chunks > 0 {
        let missing = format!(
            "{}: they read as fill value, where they may",
            store.missing_chunks
        );
        rows.push(("missing chunks", missing));
    }
    output::table(&rows)
}

fn channels(variable: &VariableSummary) -> String {
    let name = &variable.name;
    let levels = match variable.levels[..] {
        [] => name.clone(),
        [one] => format!("{name}_{one}"),
        [first, .., last] if last - first + 1 == variable.levels.len() => {
            format!("{name}_{first} to {name}_{last}")
        }
        _ => format!("{name}, levels {:?}", variable.levels),
    };
    let mut said = levels;
    if let Some(unit) = &variable.unit {
        said = format!("{said} [{unit}]");
    }
    match &variable.long_name {
        Some(long_name) => format!("{said} {long_name}"),
        None => said,
    }
}

fn masks(store: &Inspection) -> String {
    let share = |wet: usize| {
        let [ny, nx] = store.plane;
        format!("{:.1} %", 100.0 * wet as f64 / (ny * nx) as f64)
    };
    match &store.masks[..] {
        [] => "none".to_owned(),
        [one] => format!("level {}, {} ocean", one.level, share(one.wet)),
        [first, .., last] => format!(
            "levels {} to {}, {} ocean at the top, {} at the bottom",
            first.level,
            last.level,
            share(first.wet),
            share(last.wet)
        ),
    }
}

/// Arrays of one form together.
fn forms(arrays: &[ArraySummary]) -> BTreeMap<String, Vec<&str>> {
    let mut forms: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for array in arrays {
        let dimensions = match &array.dimensions {
            Some(names) => names.join(", "),
            None => "?".to_owned(),
        };
        let form = format!(
            "({dimensions}) {:?} in chunks of {:?}, {}, codec {}",
            array.shape, array.chunk, array.dtype, array.codec
        );
        forms.entry(form).or_default().push(&array.name);
    }
    forms
}

/// Names, the middle ones of many left out.
fn shortened(names: &[&str]) -> String {
    match names {
        [first, second, .., last] if names.len() > 6 => {
            format!("{first}, {second}, .. {last} ({} arrays)", names.len())
        }
        _ => names.join(", "),
    }
}
