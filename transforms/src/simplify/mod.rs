//! Simplification.
pub(crate) mod rules;

#[cfg(test)]
mod row_tests;
