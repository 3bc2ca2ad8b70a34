//! `Error`: what the boundary returns when a program is wrong.
//!
//! All mistakes that were made while tracing are in it, first causes only, each with the user's line,
//! the operands with their types and birthplaces, and how to mend it:
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

/// One or more mistakes. The chapter on errors of the book has a failing program and its mend for
/// each [`Kind`].
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// Never empty. Boxed, since an error travels through every `Result`.
    #[allow(clippy::box_collection, reason = "a `Result` should be as small as its success")]
    diagnostics: Box<Vec<Diagnostic>>,
}

impl Error {
    /// The kind of the first mistake.
    pub fn kind(&self) -> Kind {
        self.diagnostics.first().map_or(Kind::Internal, |d| d.problem.kind)
    }

    /// Every mistake, in the order in which they were made.
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

/// The same as `Display`: `unwrap` and `main` show what a user can read.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
