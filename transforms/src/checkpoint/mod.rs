//! The checkpoint planner: chooses which values of the forward pass reverse mode saves.
//!
//! Single functions and the bodies of loops and branches have the same form. It consists of a forward function, a
//! linear function, and the residuals of the forward function that the linear function reads ([`LinearizeOf`]). So
//! planning maps one [`LinearizeOf`] to another, as a [`PlanRequest`] (a policy, and the costs of values) asks:
//!
//! ```text
//! plan: LinearizeOf -> LinearizeOf            same function, same derivative
//! ```
//!
//! | file | |
//! |---|---|
//! | `cost` | the prices of saving and of recomputing a value, by policy |
//! | `min_cut` | the cheapest choice, as a minimum cut |
//! | `max_flow` | minimum cuts of graphs |
//! | `rematerialize` | rewrites the forward and the linear function by the choice |
//! | `packing` | packs residuals in fewer bits |
//! | `decisions` | equations that are not recomputed from rounded floats |
//! | `strip_mine` | loops in blocks of iterations whose bits share words |
//! | `isolate` | lets a forward and a linear function in one function share residuals and nothing else |
//! | `budget` | the cheapest plan within a byte budget |
//! | `tape_size` | the size and the parts of a tape |
//! | `segments` | straight-line code, also before and after loops, in segments that are reversed one after the other |
//! | `aliased` | the residuals of compilers that treat arrays as memory that may overlap |
//! | `named_policy` | checks the names of a policy |
//! | `loop_slots` | loops that save a fixed number of carries |
//!
//! ```text
//! func @f.fwd(%0: f64[]) -> (f64[], f64[]) {     func @f.lin(%0: f64[]; %1: f64[]) -> (f64[]) {
//!   %1: f64[] = tanh %0                            %2: f64[] = mul %0, %1
//!   %2: f64[] = mul %1, %1                         return %2
//!   %3: f64[] = sub 1, %2                        }
//!   return %1, %3                                              residuals: kept 1
//! }
//!
//! func @f.fwd(%0: f64[]) -> (f64[]) {            func @f.lin(%0: f64[]; %1: f64[]) -> (f64[]) {
//!   %1: f64[] = tanh %0                            %2: f64[] = mul %0, %0
//!   return %1                                      %3: f64[] = sub 1, %2
//! }                                                %4: f64[] = mul %3, %1
//!                                                  return %4
//!                                                }             residuals: result 0
//! ```

mod aliased;
mod budget;
mod cost;
mod decisions;
mod isolate;
mod loop_slots;
mod max_flow;
mod min_cut;
mod named_policy;
mod packing;
mod rematerialize;
mod segments;
mod strip_mine;
mod tape_size;

pub use loop_slots::keep_carries;
pub use named_policy::known_names;

use crate::passes::cse::cse;
use crate::passes::inline::inline;
use cost::Reads;
use isolate::apart;
use min_cut::choose;
use tapeloom_ir::lang::query::{LinearizeOf, Plan, Residual, Within};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{Atom, FuncId, Module, PlanRequest, Planner, Policy, Problem, ValueId};

/// Derives the linearization of function `f`, and plans its loops by the policy of the query `of`.
pub(crate) fn within(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    of: &Within,
) -> Result<LinearizeOf, Problem> {
    match of.policy.row().planner {
        Planner::Budget => budget::derive(regions, module, f, of, of.policy.bytes().unwrap_or(0)),
        Planner::Memory => aliased::derive(regions, module, f, of),
        Planner::Cut => {
            let all = regions.linearize(module, f, &of.active, &[], &of.shares)?;
            regions.plan(module, all, PlanRequest::call(of.policy.clone()))
        }
    }
}

/// Plans the residuals that a derivative saves. Packs them in fewer bits, and isolates the reverse pass from other
/// values of the forward pass, if the request `plan.terms` says so.
pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    fwd: FuncId,
    plan: &Plan,
) -> Result<LinearizeOf, Problem> {
    let of = chosen(regions, module, fwd, plan)?;
    let of = packing::pack(module, of, &plan.terms)?;
    // If the policy names the values that may be saved or has a byte budget, isolate the linear function from the
    // forward function, so that no other values of the forward pass stay alive.
    let row = plan.terms.policy.row();
    let counted = match row.planner {
        Planner::Budget => Some(true),
        Planner::Cut | Planner::Memory => row.nothing_else.then_some(false),
    };
    match counted.filter(|_| plan.terms.together) {
        Some(counted) => apart(module, of, counted),
        None => Ok(of),
    }
}

fn chosen(
    regions: &mut dyn Regions,
    module: &mut Module,
    fwd: FuncId,
    Plan { lin, active_out, residuals, terms }: &Plan,
) -> Result<LinearizeOf, Problem> {
    let (active_out, residuals) = (active_out.clone(), residuals.clone());
    let of = LinearizeOf { fwd, lin: *lin, active_out, residuals };
    if terms.policy == Policy::Everything || of.residuals.is_empty() {
        return Ok(of);
    }
    // Merge equal values, and make the equations of called functions visible.
    let tidy = inline(module, fwd)?;
    let tidy = cse(module, tidy)?;
    let f = named_policy::read_by_name(module, &module.get(tidy), &terms.policy);
    let params: Vec<Atom> = f.params.iter().map(|p| (*p).into()).collect();
    let needed: Vec<ValueId> = Residual::pick(&of.residuals, &params, &f.results)
        .iter()
        .filter_map(|a| a.value())
        .collect();
    let reads = Reads { values: &needed, results: of.active_out.len() };
    let choice = choose(module, &f, of.lin, &reads, terms);
    // After inlining, a residual may turn out to be a parameter or a result, which needs no saving.
    let results = &f.results[..reads.results];
    let there = |a: &Atom| results.contains(a) || params.contains(a) || a.literal().is_some();
    let kept = of.residuals.iter().filter_map(|r| match r {
        Residual::Kept(i) => f.results.get(*i),
        Residual::Parameter(_) | Residual::Result(_) => None,
    });
    if !choice.contains(&true) && !kept.into_iter().any(there) {
        return Ok(of);
    }
    rematerialize::rewrite(regions, module, &of, &f, &choice, terms.together)
}
