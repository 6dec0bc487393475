//! The picture, drawn from traces made by hand.

use crate::picture::draw;
use serde_json::{Value, json};

/// A trace in the form of `Timeline::to_json`: reading takes 60 ms, uploading 10, preparing 2 and the
/// model 100, two batches are read ahead and one is uploaded.
fn trace(batches: u64, uploads: bool) -> Value {
    let lanes = ["host read", "upload", "prepare", "model"];
    let mut events: Vec<Value> = (1..)
        .zip(lanes)
        .map(|(tid, name)| json!({"ph": "M", "tid": tid, "args": {"name": name}}))
        .collect();
    let mut span = |lane: &str, batch: u64, start: u64, took: u64| {
        events.push(json!({
            "name": format!("batch {batch}"), "cat": lane, "ph": "X",
            "ts": (5 + start) as f64 * 1e3, "dur": took as f64 * 1e3,
        }));
    };
    for batch in 0..batches {
        let model = 100 * batch + 100;
        span("host read", batch, model.saturating_sub(198), 60);
        if uploads {
            span("upload", batch, model.saturating_sub(98), 10);
        }
        span("prepare", batch, model, 2);
        span("model", batch, model + 2, 98);
    }
    json!({ "traceEvents": events })
}

#[test]
fn every_lane_has_its_batches_and_the_overlap_is_said() {
    let svg = draw(&trace(9, true), "A title", 7).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for lane in ["host read", "upload", "prepare", "model"] {
        assert_eq!(svg.matches(&format!(">{lane}</text>")).count(), 1, "{lane}");
    }
    let said = "batch 3, batch 4 crosses to the device and batch 5 is read.";
    assert!(svg.contains(said), "{svg}");
    // 7 batches in the lower lanes; what was done for later ones before the end is there, too.
    assert_eq!(svg.matches("rx=\"2\"").count(), 9 + 8 + 7 + 7);
    assert!(svg.contains(">0 ms</text>") && svg.contains(">600</text>"));
    // As tall as the lanes it has.
    let on_a_cpu = draw(&trace(9, false), "A title", 7).unwrap();
    assert!(!on_a_cpu.contains("upload"));
    assert!(on_a_cpu.contains("batch 3, batch 5 is read."));
}

#[test]
fn what_is_no_trace_or_too_short_is_refused() {
    for (trace, batches) in [
        (trace(6, true), 7),
        (trace(6, true), 0),
        (trace(0, true), 1),
        (json!({}), 1),
    ] {
        assert!(draw(&trace, "", batches).is_err(), "{batches}");
    }
}

#[test]
fn the_picture_in_the_book_shows_the_overlap() {
    let svg = concat!(env!("CARGO_MANIFEST_DIR"), "/book/src/images/timeline.svg");
    let svg = std::fs::read_to_string(svg).unwrap();
    let said = "batch 3, batch 4 crosses to the device and batch 5 is read.";
    assert!(svg.contains(said), "{svg}");
}
