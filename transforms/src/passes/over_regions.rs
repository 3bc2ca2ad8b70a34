//! Applies a pass to a function and to all functions that it runs.
//!
//! A pass sees one function at a time. [`over_all_functions`] runs a pass on a function and then on every function that
//! the result runs, once per function, and replaces the old functions by the new ones. Signatures do not change, so
//! callers need no other change.
//!
//! Derivative rules stay unchanged. They are not run; a derivative that uses a rule inlines or calls it, and
//! passes reach it there.

use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Module, OrderedMap, Problem, rebuild};

/// A function to which the pass has been applied and whose callees are still to be visited.
struct Visit {
    old: FuncId,
    new: FuncId,
    /// The index of the next equation whose functions are visited.
    next: usize,
}

/// The type of a pass that [`over_all_functions`] applies to one function.
type OnFunction<'a> =
    dyn FnMut(&mut dyn Regions, &mut Module, FuncId) -> Result<FuncId, Problem> + 'a;

/// Applies the pass `run` to function `id` and to all functions that the result runs, and returns the new function.
/// Uses a stack of its own in place of recursion, since calls nest deeply.
pub(crate) fn over_all_functions(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    run: &mut OnFunction<'_>,
) -> Result<FuncId, Problem> {
    let mut done: OrderedMap<FuncId, FuncId> = OrderedMap::default();
    let mut visits = vec![Visit { old: id, new: run(regions, module, id)?, next: 0 }];
    while let Some(visit) = visits.last_mut() {
        let Some(e) = module.function(visit.new).equations.get(visit.next) else {
            let new = renamed(module, visit.new, &done)?;
            done.insert(visit.old, new);
            visits.pop();
            continue;
        };
        let waits = |f: &FuncId| !done.contains_key(f);
        let inside = e.runs().find(waits);
        match inside {
            Some(old) => visits.push(Visit { old, new: run(regions, module, old)?, next: 0 }),
            None => visit.next += 1,
        }
    }
    Ok(done[&id])
}

/// Returns a copy of function `id` that runs, in place of each old function, the new one that `done` lists.
fn renamed(
    module: &mut Module,
    id: FuncId,
    done: &OrderedMap<FuncId, FuncId>,
) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let after = |inside: FuncId| done.get(&inside).copied().unwrap_or(inside);
    if f.equations.iter().all(|e| e.runs().all(|inside| after(inside) == inside)) {
        return Ok(id);
    }
    let renamed = rebuild(&f, |draft, i, operands| {
        // A function that is run by one equation may be the derivative rule of another equation. It is replaced only
        // where it is run; rules stay unchanged.
        let op = f.equations[i].op.with_runs(|inside| Ok(after(inside)))?;
        Ok(draft.copy_as(op, &f, i, operands))
    })?;
    module.add(renamed)
}
