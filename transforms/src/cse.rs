//! Common subexpressions: equal equations are computed once.
//!
//! One walk with a hash table from (primitive, operands) to outputs. Since functions are immutable
//! and calls hold function ids, equal calls merge like anything else. Equations with effects stay.

use crate::jvp::{read, same_signature};
use std::collections::HashMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Op};
use tapeloom_ir::{FuncId, Module, Operands, Outputs, Problem};

/// The same function with equal equations merged.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn cse(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let (mut draft, mut map) = same_signature(&f);
    let mut seen: HashMap<(Op, Operands), Outputs> = HashMap::new();
    let mut changed = false;
    for (i, e) in f.equations.iter().enumerate() {
        let operands: Operands = e.operands.iter().map(|a| read(&map, *a)).collect();
        let mut make = |operands| {
            let types: Vec<_> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
            draft.push(e.op.clone(), operands, &types, f.location(i))
        };
        let outputs = if e.op.effects(module) == Effects::Ordered {
            make(operands)
        } else {
            let mut key = (e.op.clone(), operands);
            if planted(Fault::CseKey) {
                key.1.sort_unstable();
            }
            match seen.get(&key) {
                Some(outputs) => {
                    changed = true;
                    outputs.clone()
                }
                None => {
                    let outputs = make(key.1.clone());
                    seen.insert(key, outputs.clone());
                    outputs
                }
            }
        };
        for (new, old) in outputs.iter().zip(&e.outputs) {
            map[*old] = Some((*new).into());
        }
    }
    if !changed {
        return Ok(id);
    }
    draft.finish(module, f.results.iter().map(|r| read(&map, *r)).collect())
}
