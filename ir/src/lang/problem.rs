//! `Problem`: what is wrong with one operation, before it is known where.
//!
//! Rules, type inference and the builder speak in problems: a kind, one sentence that says what was
//! expected and what was found, and one that says how to mend it. Whoever knows the place (the
//! tracer, the verifier, the parser) adds the user's line and hands an `Error` on.

use crate::lang::source_loc::Loc;
use std::fmt;

/// The kind of a problem. Each has its section, with a failing program and its mend, in the chapter
/// on errors of the book.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Shapes do not fit together, or an axis does not exist.
    Shape,
    /// Dtypes do not fit together, or the operation is not defined for one.
    Dtype,
    /// A handle was used outside the trace it belongs to.
    Escaped,
    /// The value of something that has none yet, or of no such kind, was asked for.
    NoValue,
    /// Mutable state was written where it cannot be, or used after its end.
    State,
    /// A derivative that does not exist was asked for.
    NotDifferentiable,
    /// A function that must be linear is not.
    NotLinear,
    /// A compiled function was called with arguments it was not made for, or a name that something is given is
    /// none that it knows.
    Arguments,
    /// An array is larger than memory can be.
    TooLarge,
    /// What reverse mode keeps takes more bytes than it may.
    Budget,
    /// A custom derivative rule does not fit its function.
    Rule,
    /// A Rust function that a program calls gave no results, or others than were declared.
    Callback,
    /// A value that is not finite appeared while the program ran, and somebody asked for it.
    NotFinite,
    /// A random key is used twice, and somebody asked for it.
    KeyReuse,
    /// A loop runs more iterations than it may.
    Limit,
    /// A running program was ended from outside.
    Cancelled,
    /// The text of a program does not parse.
    Parse,
    /// A program breaks an invariant of the language.
    Verify,
    /// The target cannot run the program.
    Target,
    /// A fault of tapeloom itself: please report it with the program that is printed.
    Internal,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 20] = [
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
        Kind::Parse,
        Kind::Verify,
        Kind::Target,
        Kind::Internal,
    ];

    /// The name in messages and in the book: `shape`, `not-differentiable`, ...
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

/// An answer, or what is wrong.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// What is wrong with one operation: kind, finding and mend.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Under which section of the book it falls.
    pub kind: Kind,
    /// What was expected and what was found, in one sentence.
    pub message: String,
    /// How to mend it; may be empty.
    pub help: String,
    /// The user's line, where one is known. Not part of equality.
    pub location: Loc,
}

impl PartialEq for Problem {
    fn eq(&self, other: &Problem) -> bool {
        (self.kind, &self.message, &self.help) == (other.kind, &other.message, &other.help)
    }
}

impl Eq for Problem {}

impl Problem {
    /// The same problem at that line, unless a line is known already.
    pub fn at(mut self, location: Loc) -> Problem {
        self.location = self.location.or(location);
        self
    }

    /// A problem whose place is not known yet. An empty `help` is not printed.
    pub fn new(kind: Kind, message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), help: help.into(), location: None }
    }

    /// A fault of tapeloom itself.
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
