//! The text form of the loop IR: printing and parsing.

pub(crate) mod parse;
pub(crate) mod print;
