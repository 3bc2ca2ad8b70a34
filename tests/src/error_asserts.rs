//! Checks that an error has the expected kind, contains the expected text, and names the user's line and possibly a
//! second line.

use std::cell::Cell;
use tapeloom::{Error, Kind};

/// The line numbers that an error must name.
#[derive(Default, Debug)]
pub struct Lines {
    /// The line of the mistake.
    pub wrong: Cell<u32>,
    /// A second line that the error must name, or 0 if there is none.
    pub other: Cell<u32>,
}

/// Returns a message with all properties that the error lacks, or `None` if the error is as expected.
pub fn check(
    file: &str,
    name: &str,
    lines: &Lines,
    kind: Kind,
    says: &str,
    error: &Error,
) -> Option<String> {
    let text = error.to_string();
    let diagnostics = error.diagnostics();
    let at = diagnostics[0].at.map_or(0, |at| at.line());
    let other = format!("{}:{}:", file, lines.other.get());
    let mut missing = Vec::new();
    if error.kind() != kind {
        missing.push(format!("the kind {kind:?}"));
    }
    if !text.contains(says) {
        missing.push(format!("`{says}`"));
    }
    if at != lines.wrong.get() {
        missing.push(format!("the line {}, it says {at}", lines.wrong.get()));
    }
    if lines.other.get() > 0 && !text.contains(&other) {
        missing.push(format!("the line {}", lines.other.get()));
    }
    if diagnostics.len() > 1 {
        missing.push("to be one error".to_owned());
    }
    (!missing.is_empty()).then(|| format!("{name} wants {}:\n{text}", missing.join(", ")))
}
