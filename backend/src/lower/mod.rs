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
//! 1. `units`: which functions are compiled by themselves, each by what follows; `build` makes the
//!    `graph`: other calls inlined, dead equations gone, a node per equation; `zero_sized`: arrays without
//!    elements gone; `builtin_kernels`: kernels for sorting, and for what needs the element before it;
//!    `blas_select`: which contractions (`contraction`) a library does; `region_operands`: calls, loops, branches
//!    and effects (`region_node`), what they read and where they write; `dynamic_tape`, `tape_cursors`: what rounds keep of which
//!    only the run knows how many there are;
//! 2. `iteration_domain`: which axes each computed node loops over, in which `axis_order`, and what it `access_maps`;
//!    `view_boxes`: copies that are written in parts; `war_order`: reads before what writes over them;
//! 3. `fusion`: which nodes share a loop (`step_order`), and the loops as trees (`loop_tree`); `reduction`, `scalarize`,
//!    `in_place`: what happens in them; `phase_order`: what does not run before a pass has ended; `donation`: whose memory is taken over; `scalar_scope`: blocks and the
//!    scalars in them; `verify_tree`: the invariants of the trees;
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

use crate::loop_ir::{Kernel, KernelId, Program};
use crate::report::loop_tape_warnings::keeping;
use crate::report::memory_plan::Plan;
use crate::report::tape_table::again;
use crate::target::Options;
use cranelift_entity::PrimaryMap;
use dynamic_tape::Tapes;
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem};
use units::{Gives, Unit};

/// The function as loop nests, for the machine that everything was measured on.
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
    plan_on(&Options::default(), module, func)
}

/// The same, as is asked for.
pub(crate) fn plan_on(
    options: &Options,
    module: &Module,
    func: FuncId,
) -> Result<(Program, Plan), Problem> {
    let mut calls = units::Calls::of(module, func)?;
    calls.machine = options.target.machine();
    let f = module.function(func);
    let mut types = f.param_types().into_iter().chain(f.result_types());
    if let Some(ty) = types.find(|ty| ty.as_array().is_none()) {
        let message = format!("a program takes and gives arrays, and @{} has {ty}", f.name);
        return Err(Problem::new(Kind::Target, message, ""));
    }
    let mut callees: PrimaryMap<KernelId, Kernel> = calls.made.iter().cloned().collect();
    let mut plans: PrimaryMap<KernelId, Plan> = callees.values().map(|_| Plan::default()).collect();
    let mut tapes = Tapes::new(&callees, options.watched);
    for (unit, inline) in &calls.kept {
        let made = Made { calls: &calls, callees: &callees, plans: &plans };
        let (mut kernel, plan) = kernel(module, unit, made, &mut tapes)?;
        plans.push(plan);
        tapes.cut(&mut kernel, &module.function(unit.function).result_types());
        callees.push(Kernel { inline: *inline, ..kernel });
    }
    let unit = Unit { function: func, gives: Gives::Nothing };
    let made = Made { calls: &calls, callees: &callees, plans: &plans };
    let (entry, mut plan) = kernel(module, &unit, made, &mut tapes)?;
    plan.calls = calls.rows;
    plan.tapes.clone_from(&tapes.all);
    plan.keeping = keeping(module, func);
    plan.again = again(module, func);
    let watched = tapes.watched.unwrap_or_default();
    Ok((Program { tapes: tapes.all, watched, callees, entry }, plan))
}

/// The functions that are called, and what was made of them so far.
#[derive(Clone, Copy)]
struct Made<'a> {
    calls: &'a units::Calls,
    callees: &'a PrimaryMap<KernelId, Kernel>,
    plans: &'a PrimaryMap<KernelId, Plan>,
}

/// One function as loop nests. Those that it calls have been made.
fn kernel(
    module: &Module,
    unit: &Unit,
    made: Made<'_>,
    tapes: &mut Tapes,
) -> Result<(Kernel, Plan), Problem> {
    let Made { calls, callees, .. } = made;
    let mut graph = build::build(module, calls, callees, unit)?;
    let mut copied = blas_select::copied(&graph);
    copied.extend(region_operands::copied(&graph));
    copied.extend(war_order::copied(&graph, &unit.gives));
    graph.copy_operands(&copied.into_iter().collect::<Vec<_>>());
    let f = module.function(unit.function);
    let params: Vec<ArrayType> =
        f.all_params().map(|p| build::array(&f.types[p])).collect::<Result<_, _>>()?;
    let members = war_order::in_order(&graph, fusion_candidates::members(&graph));
    let emitted = fusion::emit(&graph, &unit.gives, members)?;
    if cfg!(debug_assertions) {
        verify_tree::check(&graph, &unit.gives, &emitted.body, &emitted.takes)?;
    }
    buffer_assignment::finish(&f.name, &params, &graph, &unit.gives, emitted, made, tapes)
}
