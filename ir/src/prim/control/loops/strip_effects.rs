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

/// Returns `f` without its ordered effects (calls of Rust functions without results). The effects of functions that `f`
/// runs are removed, too; derivative rules are unchanged.
pub(super) fn without_effects(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    strip_once(module, f, &mut OrderedMap::default())
}

/// Implements `without_effects`, with a memo of copies in `made`: without the memo, shared callees would double the
/// work at every level of calls.
fn strip_once(
    module: &mut Module,
    f: FuncId,
    made: &mut OrderedMap<FuncId, FuncId>,
) -> Result<FuncId, Problem> {
    if module.effects(f) != Effects::Ordered || planted(Fault::EffectTwice) {
        return Ok(f);
    }
    if let Some(stripped) = made.get(&f) {
        return Ok(*stripped);
    }
    let original = module.get(f);
    let copy = rebuild(&original, |draft, i, operands| {
        let op = &original.equations[i].op;
        if op.effects(module) != Effects::Ordered {
            return Ok(draft.copy(&original, i, operands));
        }
        if op.host().is_some() {
            // The equation is a Rust call with an ordered effect; it has no results, so nothing replaces it.
            return Ok(Atoms::new());
        }
        let mut again = |r: &Region| match r.role.runs() {
            true => deeper(|| strip_once(module, r.function, made)),
            false => Ok(r.function),
        };
        let functions: Result<Vec<FuncId>, Problem> = op.regions().iter().map(&mut again).collect();
        Ok(draft.copy_as(op.with_regions(&functions?), &original, i, operands))
    })?;
    let stripped = module.add(copy)?;
    made.insert(f, stripped);
    Ok(stripped)
}

/// Returns whether `f` runs, at any depth, an equation with a derivative rule and with effects that a user can observe.
/// The effects may be those of the equation's function or of its rule.
pub(super) fn rules_have_effects(module: &Module, f: FuncId) -> bool {
    let mut met = OrderedSet::default();
    let mut left = vec![f];
    while let Some(f) = left.pop() {
        if !met.insert(f) {
            continue;
        }
        for e in &module.function(f).equations {
            let regions = e.op.regions();
            let ruled = regions.iter().any(|r| r.role == Role::Rule);
            let observable = regions.iter().map(|r| r.function).filter(|f| module.is_seen(*f));
            let before = left.len();
            left.extend(observable);
            if ruled && left.len() > before {
                return true;
            }
        }
    }
    false
}
