//! Diagnostics: a problem together with the place where the user caused it.
//!
//! Operators cannot return a `Result`, so a wrong operation inside a trace records a diagnostic and tracing goes on.
//! The boundary (the call of `jit`, `run` or `record`) returns all diagnostics. A diagnostic names the user's line, the
//! operands with their types and birthplaces, and the transforms under way:
//!
//! ```text
//! error[shape]: `add` cannot broadcast shapes [3] and [4] together
//!   --> examples/mlp.rs:38:19
//!    = left   f64[3]  made at examples/mlp.rs:36:17
//!    = right  f64[4]  made at examples/mlp.rs:37:17
//!    = while tracing for `grad` at examples/mlp.rs:52:13
//!    = help: aligned at the last axis, extents must be equal or 1
//!    = see the book: errors.html#shape
//! ```

use crate::lang::problem::Problem;
use crate::lang::source_loc::Loc;
use std::fmt;
use std::panic::Location;

/// An error of a user's program, at the user's source line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The error: its kind, its message, and how to fix it.
    pub problem: Problem,
    /// The user's source line that caused the problem.
    pub at: Loc,
    /// The values involved in the problem, such as the operands of an operation.
    pub notes: Vec<Note>,
    /// The transforms whose closures were being traced, innermost first.
    pub context: Vec<Context>,
}

/// One value involved in a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The value's role: `left`, `operand 2`, or a path in a tree of values.
    pub role: String,
    /// The type of the value, or its text if it is a literal.
    pub what: String,
    /// The user's source line where the value was made.
    pub born: Loc,
}

/// A transform whose closure was being traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The name of the transform: `grad`, `jit`, ...
    pub transform: &'static str,
    /// The source line where the user called the transform.
    pub at: Loc,
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the closure given to `{}`", self.transform)?;
        self.at.map_or(Ok(()), |at| write!(f, " {}", place(at)))
    }
}

impl Diagnostic {
    /// Makes a diagnostic without notes and context, at the problem's own source line if it has one, else at `at`.
    pub fn new(problem: Problem, at: Loc) -> Diagnostic {
        let at = problem.location.or(at);
        Diagnostic { problem, at, notes: Vec::new(), context: Vec::new() }
    }
}

/// The largest number of transforms that a message lists.
const SHOWN: usize = 8;

/// The text in place of a source line that is not the user's.
const BY_NAME: &str = "through an iterator or a function passed by name";

/// Returns whether a source line is in the standard library. Such a line results from a function passed by name, as
/// in `map(Var::sin)` or `sum::<Var>()`; users do not look for a mistake there.
pub(super) fn in_standard_library(at: Loc) -> bool {
    at.is_some_and(|at| {
        let file = at.file().replace('\\', "/");
        file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/library/")
    })
}

/// Returns the text of a source line, or `BY_NAME` if the line is in the standard library.
pub(super) fn place(at: &'static Location<'static>) -> String {
    if in_standard_library(Some(at)) { BY_NAME.to_owned() } else { format!("at {at}") }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.problem.kind, self.problem.message)?;
        if let Some(at) = self.at {
            match in_standard_library(self.at) {
                true => write!(f, "\n  --> {BY_NAME}")?,
                false => write!(f, "\n  --> {at}")?,
            }
        }
        let width = self.notes.iter().map(|n| n.role.chars().count()).max().unwrap_or(0);
        for Note { role, what, born } in &self.notes {
            write!(f, "\n   = {role:width$}  {what}")?;
            if let Some(born) = born {
                write!(f, "  made {}", place(born))?;
            }
        }
        // If there are more than `SHOWN` transforms, list the innermost ones and the outermost one, and omit the
        // others.
        let many = self.context.len() > SHOWN;
        let (inner, outer) = match self.context.split_last() {
            Some((outer, inner)) if many => (&inner[..SHOWN - 1], Some(outer)),
            Some(_) | None => (&self.context[..], None),
        };
        for (i, Context { transform, at }) in inner.iter().chain(outer).enumerate() {
            if many && i == SHOWN - 1 {
                write!(f, "\n   = and {} more transforms", self.context.len() - SHOWN)?;
            }
            write!(f, "\n   = while tracing for `{transform}`")?;
            if let Some(at) = at {
                write!(f, " {}", place(at))?;
            }
        }
        if !self.problem.help.is_empty() {
            write!(f, "\n   = help: {}", self.problem.help)?;
        }
        write!(f, "\n   = see the book: errors.html#{}", self.problem.kind)
    }
}
