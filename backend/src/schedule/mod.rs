//! The schedule: from a function to loop nests with a static memory plan.
//!
//! ```text
//! func @f(%0: f64[4,100]) -> (f64[4]) {         program @f {
//!   %1: f64[4,100] = exp %0                       buffer b0: f64[4,100] input 0
//!   %2: f64[4] = reduce_sum{axes=[1]} %1          buffer b1: f64[4] output 0
//!   return %2                                     for i0 in 4 {
//! }                                                 var v0: f64 = 0.0
//!                                                   fold i1 in 100 {
//!                                                     %0: f64 = load b0[i0*100 + i1]
//!                                                     %1: f64 = exp %0
//!                                                     v0 = add v0, %1
//!                                                   }
//!                                                   store b1[i0], v0
//!                                                 }
//!                                               }
//! ```
//!
//! The stations, each a file:
//!
//! 1. `graph`: calls inlined, dead equations gone, a node per equation; `empty`: arrays without
//!    elements gone;
//! 2. `member`: which axes each computed node loops over, in which order, and what it reads;
//! 3. `emit`: which nodes share a loop, and the loops; `element`: the code of one element, with
//!    all views as index arithmetic (`affine`); `library`: which contractions a library does;
//!    `check`: the invariants of these trees;
//! 4. `finish`: which nodes need memory and how much; `memory`: where it lies.
//!
//! Every station is linear in the size of the program, and recursion is bounded by the rank of
//! arrays: a hundred thousand scalar equations become straight-line code in portions.

mod affine;
mod check;
mod collapse;
mod element;
mod emit;
mod empty;
mod finish;
mod graph;
mod library;
mod member;
mod memory;
mod tree;

#[cfg(test)]
mod overwriting;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

use crate::kernel::Program;
use crate::plan::Plan;
use tapeloom_ir::{ArrayType, FuncId, Module, Problem};

/// The function as loop nests.
///
/// # Errors
/// [`tapeloom_ir::Kind::Target`] where a value is not an array,
/// [`tapeloom_ir::Kind::TooLarge`] where an array does not fit in memory.
pub fn schedule(module: &Module, func: FuncId) -> Result<Program, Problem> {
    Ok(plan(module, func)?.0)
}

/// The function as loop nests, with the table of its memory.
///
/// # Errors
/// Those of [`schedule`].
pub fn plan(module: &Module, func: FuncId) -> Result<(Program, Plan), Problem> {
    let graph = graph::Graph::of(module, func)?;
    let f = module.function(func);
    let params: Vec<ArrayType> =
        f.all_params().filter_map(|p| f.types[p].as_array().cloned()).collect();
    let members = member::members(&graph);
    let emitted = emit::emit(&graph, members)?;
    if cfg!(debug_assertions) {
        check::check(&graph, &emitted.steps, &emitted.takes)?;
    }
    finish::finish(&f.name, &params, &graph, emitted)
}
