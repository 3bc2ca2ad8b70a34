//! Common subexpressions: equal equations are computed once.
//!
//! One walk with a hash table from (primitive, operands) to outputs. Since functions are immutable
//! and calls hold function ids, equal calls merge like anything else. Equations with effects stay.

use std::collections::HashMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Op};
use tapeloom_ir::{Atoms, FuncId, Module, Operands, Problem, rebuild};

/// The same function with equal equations merged.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn cse(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let mut seen: HashMap<(Op, Operands), Atoms> = HashMap::new();
    let mut changed = false;
    let merged = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        if op.effects(module) != Effects::Pure {
            return Ok(draft.copy(&f, i, operands));
        }
        let mut key = (op.clone(), operands);
        if planted(Fault::CseKey) {
            key.1.sort_unstable();
        }
        if let Some(outputs) = seen.get(&key) {
            changed = true;
            return Ok(outputs.clone());
        }
        let outputs = draft.copy(&f, i, key.1.clone());
        seen.insert(key, outputs.clone());
        Ok(outputs)
    })?;
    if changed { module.add(merged) } else { Ok(id) }
}
