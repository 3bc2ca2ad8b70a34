//! Passes from functions to equivalent functions, one file each, and their cost model.
//!
//! `pass` defines the row of a pass. The lists of passes are in `pipeline.rs` beside this folder.

pub(crate) mod cost;
pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod drop_shardings;
pub(crate) mod egraph;
pub(crate) mod inline;
pub(crate) mod live_equations;
pub(crate) mod op_class;
pub(crate) mod over_regions;
pub(crate) mod pass;
pub(crate) mod peephole;
pub(crate) mod polyphase;
pub(crate) mod prune;
pub(crate) mod simplification;
pub(crate) mod slice_operands;
pub(crate) mod unroll_routines;
