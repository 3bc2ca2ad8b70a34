//! Removes the ordered effects of a function. Recomputation must not perform an effect again that the first run
//! performed.

use crate::fault::{Fault, planted};
use crate::lang::function::FuncId;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::remap::{Atoms, rebuild};
use crate::lang::stack::deeper;
use crate::map::{OrderedMap, OrderedSet};
use crate::prim::{Effects, Region, Role};

/// Returns the function without its ordered effects, including the effects of functions that it runs.
/// Derivative rules are unchanged.
pub(super) fn silent(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    silent_once(module, f, &mut OrderedMap::default())
}

/// Memoises copies: without that, shared callees would double the work at every level of calls.
fn silent_once(
    module: &mut Module,
    f: FuncId,
    made: &mut OrderedMap<FuncId, FuncId>,
) -> Result<FuncId, Problem> {
    if module.effects(f) != Effects::Ordered || planted(Fault::EffectTwice) {
        return Ok(f);
    }
    if let Some(silent) = made.get(&f) {
        return Ok(*silent);
    }
    let told = module.get(f);
    let copy = rebuild(&told, |draft, i, operands| {
        let op = &told.equations[i].op;
        if op.effects(module) != Effects::Ordered {
            return Ok(draft.copy(&told, i, operands));
        }
        if op.host().is_some() {
            // An ordered effect has no results.
            return Ok(Atoms::new());
        }
        let mut again = |r: &Region| match r.role.runs() {
            true => deeper(|| silent_once(module, r.function, made)),
            false => Ok(r.function),
        };
        let functions: Result<Vec<FuncId>, Problem> = op.regions().iter().map(&mut again).collect();
        Ok(draft.copy_as(op.with_regions(&functions?), &told, i, operands))
    })?;
    let silent = module.add(copy)?;
    made.insert(f, silent);
    Ok(silent)
}

/// Returns whether the function runs a function with a derivative rule where either has observable effects.
pub(super) fn rules_tell(module: &Module, f: FuncId) -> bool {
    let mut met = OrderedSet::default();
    let mut left = vec![f];
    while let Some(f) = left.pop() {
        if !met.insert(f) {
            continue;
        }
        for e in &module.function(f).equations {
            let regions = e.op.regions();
            let ruled = regions.iter().any(|r| r.role == Role::Rule);
            let told = regions.iter().map(|r| r.function).filter(|f| module.is_seen(*f));
            let before = left.len();
            left.extend(told);
            if ruled && left.len() > before {
                return true;
            }
        }
    }
    false
}
