//! What commands say: results to standard output, warnings and failures to standard error. Whoever reads
//! may stop before the end (`om4 .. | head`): what is left unsaid then is no failure.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// How a command ended that did what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    /// A store has something that should be looked at.
    Findings,
}

/// Prints a result and a line's end.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a result as JSON.
pub(crate) fn print_json(result: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string_pretty(result)?)
}

/// Says something beside the result.
pub(crate) fn say(text: &str) {
    // Nobody is left to be told.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says each warning once.
pub(crate) fn warn(warnings: &[String]) {
    for (at, warning) in warnings.iter().enumerate() {
        if !warnings[..at].contains(warning) {
            say(&format!("warning: {warning}"));
        }
    }
}

/// Says why a command could not do what it was asked for.
pub(crate) fn failure(e: &anyhow::Error, as_json: bool) {
    say(&format!("error: {e:#}"));
    if as_json {
        let own = e.chain().find_map(|e| e.downcast_ref::<burn_om4::Error>());
        let result = json!({
            "error": format!("{e:#}"),
            "kind": own.map(|e| format!("{:?}", e.kind())),
        });
        // It was said above.
        let _ = print_json(&result);
    }
}

/// A bar over `len` steps, on terminals only.
pub(crate) fn progress(what: &'static str, len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let style = "{msg} {bar:30} {pos}/{len} {elapsed} (left {eta})";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.with_message(what)
}

/// Lines of a name and a value, the values below each other.
pub(crate) fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {value}");
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A number of bytes in words.
pub(crate) fn bytes(n: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut n = n;
    for unit in units {
        if n < 999.5 || unit == "PB" {
            let digits = if unit == "B" || n >= 99.5 { 0 } else { 1 };
            return format!("{n:.digits$} {unit}");
        }
        n /= 1000.0;
    }
    format!("{n} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_few_digits() {
        let said = [0.0, 999.0, 1000.0, 43_210.0, 999_600.0, 367e9].map(bytes);
        assert_eq!(
            said,
            ["0 B", "999 B", "1.0 kB", "43.2 kB", "1.0 MB", "367 GB"]
        );
    }

    #[test]
    fn values_stand_below_each_other() {
        let rows = [("a", "1".to_owned()), ("long", "2".to_owned())];
        assert_eq!(table(&rows), "a     1\nlong  2");
    }
}
