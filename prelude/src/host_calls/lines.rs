//! The text of printed values.

use std::fmt::Write as _;
use tapeloom_ir::{Lane, Loc, Tensor};

/// Returns the text that `debug_print` prints, with an entry for each array.
pub(super) fn lines(paths: &[String], lane: Lane, x: &[Tensor], at: Loc) -> String {
    let mut text = String::new();
    for (path, x) in paths.iter().zip(x) {
        let member = lane.map(|n| format!(" of member {n}")).unwrap_or_default();
        let gap = if x.shape().len() > 1 { "\n" } else { " " };
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        let _ = writeln!(text, "{path}{member} ={gap}{x}{place}");
    }
    text
}
