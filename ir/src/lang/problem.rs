//! `Problem`: an error in one operation, possibly without a location.
//!
//! Rules, type inference and the builder report problems. A problem has a kind, one sentence with the expected and the
//! actual value, and one that says how to fix it. The caller that has the location (the tracer, the verifier, the
//! parser) adds the user's line and returns an error.

use crate::lang::source_loc::Loc;
use crate::lang::types::{ArrayType, Shape};
use std::fmt;

/// The kind of a problem. The book's chapter on errors has a section for each, with a failing program and its
/// fix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Shapes do not fit together, or an axis does not exist.
    Shape,
    /// Dtypes do not fit together, or an operation is not defined for a dtype.
    Dtype,
    /// A handle was used outside the trace to which it belongs.
    Escaped,
    /// The program asked a handle for its concrete value, but the handle has no value yet, or a value of another type.
    NoValue,
    /// Mutable state was written where writing is not allowed, or used after `freeze` had ended it.
    State,
    /// A derivative that does not exist was requested.
    NotDifferentiable,
    /// A function that must be linear is not linear.
    NotLinear,
    /// A compiled function was called with arguments for which it was not compiled, or a name was given that does
    /// not exist.
    Arguments,
    /// An array does not fit in memory, or calls nest deeper than the limit.
    TooLarge,
    /// The residuals of reverse mode exceed the byte budget.
    Budget,
    /// A custom derivative rule does not fit its function.
    Rule,
    /// A Rust function that a program calls failed, or returned other types than declared.
    Callback,
    /// A nan or an infinity appeared while a program ran with the check for such values.
    NotFinite,
    /// A random key is used twice, in a program that is checked for reuse of keys.
    KeyReuse,
    /// A loop exceeds its limit of iterations.
    Limit,
    /// A running program was cancelled.
    Cancelled,
    /// A file cannot be read or written, is damaged, or holds other arrays than the program needs.
    File,
    /// The text of a program does not parse.
    Parse,
    /// A program breaks an invariant that the verifier checks.
    Verify,
    /// The machine or build for which the program is compiled cannot run it.
    Target,
    /// A fault of tapeloom itself: please report it with the program that is printed.
    Internal,
}

impl Kind {
    /// All kinds of problems, in the order of declaration.
    pub const ALL: [Kind; 21] = [
        Kind::Shape,
        Kind::Dtype,
        Kind::Escaped,
        Kind::NoValue,
        Kind::State,
        Kind::NotDifferentiable,
        Kind::NotLinear,
        Kind::Arguments,
        Kind::TooLarge,
        Kind::Budget,
        Kind::Rule,
        Kind::Callback,
        Kind::NotFinite,
        Kind::KeyReuse,
        Kind::Limit,
        Kind::Cancelled,
        Kind::File,
        Kind::Parse,
        Kind::Verify,
        Kind::Target,
        Kind::Internal,
    ];

    /// Returns the kind's name in messages and in the book: `shape`, `not-differentiable`, ...
    pub fn name(self) -> &'static str {
        match self {
            Kind::Shape => "shape",
            Kind::Dtype => "dtype",
            Kind::Escaped => "escaped",
            Kind::NoValue => "no-value",
            Kind::State => "state",
            Kind::NotDifferentiable => "not-differentiable",
            Kind::NotLinear => "not-linear",
            Kind::Arguments => "arguments",
            Kind::TooLarge => "too-large",
            Kind::Budget => "budget",
            Kind::Rule => "rule",
            Kind::Callback => "callback",
            Kind::NotFinite => "not-finite",
            Kind::KeyReuse => "key-reuse",
            Kind::Limit => "limit",
            Kind::Cancelled => "cancelled",
            Kind::File => "file",
            Kind::Parse => "parse",
            Kind::Verify => "verify",
            Kind::Target => "target",
            Kind::Internal => "internal",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The `Result` of this crate, with [`Problem`] as the default error.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error in one operation: its kind, a message, and how to fix it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The kind of the problem, which selects the section in the book's chapter on errors.
    pub kind: Kind,
    /// The expected and the actual value, in one sentence.
    pub message: String,
    /// A sentence that says how to fix the problem; may be empty.
    pub help: String,
    /// The user's source line, if it is known. Not part of equality.
    pub location: Loc,
}

impl PartialEq for Problem {
    fn eq(&self, other: &Problem) -> bool {
        (self.kind, &self.message, &self.help) == (other.kind, &other.message, &other.help)
    }
}

impl Eq for Problem {}

impl Problem {
    /// Sets the user's source line, unless the problem has one already.
    pub fn at(mut self, location: Loc) -> Problem {
        self.location = self.location.or(location);
        self
    }

    /// Makes a problem without a source line. An empty `help` is not printed.
    pub fn new(kind: Kind, message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), help: help.into(), location: None }
    }

    /// Makes the problem of a reshape to a shape with another number of elements; the message states both numbers.
    pub fn reshape(from: &ArrayType, to: &Shape) -> Problem {
        let count = |shape: &Shape| {
            let elements = shape.checked_elements();
            elements.map_or_else(|| "too many".to_owned(), |n| n.to_string())
        };
        let (has, takes) = (count(&from.shape), count(to));
        let message = format!(
            "cannot reshape {from} to {to}: the array has {has} elements, the shape {takes}"
        );
        Problem::new(Kind::Shape, message, "choose extents with the same product")
    }

    /// Makes a problem that is a fault of tapeloom itself.
    pub fn internal(message: impl Into<String>) -> Problem {
        Problem::new(Kind::Internal, message, "this is a fault of tapeloom; please report it")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.kind, self.message)?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
