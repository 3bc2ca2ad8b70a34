//! Simplification.
pub(crate) mod rules;
