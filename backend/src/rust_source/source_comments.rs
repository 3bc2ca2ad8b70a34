//! Comments in the printed source. They name the user's lines, and the equations of these lines that a statement
//! computes.

use crate::loop_ir::Origins;
use std::fmt::Write;
use tapeloom_ir::{Loc, Phase};

/// The largest number of source lines in one comment.
const MOST: usize = 4;

/// The equations that one source line of the user has in one phase of differentiation (such as the reverse pass).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    phase: Phase,
    loc: Loc,
    primitives: Vec<&'static str>,
}

/// The equations that a statement computes, grouped by source line.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct SourceLines(Vec<Line>);

impl SourceLines {
    pub(super) fn of(origins: &Origins) -> SourceLines {
        let mut lines: Vec<Line> = Vec::new();
        for computed in origins.iter().filter(|computed| computed.origin.loc.is_some()) {
            let (phase, loc) = (computed.origin.phase, computed.origin.loc);
            let at = |loc: Loc| loc.map(|l| (l.file(), l.line()));
            let same = |line: &&mut Line| line.phase == phase && at(line.loc) == at(loc);
            match lines.iter_mut().find(same) {
                Some(line) if line.primitives.contains(&computed.primitive) => {}
                Some(line) => line.primitives.push(computed.primitive),
                None => lines.push(Line { phase, loc, primitives: vec![computed.primitive] }),
            }
        }
        SourceLines(lines)
    }

    /// Returns the comment as lines of text, without `//`. Equations whose source line is unknown are left out.
    pub(super) fn comment(&self) -> Vec<String> {
        let shown = if self.0.len() > MOST { MOST - 1 } else { MOST };
        let mut comment: Vec<String> = self.0.iter().take(shown).map(Line::text).collect();
        if let Some(more) = self.0.len().checked_sub(comment.len()).filter(|more| *more > 0) {
            comment.push(format!("and the equations of {more} more lines"));
        }
        comment
    }
}

impl Line {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(loc) = self.loc {
            // Writing to a string does not fail.
            let _ = write!(text, "{}:{}", loc.file(), loc.line());
        }
        let phase = words(self.phase);
        if !phase.is_empty() {
            text += if text.is_empty() { "" } else { ", " };
            text += phase;
        }
        let gap = if text.is_empty() { "" } else { ": " };
        format!("{text}{gap}{}", self.primitives.join(", "))
    }
}

/// Returns a phrase for the phase of differentiation; empty for the forward pass.
fn words(phase: Phase) -> &'static str {
    match (phase.order, phase.transposed, phase.rematerialized) {
        (0, ..) => "",
        (_, true, _) => "reverse pass",
        (_, false, true) => "recomputed for the reverse pass",
        (_, false, false) => "for the reverse pass",
    }
}
