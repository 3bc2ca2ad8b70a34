//! `Error`: the error type of compiling and running programs.
//!
//! It contains all mistakes that were made while tracing, without their consequences. Each has the user's line, the
//! operands with their types and the lines that made them, and a suggestion:
//!
//! ```
//! use tapeloom::{prelude::*, Kind};
//! let error = run(|(x, y): (Var, Var)| (x + y, x.sum_axis(1)), ([1.0, 2.0], [1.0, 2.0, 3.0]));
//! let error = error.unwrap_err();
//! assert_eq!(error.kind(), Kind::Shape);
//! assert_eq!(error.diagnostics().len(), 2);
//! assert!(error.to_string().contains("cannot broadcast shapes [2] and [3] together"));
//! ```

use std::fmt;
use tapeloom_ir::trace::Diagnostic;
use tapeloom_ir::{Kind, Loc, Problem};

/// One or more mistakes in a program. For each [`Kind`] of mistake, the book's chapter on errors has a failing program
/// and its correction.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// The mistakes, at least one. They are boxed, so that a `Result` with this error type stays small.
    #[allow(clippy::box_collection, reason = "a small error keeps every `Result` small")]
    diagnostics: Box<Vec<Diagnostic>>,
}

impl Error {
    /// Returns the kind of the first mistake.
    pub fn kind(&self) -> Kind {
        self.diagnostics.first().map_or(Kind::Internal, |d| d.problem.kind)
    }

    /// Returns all mistakes, in the order in which they were made.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    pub(crate) fn from_diagnostics(diagnostics: Vec<Diagnostic>) -> Error {
        debug_assert!(!diagnostics.is_empty());
        Error { diagnostics: Box::new(diagnostics) }
    }

    pub(crate) fn at(problem: Problem, at: Loc) -> Error {
        Error::from_diagnostics(vec![Diagnostic::new(problem, at)])
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::at(problem, None)
    }
}

/// An error of a client of XLA or of its plugin.
#[cfg(feature = "xla")]
impl From<tapeloom_backend::xla::ClientError> for Error {
    fn from(error: tapeloom_backend::xla::ClientError) -> Error {
        tapeloom_backend::xla::problem(&error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        match self.diagnostics.len() {
            1 => Ok(()),
            n => write!(f, "\n\n{n} errors"),
        }
    }
}

/// Prints the text of `Display`, so that `unwrap` and `main` show a readable message.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
