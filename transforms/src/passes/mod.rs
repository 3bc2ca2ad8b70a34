//! Passes: functions to functions that compute the same, and the lists that say in which order they run.

pub(crate) mod cost;
pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod egraph;
pub(crate) mod inline;
pub(crate) mod live_equations;
pub(crate) mod over_regions;
pub(crate) mod peephole;
pub(crate) mod prune;
