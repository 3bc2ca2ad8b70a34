//! Source locations: the line of the user's source for an equation.
//!
//! A derivative has the lines of the function it was derived from. Transforms preserve lines, and equality
//! ignores them.

use std::panic::Location;

/// A line of the user's source, if it is known. Equality of programs ignores it.
pub type Loc = Option<&'static Location<'static>>;
