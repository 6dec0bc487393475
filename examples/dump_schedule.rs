//! Writes the batches that a schedule makes, as JSON: the structure of `samplers.json`.
//!
//! ```text
//! cargo run --example dump_schedule -- --spec cases.json --out filled.json
//! ```
//!
//! A case has `datasets` (`length`, `group_key`), `batch_size`, `shuffle`, `drop_last`, `seed`,
//! `world_size`, `epochs` (each with `epoch`), and optionally `group_order` (`sorted`, the default,
//! or `first-seen`). The order is Samudra's, unless the case has an `order` as `ScheduleOptions` reads
//! it; then `shuffle` and `group_order` have no effect. Each epoch gets `len` and `ranks`
//! (`[rank][batch][index]`). Everything else is passed through.

use anyhow::{Context, Result};
use burn_om4::Schedule;
use clap::Parser;
use om4_test_support::samplers::SamplerCase;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Parser)]
struct Args {
    /// JSON file with `cases`.
    #[arg(long)]
    spec: PathBuf,
    /// Where to write the same cases with their batches.
    #[arg(long)]
    out: PathBuf,
}

fn main() -> Result<()> {
    dump(&Args::parse())
}

fn dump(args: &Args) -> Result<()> {
    let text = std::fs::read_to_string(&args.spec)
        .with_context(|| format!("reading {}", args.spec.display()))?;
    let mut document: Value = serde_json::from_str(&text).context("the spec is not JSON")?;
    let cases = match &mut document {
        Value::Array(cases) => cases,
        document => document
            .get_mut("cases")
            .and_then(Value::as_array_mut)
            .context("the spec has no list `cases`")?,
    };
    for (i, case) in cases.iter_mut().enumerate() {
        fill(case).with_context(|| format!("case {i}"))?;
    }
    std::fs::write(&args.out, serde_json::to_string(&document)?)
        .with_context(|| format!("writing {}", args.out.display()))
}

fn fill(value: &mut Value) -> Result<()> {
    let ranks = SamplerCase::deserialize(&*value)?.schedules()?;
    let epochs = value.get_mut("epochs").and_then(Value::as_array_mut);
    for epoch in epochs.context("the case has no list `epochs`")? {
        let number = epoch.get("epoch").and_then(Value::as_u64);
        let number = number.context("an epoch without its number `epoch`")?;
        let batches = |s: &Schedule| s.epoch(number).iter_from(0).collect::<Vec<_>>();
        epoch["len"] = json!(ranks[0].steps());
        epoch["ranks"] = json!(ranks.iter().map(batches).collect::<Vec<_>>());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(document: &Value) -> Result<Value> {
        let dir = tempfile::tempdir()?;
        let (spec, out) = (dir.path().join("spec.json"), dir.path().join("out.json"));
        std::fs::write(&spec, document.to_string())?;
        dump(&Args {
            spec,
            out: out.clone(),
        })?;
        Ok(serde_json::from_slice(&std::fs::read(out)?)?)
    }

    #[test]
    fn cases_get_their_batches() {
        let case = |world: u64, order: Value| {
            json!({
                "name": "kept", "datasets": [{ "length": 5, "group_key": 0 }], "batch_size": 2,
                "shuffle": false, "drop_last": false, "seed": 1, "world_size": world,
                "epochs": [{ "epoch": 1 }], "order": order,
            })
        };
        let document = json!({ "cases": [case(1, Value::Null), case(2, json!("sequential"))] });
        let filled = filled(&document).unwrap();
        let of = |i: usize| &filled["cases"][i]["epochs"][0];
        assert_eq!(filled["cases"][0]["name"], "kept");
        assert_eq!(of(0)["len"], 3);
        assert_eq!(of(0)["ranks"], json!([[[0, 1], [2, 3], [4]]]));
        assert_eq!(of(1)["len"], 2);
        assert_eq!(of(1)["ranks"], json!([[[0, 1], [4]], [[2, 3], [0, 1]]]));
    }

    #[test]
    fn a_spec_that_is_none_is_refused_by_its_place() {
        let error = filled(&json!({ "cases": [{}] })).unwrap_err();
        assert!(error.to_string().contains("case 0"), "{error:#}");
        assert!(filled(&json!({ "nothing": 1 })).is_err());
    }
}
