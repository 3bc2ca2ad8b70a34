//! Common subexpression elimination: equal equations are computed once.
//!
//! The pass is one walk with a hash table from (primitive, operands) to outputs. Since functions are immutable and calls
//! hold function ids, equal calls merge like other equations, even if the equations of the called functions differ in
//! phase (forward or reverse pass). Equations with effects stay.

use crate::passes::pass::{Pass, Run};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::map::Entry;
use tapeloom_ir::prim::{Effects, Exactness, Op};
use tapeloom_ir::{Atoms, FuncId, Module, Operands, OrderedMap, Problem, rebuild};

/// The entry of the pass `cse` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "cse",
    about: "equal equations are computed once",
    exactness: Exactness::Exact,
    run: Run::Function(|_, module, f| cse(module, f)),
};

/// Returns a copy of function `id` without pure equations that equal an earlier equation; the outputs of the earlier
/// equation replace the outputs of the removed one.
pub(crate) fn cse(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let mut seen: OrderedMap<(Op, Operands), Atoms> = OrderedMap::default();
    let mut changed = false;
    let merged = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        if op.effects(module) != Effects::Pure {
            return Ok(draft.copy(&f, i, operands));
        }
        let mut key = (module.unphased(op), operands);
        if planted(Fault::CseKey) {
            key.1.sort_unstable();
        }
        Ok(match seen.entry(key) {
            Entry::Occupied(known) => {
                changed = true;
                known.get().clone()
            }
            Entry::Vacant(new) => {
                let operands = new.key().1.clone();
                new.insert(draft.copy(&f, i, operands)).clone()
            }
        })
    })?;
    if changed { module.add(merged) } else { Ok(id) }
}
