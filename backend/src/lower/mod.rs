//! Lowering: from a function to loop nests over buffers.
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
//! `pipeline` runs the following steps in order. The names in them are folders and files of this folder. A file imports
//! from its own folder and from the folders before it in this order: `graph`, `trees`, `operands`, `build`,
//! `candidates`, `elements`, `fusion`, `emission`.
//!
//! 1. The graph. `graph/units` decides which functions are compiled separately, each by the following steps. `build`
//!    creates the `graph`: one node for each equation, with all other calls inlined and without dead equations.
//!    `graph/zero_sized` removes arrays without elements. `graph/builtin_kernels` writes kernels for sorts and
//!    cumulative operations. `build/permuted_products` permutes the axes of large contractions into the order in which
//!    they are read. `operands/blas_select` selects the contractions (`operands/contraction`) that a library computes,
//!    and `build/arranged_copies` the operands that are copied so that few calls suffice. `operands/region_operands`
//!    assigns memory to the operands and results of calls, loops, branches and effects (`graph/region_node`). Both
//!    depend on the strides at which operands lie in memory (`operands/strided_layout`).
//! 2. The fusion `candidates`. `iteration_domain` states the loop axes of each computed node, `axis_order` their order,
//!    and `access_maps` the reads. `view_boxes` splits copies that are written in parts; `fusion_candidates` collects
//!    all this. `war_order` moves reads before the updates that overwrite their operands.
//! 3. `fusion` decides which nodes share a loop (`step_order`), and emits loop trees (`trees/loop_tree`). `reduction`,
//!    `scalarize` and `in_place` emit the loop bodies. `graph/phase_order` delays nodes until a forward or reverse pass
//!    has ended, and `donation` decides whose memory is taken over. `trees/verify_tree` checks the invariants of the
//!    trees, and `tree_text` prints them ([`loop_trees`]).
//! 4. `elements`, which fusion calls, emits the code of one `element`: through views (`view`) by index arithmetic
//!    (`trees/affine`, `dynamic_index`), or by recomputation (`rematerialize`). `fusion_state` holds the state, and
//!    `scalar_scope` manages blocks and their scalars.
//! 5. The `emission` of statements. `buffer_assignment` removes dead code (`trees/dead_code`), gives memory to the
//!    nodes that need it (`buffer_liveness`; no two buffers share bytes before the pass `plan_memory`), converts trees
//!    to statements (`emit`; regions by `region`), and merges perfect nests into one loop (`coalesce`). `dynamic_tape`
//!    and `tape_cursors` lower the residuals of loops whose trip count is known only at run time.
//!
//! Every step is linear in the size of the program, and recursion depth is bounded by the rank of arrays. A hundred
//! thousand scalar equations become straight-line code in portions.

mod build;
mod candidates;
mod elements;
mod emission;
mod fusion;
mod graph;
mod operands;
mod pipeline;
mod trees;

#[cfg(test)]
mod in_place_tests;
#[cfg(test)]
mod loop_tests;
#[cfg(test)]
mod tape_tests;
#[cfg(test)]
mod tests;

pub(crate) use pipeline::plan_on;
pub use pipeline::{loop_trees, lower_to_loops, plan};
