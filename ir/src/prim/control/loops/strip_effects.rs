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

/// Returns `f` without its ordered effects (calls of Rust functions without results), including those of
/// functions that it runs. Derivative rules are unchanged.
pub(super) fn silent(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    silent_once(module, f, &mut OrderedMap::default())
}

/// Implements `silent`, with a memo of copies in `made`: without the memo, shared callees would double the work
/// at every level of calls.
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
            // The equation is a Rust call with an ordered effect; it has no results, so nothing replaces it.
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

/// Returns whether `f` runs, at any depth, an equation with a derivative rule such that the equation's function
/// or its rule has effects that a user can observe.
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
