//! What a compiler keeps that takes arrays for memory: [`Policy::Aliased`](tapeloom_ir::Policy).
//!
//! Here arrays are values, and what is read of one that is there can be read again. A compiler that sees
//! loads and stores, as Enzyme does (Moses and Churavy, NeurIPS 2020), must prove that nothing was stored
//! between the two, and since arrays may overlap it can only if the function stores nothing at all. So
//! in a function that writes arrays in its loops,
//!
//! - each number that is read in an iteration, and that the backward pass needs, is kept: one array of its own
//!   for each read in the text, with an element for each time it is executed; but in a loop that writes no
//!   array, what is read alike in all iterations is kept once;
//! - what is computed of such numbers is computed again, but for what functions give;
//! - an array that is added to is read and written, so that the cotangent of what was written is read, is
//!   zero afterwards, and is added to what is then there:
//!
//! ```text
//! y = scatter_add x, i, u        a = gather x, i        load x[i]        ct = load y'[i]
//!                                b = add a, u           add              store y'[i], 0
//!                                y = scatter_set x, i, b    store x[i]   x'[i] += ct: load, add, store
//! ```
//!
//! Where no loop writes arrays, they are read again. Outside loops, arrays are values as ever.
//!
//! Under [`Policy::Disjoint`](tapeloom_ir::Policy) they are read again wherever they are not written over.

use crate::passes::inline::inline;
use tapeloom_ir::lang::query::{LinearizeOf, Within};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{
    Amortization, Builder, Equation, FuncId, Memory, Module, PlanContext, Policy, Problem, deeper,
    rebuild,
};

/// The derivative of a function that keeps what memory would have lost.
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
    let within = |share: &Amortization| share.with(PlanContext { memory, bits, ..share.regime() });
    let shares: Vec<Amortization> = shares.iter().map(within).collect();
    regions.linearize(module, f, active, &[], &shares)
}

/// Whether a loop or a branch of a function writes an element of an array.
fn writes(module: &Module, f: FuncId) -> bool {
    module.function(f).equations.iter().flat_map(Equation::runs).any(|inside| module.writes(inside))
}

/// The same function, in which what is combined with an element of an array is read and written.
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
