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
//! The stations, each a file, which `pipeline` runs in this order:
//!
//! 1. `units`: which functions are compiled by themselves, each by what follows; `build` makes the
//!    `graph`: other calls inlined, dead equations gone, a node per equation; `zero_sized`: arrays without
//!    elements gone; `builtin_kernels`: kernels for sorting, and for what needs the element before it;
//!    `blas_select`: which contractions (`contraction`) a library does; `region_operands`: calls, loops, branches
//!    and effects (`region_node`), what they read and where they write; `dynamic_tape`, `tape_cursors`: what iterations keep of which
//!    only the run knows how many there are;
//! 2. `iteration_domain`: which axes each computed node loops over, in which `axis_order`, and what it `access_maps`;
//!    `view_boxes`: copies that are written in parts; `war_order`: reads before what writes over them;
//! 3. `fusion`: which nodes share a loop (`step_order`), and the loops as trees (`loop_tree`); `reduction`, `scalarize`,
//!    `in_place`: what happens in them; `phase_order`: what does not run before a pass has ended; `donation`: whose memory is taken over; `scalar_scope`: blocks and the
//!    scalars in them; `verify_tree`: the invariants of the trees;
//!    `tree_text` prints them ([`loop_trees`]);
//! 4. beneath it `element`: the code of one element, through views (`view`) by index arithmetic
//!    (`affine`, `dynamic_index`), or computed again (`rematerialize`);
//! 5. `buffer_assignment`: what nobody needs goes (`dead_code`), nodes that need memory get it (`buffer_liveness`, and `workspace`
//!    says where it lies), trees become statements (`emit`, of regions `region`), perfect nests one
//!    loop (`coalesce`).
//!
//! Every station is linear in the size of the program, and recursion is bounded by the rank of
//! arrays: a hundred thousand scalar equations become straight-line code in portions.

mod access_maps;
mod affine;
mod axis_order;
mod blas_select;
mod buffer_assignment;
mod buffer_liveness;
mod build;
mod builtin_kernels;
mod coalesce;
mod contraction;
mod dead_code;
mod donation;
mod dynamic_index;
mod dynamic_tape;
mod element;
mod emit;
mod fusion;
mod fusion_candidates;
mod fusion_state;
mod graph;
mod in_place;
mod iteration_domain;
mod loop_tree;
mod phase_order;
mod pipeline;
mod reduction;
mod region;
mod region_node;
mod region_operands;
mod rematerialize;
mod scalar_scope;
mod scalarize;
mod step_order;
mod strided_layout;
mod tape_cursors;
mod tree_text;
mod units;
mod verify_tree;
mod view;
mod view_boxes;
mod war_order;
mod workspace;
mod zero_sized;

#[cfg(test)]
mod in_place_tests;
#[cfg(test)]
mod loop_tests;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tape_tests;
#[cfg(test)]
mod tests;

pub(crate) use pipeline::plan_on;
pub use pipeline::{loop_trees, plan, schedule};
