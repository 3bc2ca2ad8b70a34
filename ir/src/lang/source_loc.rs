//! Source locations: where in the user's source an equation comes from.
//!
//! A derivative has the lines of what it was derived from. Lines survive transforms and never count in equality.

use std::panic::Location;

/// A line of the user's source, if one is known. Never part of equality.
pub type Loc = Option<&'static Location<'static>>;
