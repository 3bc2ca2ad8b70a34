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
//! 1. `calls`: which functions are compiled by themselves, each by what follows; `build` makes the
//!    `graph`: other calls inlined, dead equations gone, a node per equation; `empty`: arrays without
//!    elements gone; `routine`: kernels for sorting, and for what needs the element before it;
//!    `library`: which contractions (`contraction`) a library does; `regions`: calls, loops, branches
//!    and effects (`region`), what they read and where they write; `tapes`, `rolls`: what rounds keep of which
//!    only the run knows how many there are;
//! 2. `member`: which axes each computed node loops over, in which `order`, and what it `reads`;
//!    `pieces`: copies that are written in parts; `early`: reads before what writes over them;
//! 3. `emit`: which nodes share a loop (`timeline`), and the loops as trees (`tree`); `fold`, `unroll`,
//!    `update`: what happens in them; `passes`: what does not run before a pass has ended; `donation`: whose memory is taken over; `scalars`: blocks and the
//!    scalars in them; `check`: the invariants of the trees;
//! 4. beneath it `element`: the code of one element, through views (`view`) by index arithmetic
//!    (`affine`, `position`), or computed again (`recompute`);
//! 5. `finish`: what nobody needs goes (`sweep`), nodes that need memory get it (`storage`, and `memory`
//!    says where it lies), trees become statements (`convert`, of regions `control`), perfect nests one
//!    loop (`collapse`).
//!
//! Every station is linear in the size of the program, and recursion is bounded by the rank of
//! arrays: a hundred thousand scalar equations become straight-line code in portions.

mod affine;
mod build;
mod calls;
mod check;
mod collapse;
mod contraction;
mod control;
mod convert;
mod donation;
mod early;
mod element;
mod emit;
mod emitter;
mod empty;
mod finish;
mod fold;
mod graph;
mod library;
mod member;
mod members;
mod memory;
mod order;
mod passes;
mod pieces;
mod position;
mod reads;
mod recompute;
mod region;
mod regions;
mod rolls;
mod routine;
mod scalars;
mod storage;
mod strided;
mod sweep;
mod tapes;
mod timeline;
mod tree;
mod unroll;
mod update;
mod view;

#[cfg(test)]
mod looping;
#[cfg(test)]
mod overwriting;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tape_tests;
#[cfg(test)]
mod tests;

use crate::keeping::keeping;
use crate::kernel::{Kernel, KernelId, Program};
use crate::plan::Plan;
use crate::tape::again;
use crate::target::Options;
use calls::{Gives, Unit};
use cranelift_entity::PrimaryMap;
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem};
use tapes::Tapes;

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
    let mut calls = calls::Calls::of(module, func)?;
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
    calls: &'a calls::Calls,
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
    let mut copied = library::copied(&graph);
    copied.extend(regions::copied(&graph));
    copied.extend(early::copied(&graph, &unit.gives));
    graph.copy_operands(&copied.into_iter().collect::<Vec<_>>());
    let f = module.function(unit.function);
    let params: Vec<ArrayType> =
        f.all_params().map(|p| build::array(&f.types[p])).collect::<Result<_, _>>()?;
    let members = early::in_order(&graph, members::members(&graph));
    let emitted = emit::emit(&graph, &unit.gives, members)?;
    if cfg!(debug_assertions) {
        check::check(&graph, &unit.gives, &emitted.body, &emitted.takes)?;
    }
    finish::finish(&f.name, &params, &graph, &unit.gives, emitted, made, tapes)
}
