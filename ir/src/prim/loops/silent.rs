//! A function that tells nothing: what runs again has been seen when it ran first.

use crate::copying::{Atoms, rebuild};
use crate::depth::deeper;
use crate::fault::{Fault, planted};
use crate::function::FuncId;
use crate::module::Module;
use crate::prim::{Effects, Op, Region, Role};
use crate::problem::Problem;

/// The same function without its ordered effects, in what it runs as well. Rules stay as they are written.
pub(super) fn silent(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    if module.effects(f) != Effects::Ordered || planted(Fault::EffectTwice) {
        return Ok(f);
    }
    let f = module.get(f);
    let copy = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        if op.effects(module) != Effects::Ordered {
            return Ok(draft.copy(&f, i, operands));
        }
        if op.host().is_some() {
            // What is ordered gives nothing.
            return Ok(Atoms::new());
        }
        Ok(draft.copy_as(inside(module, op)?, &f, i, operands))
    })?;
    module.add(copy)
}

/// The primitive, whose functions tell nothing.
fn inside(module: &mut Module, op: &Op) -> Result<Op, Problem> {
    let mut again = |r: &Region| match r.role.runs() {
        true => deeper(|| silent(module, r.function)),
        false => Ok(r.function),
    };
    let functions: Result<Vec<FuncId>, Problem> = op.regions().iter().map(&mut again).collect();
    Ok(op.with_regions(&functions?))
}

/// Whether a function that has a derivative rule tells something where it runs, or its rule does.
pub(super) fn rules_tell(module: &Module, f: FuncId) -> bool {
    module.function(f).equations.iter().any(|e| {
        let regions = e.op.regions();
        let ruled = regions.iter().any(|r| r.role == Role::Rule);
        let mut seen = regions.iter().filter(|r| module.is_seen(r.function));
        seen.any(|r| ruled || deeper(|| rules_tell(module, r.function)))
    })
}
