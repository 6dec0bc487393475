//! A recorded timeline as a picture: lanes as rows, batches as blocks, time to the right.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;

/// In pixels, as everything below.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
/// From one lane to the next, and the height of a block.
const LANE: f64 = 46.0;
const BLOCK: f64 = 26.0;
/// Narrower blocks have their number above them.
const ROOM: f64 = 14.0;

/// Fills of consecutive batches, with white numbers on them; used in turn.
const FILLS: [&str; 4] = ["#2b6ca3", "#b8621b", "#5b7a24", "#7a4f9a"];

/// Colours of everything else, on paper and on a dark screen.
const STYLE: &str = "\
.number{fill:#fff}
.paper{fill:#fff}.ink{fill:#1d3a55}.soft{fill:#555}.line{stroke:#d8dde2}.band{fill:#e9eef4}
@media (prefers-color-scheme:dark){
.paper{fill:#161923}.ink{fill:#dfe7f0}.soft{fill:#aab4c0}.line{stroke:#343b4a}.band{fill:#252c3a}}";

/// What a lane did for a batch, in milliseconds.
struct Span {
    lane: usize,
    batch: u64,
    start: f64,
    end: f64,
}

/// A timeline, as far as it is drawn: from its first span to the end of the model's work on a batch.
struct Picture {
    lanes: Vec<String>,
    spans: Vec<Span>,
    end: f64,
}

/// Draws the first `batches` batches of a trace, as `Timeline::to_json` gives it.
///
/// # Errors
/// Anything else, or a trace in which the model has not worked on so many batches.
pub(crate) fn draw(trace: &Value, title: &str, batches: u64) -> Result<String> {
    ensure!(batches > 0, "there is no batch to draw");
    Ok(Picture::of(trace, batches - 1)?.svg(title, batches / 2))
}

impl Picture {
    fn of(trace: &Value, last: u64) -> Result<Self> {
        let events = trace["traceEvents"].as_array().context("no trace")?;
        let kind = |kind: &'static str| events.iter().filter(move |e| e["ph"] == kind);
        let names: Vec<&str> = kind("M")
            .filter_map(|e| e["args"]["name"].as_str())
            .collect();
        let mut spans = Vec::new();
        for event in kind("X") {
            let number = |key: &str| {
                event[key]
                    .as_f64()
                    .with_context(|| format!("{key}: {event}"))
            };
            let batch = event["name"]
                .as_str()
                .and_then(|n| n.strip_prefix("batch "));
            let lane = names.iter().position(|name| event["cat"] == *name);
            let start = number("ts")? / 1000.0;
            spans.push(Span {
                lane: lane.with_context(|| format!("a span in no lane: {event}"))?,
                batch: batch.context("a span of no batch")?.parse()?,
                start,
                end: start + number("dur")? / 1000.0,
            });
        }
        // A CPU device has no uploads: lanes without spans are left out.
        let used: Vec<usize> = (0..names.len())
            .filter(|lane| spans.iter().any(|s| s.lane == *lane))
            .collect();
        let zero = spans.iter().map(|s| s.start).fold(f64::INFINITY, f64::min);
        for span in &mut spans {
            span.lane = used.iter().position(|l| *l == span.lane).unwrap_or(0);
            (span.start, span.end) = (span.start - zero, span.end - zero);
        }
        let mut picture = Self {
            lanes: used.iter().map(|l| names[*l].to_owned()).collect(),
            spans,
            end: 0.0,
        };
        picture.end = picture
            .model(last)
            .context("the trace has too few batches")?
            .end;
        let end = picture.end;
        picture.spans.retain(|s| s.start < end);
        Ok(picture)
    }

    /// The consumer's work on a batch.
    fn model(&self, batch: u64) -> Option<&Span> {
        let model = self.lanes.iter().position(|l| l == "model")?;
        self.spans
            .iter()
            .find(|s| s.lane == model && s.batch == batch)
    }

    fn x(&self, ms: f64) -> f64 {
        LEFT + ms.min(self.end) / self.end * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, lane: usize) -> f64 {
        TOP + 18.0 + lane as f64 * LANE
    }

    /// The picture, with a word on what happened during the model's work on batch `shown`.
    fn svg(&self, title: &str, shown: u64) -> String {
        let bottom = self.top(self.lanes.len());
        let height = bottom + 62.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" role=\"img\" \
             aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
             <text class=\"ink\" x=\"{LEFT}\" y=\"24\" font-weight=\"bold\">{title}</text>\n"
        );
        self.band(&mut svg, shown, bottom);
        self.axis(&mut svg, bottom);
        for (lane, name) in self.lanes.iter().enumerate() {
            let (x, y) = (LEFT - 12.0, self.top(lane) + BLOCK / 2.0 + 4.5);
            let _ = writeln!(
                svg,
                "<text class=\"ink\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>"
            );
        }
        for span in &self.spans {
            self.block(&mut svg, span);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn block(&self, svg: &mut String, span: &Span) {
        let (x, y) = (self.x(span.start), self.top(span.lane));
        let width = (self.x(span.end) - x).max(2.0);
        let fill = FILLS[(span.batch % FILLS.len() as u64) as usize];
        let middle = x + width / 2.0;
        let (text, number, size) = match width >= ROOM {
            true => (y + BLOCK / 2.0 + 4.5, "number", 13),
            false => (y - 3.0, "soft", 11),
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BLOCK}\" rx=\"2\" \
             fill=\"{fill}\"/><text class=\"{number}\" x=\"{middle:.1}\" y=\"{text}\" \
             text-anchor=\"middle\" font-weight=\"bold\" font-size=\"{size}\">{}</text>",
            span.batch
        );
    }

    /// Marks the model's work on a batch, and names what the other lanes did meanwhile.
    fn band(&self, svg: &mut String, batch: u64, bottom: f64) {
        let Some(model) = self.model(batch) else {
            return;
        };
        let during = |lane: &str| {
            let overlap = |s: &&Span| {
                let common = s.end.min(model.end) - s.start.max(model.start);
                self.lanes[s.lane] == lane && common > 0.0
            };
            let batches = self.spans.iter().filter(overlap).map(|s| s.batch);
            batches.max().filter(|other| *other > batch)
        };
        let does = [
            ("upload", "crosses to the device"),
            ("host read", "is read"),
        ];
        let meanwhile = does.map(|(lane, does)| Some(format!("batch {} {does}", during(lane)?)));
        let meanwhile: Vec<String> = meanwhile.into_iter().flatten().collect();
        let said = match meanwhile.is_empty() {
            true => String::new(),
            false => {
                let meanwhile = meanwhile.join(" and ");
                format!("While the model works on batch {batch}, {meanwhile}.")
            }
        };
        let (x, y) = (self.x(model.start), TOP);
        let (width, height) = (self.x(model.end) - x, bottom - TOP);
        let _ = writeln!(
            svg,
            "<rect class=\"band\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"{height}\"/>\n<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">{said}</text>",
            bottom + 46.0
        );
    }

    fn axis(&self, svg: &mut String, bottom: f64) {
        let step = tick(self.end);
        let ticks = (0..).map(|i| f64::from(i) * step);
        for ms in ticks.take_while(|ms| *ms <= self.end) {
            let x = self.x(ms);
            let unit = if ms == 0.0 { " ms" } else { "" };
            let _ = writeln!(
                svg,
                "<line class=\"line\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 font-size=\"12\">{ms}{unit}</text>",
                bottom + 18.0
            );
        }
    }
}

/// A round step that makes at most ten ticks.
fn tick(end: f64) -> f64 {
    let steps = (0..).flat_map(|power| [1.0, 2.0, 5.0].map(|s| s * 10f64.powi(power)));
    let mut enough = steps.skip_while(|step| end / step > 10.0);
    enough.next().unwrap_or(end)
}
