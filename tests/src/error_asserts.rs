//! What an error of a program must tell: its kind, a word of what is wrong, your line and perhaps another.

use std::cell::Cell;
use tapeloom::{Error, Kind};

/// The lines that an error must name: that of the mistake, and another one, if any.
#[derive(Default, Debug)]
pub struct Lines {
    /// That of the mistake.
    pub wrong: Cell<u32>,
    /// Another one, or 0.
    pub other: Cell<u32>,
}

/// What is wrong with an error, if it is not what it should be.
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
