//! Drops shardings: an equation that states how its result is divided among devices is replaced by its operand.

use crate::passes::pass::{Pass, Run};
use smallvec::smallvec;
use tapeloom_ir::prim::{Exactness, Lowering};
use tapeloom_ir::{Equation, FuncId, Function, Module, Problem, rebuild};

/// The entry of the pass `drop_shardings` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "drop_shardings",
    about: "values are no longer divided among devices",
    exactness: Exactness::Exact,
    run: Run::Function(|_, module, f| drop_shardings(module, f)),
};

fn drop_shardings(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let divides = |module: &Module, f: &Function, e: &Equation| {
        matches!(e.lower(module, f), Lowering::Alias { sharding: Some(_), .. })
    };
    if !f.equations.iter().any(|e| divides(module, &f, e)) {
        return Ok(id);
    }
    let without = rebuild(&f, |draft, i, operands| {
        Ok(match divides(module, &f, &f.equations[i]) {
            true => smallvec![operands[0]],
            false => draft.copy(&f, i, operands),
        })
    })?;
    module.add(without)
}
