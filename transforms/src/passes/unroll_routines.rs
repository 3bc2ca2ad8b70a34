//! Unrolling of small library routines into operations on the elements of their matrices.
//!
//! ```text
//! %1: f64[1000,2,2] = cholesky %0      ->      %5: f64[1000] = sqrt %4, .. joined to f64[1000,2,2]
//! ```
//!
//! The pass runs after differentiation: the rule of a factorization is a few matrix products, and the
//! derivative of its unrolled form would have a term for every element. A batch becomes one vectorized loop
//! over its members, and a system inside a loop becomes scalars in registers. The orders that are unrolled are
//! defined beside the routines (`ir/src/prim/linalg/unrolled.rs`).

use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, Lowering, Regions};
use tapeloom_ir::{Atom, Builder, FuncId, Module, Problem, ValueRemap};

/// The entry of the pass `unroll_routines` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "unroll_routines",
    about: "library routines of small orders are unrolled into operations on elements",
    exactness: Exactness::Exact,
    run: Run::Function(unroll_routines),
};

fn unroll_routines(
    _: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
) -> Result<FuncId, Problem> {
    let f = module.get(id).clone();
    let routine = |e: &tapeloom_ir::Equation| matches!(e.lower(module, &f), Lowering::Routine(_));
    if !f.equations.iter().any(routine) {
        return Ok(id);
    }
    let (mut draft, mut map) = ValueRemap::same_signature(&f);
    for (i, e) in f.equations.iter().enumerate() {
        let operands = map.all(&e.operands);
        let lowering = e.lower(module, &f);
        let b = Builder::new(module, &mut draft);
        b.at(f.origin(i));
        let written = match lowering {
            Lowering::Routine(call) => call.unrolled(&b, &operands),
            _ => None,
        };
        let outputs: Vec<Atom> = match written {
            Some(outputs) => outputs,
            None => b.copy(&f, i, operands).to_vec(),
        };
        map.define(e, outputs);
    }
    let results = map.results(&f);
    draft.finish(module, results)
}
