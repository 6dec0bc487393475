//! The timeline: what each stage did when, in the trace format that Chrome and Perfetto open.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A stage of a batch, a lane of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Planning, reading and decoding a batch.
    Read,
    /// Copying it to the device, until the copy is done.
    Upload,
    /// Handing it to the consumer: launches of the preparation, or of tensor operations.
    Prepare,
    /// The consumer, from one batch to its call for the next, or until it drops the pass.
    Model,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Read, Self::Upload, Self::Prepare, Self::Model];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "host read",
            Self::Upload => "upload",
            Self::Prepare => "prepare",
            Self::Model => "model",
        }
    }
}

/// What happened when, over all passes of the loaders that record into it. Cheap to clone; clones
/// share one record. The default records nothing.
///
/// The lanes are host read, upload, prepare and model. Times of the prepare and model lanes are
/// those of the host: on a GPU the work itself may run later.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Option<Arc<Record>>);

#[derive(Debug)]
struct Record {
    start: Instant,
    spans: Mutex<Vec<Span>>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    stage: Stage,
    batch: u64,
    start: Duration,
    end: Duration,
}

impl Timeline {
    /// A timeline that starts now.
    pub fn start() -> Self {
        let record = Record {
            start: Instant::now(),
            spans: Mutex::default(),
        };
        Self(Some(Arc::new(record)))
    }

    /// Whether anything is recorded.
    pub fn records(&self) -> bool {
        self.0.is_some()
    }

    /// Runs `work` and records it as a span of `stage`.
    pub(crate) fn record<T>(&self, stage: Stage, batch: u64, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.span(stage, batch, started, Instant::now());
        result
    }

    /// Records a span that has ended.
    pub(crate) fn span(&self, stage: Stage, batch: u64, start: Instant, end: Instant) {
        if let Some(record) = &self.0 {
            let since = |at: Instant| at.saturating_duration_since(record.start);
            let span = Span {
                stage,
                batch,
                start: since(start),
                end: since(end),
            };
            lock(&record.spans).push(span);
        }
    }

    /// Writes what was recorded so far as a Chrome trace: open it at `chrome://tracing` or in
    /// Perfetto.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_json().to_string()).map_err(|e| {
            Error::new(ErrorKind::Io, "cannot write the timeline")
                .found(path.display())
                .caused_by(e)
        })
    }

    /// The trace events, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let lane = |stage: Stage| stage as u32 + 1;
        let names = Stage::ALL.map(|l| {
            serde_json::json!({
                "name": "thread_name", "ph": "M", "pid": 1, "tid": lane(l),
                "args": { "name": l.name() },
            })
        });
        let spans = self
            .0
            .as_ref()
            .map_or_else(Vec::new, |record| lock(&record.spans).clone());
        let spans = spans.iter().map(|span| {
            let micros = |d: Duration| d.as_nanos() as f64 / 1000.0;
            serde_json::json!({
                "name": format!("batch {}", span.batch), "cat": span.stage.name(), "ph": "X",
                "pid": 1, "tid": lane(span.stage),
                "ts": micros(span.start), "dur": micros(span.end.saturating_sub(span.start)),
            })
        });
        let events: Vec<serde_json::Value> = names.into_iter().chain(spans).collect();
        serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ms" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_become_complete_events_of_their_stages() {
        let timeline = Timeline::start();
        let value = timeline.record(Stage::Upload, 3, || 7);
        assert_eq!(value, 7);
        let json = timeline.to_json();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 5);
        let names: Vec<_> = events[..4]
            .iter()
            .map(|e| e["args"]["name"].as_str())
            .collect();
        assert_eq!(names, ["host read", "upload", "prepare", "model"].map(Some));
        let span = &events[4];
        assert_eq!(
            (span["ph"].as_str(), span["name"].as_str()),
            (Some("X"), Some("batch 3"))
        );
        assert_eq!(span["tid"], events[1]["tid"]);
        assert!(span["dur"].as_f64().unwrap() >= 0.0);
    }

    #[test]
    fn the_default_records_nothing() {
        let timeline = Timeline::default();
        timeline.record(Stage::Read, 0, || ());
        assert!(!timeline.records());
        assert_eq!(
            timeline.to_json()["traceEvents"].as_array().unwrap().len(),
            4
        );
    }
}
