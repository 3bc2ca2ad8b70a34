//! The table of a program's steps with the user's lines, as `explain` prints it.
//!
//! ```text
//! step  part         equations        lines
//! 0     fold 100000  sin, reduce_sum  src/main.rs:7
//! ```

use super::instrument::{ASSUMED_TRIPS, what};
use super::{first_words, lines, primitives};
use crate::loop_ir::analysis::cost::Costs;
use crate::loop_ir::{Origins, Program};
use crate::report::columns::table;
use std::fmt;

/// The steps of a program, for display: the statements of its outermost block, by whose numbers the memory plan states
/// lifetimes.
pub(crate) struct Steps<'p>(pub(crate) &'p Program);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs = Costs::of(self.0, ASSUMED_TRIPS);
        let mut rows = vec![["step", "part", "equations", "lines"].map(String::from)];
        for (step, stmt) in self.0.entry.body.iter().enumerate() {
            let origins = stmt.origins().unwrap_or(&Origins::NONE);
            rows.push([
                step.to_string(),
                what(self.0, &costs, stmt),
                first_words(primitives(origins).into_iter().map(String::from)),
                first_words(lines(origins).iter().map(ToString::to_string)),
            ]);
        }
        table(f, &rows)
    }
}
