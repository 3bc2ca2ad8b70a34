//! Passes: functions to functions that compute the same, one file each, and the cost model by which they choose.
//!
//! `pass` is the row of a pass. The lists of passes stand in `pipeline.rs` beside this folder.

pub(crate) mod cost;
pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod egraph;
pub(crate) mod inline;
pub(crate) mod live_equations;
pub(crate) mod op_class;
pub(crate) mod over_regions;
pub(crate) mod pass;
pub(crate) mod peephole;
pub(crate) mod polyphase;
pub(crate) mod prune;
pub(crate) mod slice_operands;
pub(crate) mod unroll_routines;
