//! Spots: where in the user's source an equation comes from, and on which way through the program it is.
//!
//! A derivative has the lines of what it was derived from. What reverse mode made of it runs on the way
//! back, and what of that the forward half has computed before is computed again. So a table of memory can
//! say which line keeps a value for which.
//!
//! Lines survive transforms and never count in equality.

use std::fmt;
use std::panic::Location;

/// A line of the user's source, if one is known. Never part of equality.
pub type Loc = Option<Spot>;

/// A line of the user's source.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    at: &'static Location<'static>,
    /// How many ways back it is of: 0 on the forward pass, 1 where reverse mode made the equation, 2 where it made
    /// it of one that is of a way back itself.
    pub back: u8,
    /// Whether it undoes something there, and does not run before what does.
    pub undoes: bool,
    /// Whether the forward pass has computed the same, which was not kept.
    pub again: bool,
}

impl Spot {
    /// The file.
    pub fn file(self) -> &'static str {
        self.at.file()
    }

    /// The line, counted from 1.
    pub fn line(self) -> u32 {
        self.at.line()
    }

    /// The column, counted from 1.
    pub fn column(self) -> u32 {
        self.at.column()
    }

    /// The same line on the way back, where it undoes something or runs before what does.
    #[must_use]
    pub fn on_the_way_back(self, undoes: bool) -> Spot {
        Spot { back: self.back.saturating_add(1), undoes, ..self }
    }

    /// Which of two is of an earlier pass over the program, of one pass the one that runs before it undoes
    /// something.
    pub fn pass(self) -> (u8, bool) {
        (self.back, self.undoes)
    }

    /// The same line, computed again.
    #[must_use]
    pub fn once_more(self) -> Spot {
        Spot { again: true, ..self }
    }
}

impl From<&'static Location<'static>> for Spot {
    fn from(at: &'static Location<'static>) -> Spot {
        Spot { at, back: 0, undoes: false, again: false }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}

impl fmt::Debug for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}
