//! The residuals of a compiler that treats arrays as memory: [`Policy::Aliased`](tapeloom_ir::Policy).
//!
//! In this compiler, arrays are values, and an element of an array that is available can be read again. A compiler of
//! loads and stores, as Enzyme is (Moses and Churavy, NeurIPS 2020), must prove that nothing was stored between the
//! first and the second read. Since arrays may overlap, it can prove that only if the function stores nothing at all.
//! So in a function that writes arrays in its loops,
//!
//! - each number that an iteration reads and the reverse pass needs is saved: each read in the program's text has an
//!   array of its own, with an element for each execution; but in a loop that writes no array, a read that is the same
//!   in all iterations is saved once;
//! - values computed from saved numbers are recomputed, except the results of functions;
//! - an array update that adds is a read and a write, so its reverse reads the cotangent of the written
//!   element, sets that cotangent to zero, and adds it to the current value:
//!
//! ```text
//! y = scatter_add x, i, u        a = gather x, i        load x[i]        ct = load y'[i]
//!                                b = add a, u           add              store y'[i], 0
//!                                y = scatter_set x, i, b    store x[i]   x'[i] += ct: load, add, store
//! ```
//!
//! If no loop writes arrays, the reverse pass reads their elements again. Outside loops, arrays are values as usual.
//!
//! Under [`Policy::Disjoint`](tapeloom_ir::Policy), the reverse pass reads arrays again, except those that the function
//! overwrites.

use crate::passes::inline::inline;
use tapeloom_ir::lang::query::{LinearizeOf, Within};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{
    Amortization, Builder, Equation, FuncId, Memory, Module, PlanContext, Policy, Problem, deeper,
    rebuild,
};

/// Derives the linearization of `f`, where the forward function saves the values that a compiler of loads and stores
/// would save.
pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    Within { active, shares, policy }: &Within,
) -> Result<LinearizeOf, Problem> {
    let f = inline(module, f)?;
    let written = *policy == Policy::Aliased && writes(module, f);
    let memory = if written { Memory::Written } else { Memory::Read };
    let f = through_memory(module, f)?;
    let bits = policy.row().bits;
    let within = |share: &Amortization| share.with(PlanContext { memory, bits, ..share.context() });
    let shares: Vec<Amortization> = shares.iter().map(within).collect();
    regions.linearize(module, f, active, &[], &shares)
}

/// Returns whether a loop or a branch of a function writes an element of an array.
fn writes(module: &Module, f: FuncId) -> bool {
    module.function(f).equations.iter().flat_map(Equation::runs).any(|inside| module.writes(inside))
}

/// Returns a copy of `f` in which every update that adds to an element is split into a read, an addition and a write.
fn through_memory(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(f);
    let copy = rebuild(&f, |draft, i, operands| {
        let e = &f.equations[i];
        let op = e.op.with_runs(|inside| deeper(|| through_memory(module, inside)))?;
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        match op.through_memory(&b, &operands) {
            Some(y) => Ok([y].into_iter().collect()),
            None => Ok(draft.copy_as(op, &f, i, operands)),
        }
    })?;
    module.add(copy)
}
